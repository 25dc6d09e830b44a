"""JSON and text from the command line: written out, from a file, or from standard input."""

import json
import sys
from pathlib import Path
from typing import Any

from cli.shell.errors import InputError


def read_document(given: str) -> Any:
    """Read `{…}` as it stands, `@path` from a file, `-` from standard input."""
    return _parse(*_text_of(given))


def read_json_text(given: str) -> str:
    """Read JSON as text, checked but not parsed: it is sent digit by digit as it was written."""
    where, text = _text_of(given)
    _parse(where, text)
    return text


def read_secret(given: str) -> str:
    """Read a secret, without the line break that a file ends with."""
    return _text_of(given)[1].strip()


def read_argument(given: str) -> str:
    """Read any text, exactly as it is."""
    return _text_of(given)[1]


def read_text(file: str) -> str:
    """Read a file, or standard input if its name is `-`."""
    return _text_of(file if file == "-" or file.startswith("@") else f"@{file}")[1]


def _parse(where: str, text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{where} is not JSON: {error.msg} at {place}.") from error
    except RecursionError as error:
        raise InputError(f"{where} is nested too deeply.") from error
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}.") from error


def read_object(given: str) -> dict[str, Any]:
    """Read a document that has to be a JSON object."""
    document = read_document(given)
    if not isinstance(document, dict):
        raise InputError(f"Expected a JSON object such as {{…}}, not {json.dumps(document)[:20]}.")
    return document


def _text_of(given: str) -> tuple[str, str]:
    try:
        if given == "-":
            return "Standard input", sys.stdin.buffer.read().decode()
        if given.startswith("@"):
            return given[1:], Path(given[1:]).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"Cannot read {given[1:]}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{given.lstrip('@')} is not UTF-8 text.") from error
    return "The argument", given


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
