"""What is typed, as the API takes it: codes, pairs, moments, durations and credentials."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from cli.shell.durations import parse_duration
from cli.shell.errors import InputError
from cli.shell.json_input import read_secret
from cli.shell.options import option


def join_path(base: str, *parts: str) -> str:
    """Return the path of one resource, whose name may hold any character."""
    return "/".join([base, *(quote(part, safe=":") for part in parts)])


def name_from_code(code: str) -> str:
    """Return a name for people: `Billing eu` for `billing-eu`."""
    return code.replace("-", " ").capitalize()


def parse_pairs(given: Iterable[str], what: str) -> list[tuple[str, str]]:
    """Split texts of the form KEY=VALUE."""
    pairs: list[tuple[str, str]] = []
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise InputError(f"'{text}' is not a {what}: write KEY=VALUE.")
        pairs.append((key, value))
    return pairs


def parse_entries(what: str) -> Callable[[list[str]], list[dict[str, str]]]:
    """Make a converter from KEY=VALUE texts to the API's `[{"key": …, "value": …}]`."""
    return lambda given: [{"key": key, "value": value} for key, value in parse_pairs(given, what)]


def parse_time(text: str, now: datetime | None = None) -> str:
    """Read a moment: a duration before now, as in 10m, or a date with or without a time of day."""
    if text[:4].isdigit() and text[4:5] == "-":
        moment = _dated(text)
    else:
        moment = (now or datetime.now(UTC)) - parse_duration(text)
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_seconds(text: str) -> int:
    """Read a duration in whole seconds."""
    seconds = parse_duration(text).total_seconds()
    if seconds != round(seconds):
        raise InputError(f"'{text}' must be whole seconds.")
    return round(seconds)


def parse_duration_or_zero(text: str) -> float:
    """Read a duration in seconds, which may be 0."""
    return 0.0 if text.strip() in {"0", "0s"} else parse_duration(text).total_seconds()


def encode_with_raw(fields: Mapping[str, Any], name: str, text: str | None) -> bytes:
    """Encode a JSON object with one member exactly as it was written, digit by digit."""
    given = {key: value for key, value in fields.items() if value is not None}
    document = json.dumps(given)
    if text is None:
        return document.encode()
    return f"{document[:-1]}, {json.dumps(name)}: {text}}}".encode()


def parse_headers(given: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise InputError(f"'{text}' is not a header: write NAME=VALUE.")
        headers[name] = value
    return headers


def _bearer(given: str) -> dict[str, str]:
    return {"type": "bearer", "token": read_secret(given)}


def _basic(given: str) -> dict[str, str]:
    username, colon, password = read_secret(given).partition(":")
    if not colon:
        raise InputError("--basic is USER:PASSWORD.")
    return {"type": "basic", "username": username, "password": password}


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialOptions:
    """The headers and credentials of calls that Muster makes."""

    header: list[str] | None = option(
        "A header to send, as NAME=VALUE; repeatable.",
        api="headers",
        convert=parse_headers,
        secret=True,
    )
    bearer: str | None = option(
        "Bearer token to send; @file or - keeps it out of the process list.",
        api="auth",
        convert=_bearer,
        secret=True,
    )
    basic: str | None = option(
        "USER:PASSWORD to send with HTTP Basic; @file or - likewise.",
        api="auth",
        convert=_basic,
        secret=True,
    )


def _dated(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"'{text}' is not a time: write for example 10m, 2d or 2026-01-31T12:00."
        ) from error
    return moment if moment.tzinfo else moment.astimezone()  # the clock of this machine
