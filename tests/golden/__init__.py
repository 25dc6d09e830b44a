"""What users read, word for word: the OpenAPI document and the help of every command.

`python -m tests.golden` writes both anew; the difference is then part of the commit.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command
from typer.testing import CliRunner

from cli.commands import app as cli_app
from cli.shell.lazy import LazyCommand
from core.shared.config import Config
from serve_app.api import create_app

FOLDER = Path(__file__).parent
OPENAPI = FOLDER / "openapi.json"
HELP = FOLDER / "help.txt"

_PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", "TERMINAL_WIDTH": "100"}


def openapi_text() -> str:
    """Return the OpenAPI document as it is served, one key a line."""

    async def no_client() -> Any:
        raise AssertionError("the document needs no actors")

    document = create_app(no_client, Config(dsn="")).openapi()
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def help_text() -> str:
    """Return the help of `muster` and of each of its commands, in the order of the lists."""
    runner = CliRunner()
    root = get_command(cli_app)
    pages = []
    for words in _commands(root, ()):
        result = runner.invoke(cli_app, [*words, "--help"], prog_name="muster", env=_PLAIN)
        assert result.exit_code == 0, result.output
        pages.append(f"$ muster {' '.join([*words, '--help'])}\n{_stripped(result.output)}\n")
    return "\n".join(pages)


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield words
    loaded = command._entry.load() if isinstance(command, LazyCommand) else command
    for name, child in getattr(loaded, "commands", {}).items():
        if not child.hidden:
            yield from _commands(child, (*words, name))


def _stripped(output: str) -> str:
    return "\n".join(line.rstrip() for line in output.splitlines()).strip()


def write() -> None:
    """Write both files anew."""
    OPENAPI.write_text(openapi_text(), encoding="utf-8")
    HELP.write_text(help_text(), encoding="utf-8")
    typer.echo(f"{OPENAPI}\n{HELP}")
