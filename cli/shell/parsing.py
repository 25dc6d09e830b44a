"""What is typed, as the API takes it: codes, pairs, moments, durations and credentials."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from cli.shell.errors import InputError
from cli.shell.json_input import read_secret
from cli.shell.options import option

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_MAX_DURATION = timedelta(days=100 * 365)


def join_path(base: str, *parts: str) -> str:
    """Return the path of one resource, whose name may hold any character."""
    return "/".join([base, *(quote(part, safe=":") for part in parts)])


def name_from_code(code: str) -> str:
    """Return a name for people: `Billing eu` for `billing-eu`."""
    return code.replace("-", " ").capitalize()


def parse_limit(option: str, most: int, text: str) -> int | None:
    """Parse the value of an option: a number from 1 to `most`, or none for no limit."""
    given = text.strip().lower()
    if given == "none":
        return None
    if not given.isdecimal() or not 1 <= int(given) <= most:
        raise InputError(f"{option} is a number from 1 to {most:,}, or none; not '{text}'.")
    return int(given)


def parse_pairs(given: Iterable[str], what: str) -> list[tuple[str, str]]:
    """Split texts of the form NAME=VALUE."""
    pairs: list[tuple[str, str]] = []
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise InputError(f"'{text}' is not a {what}: write NAME=VALUE.")
        pairs.append((name, value))
    return pairs


def parse_entries(what: str) -> Callable[[list[str]], list[dict[str, str]]]:
    """Make a converter from NAME=VALUE texts to the API's `[{"key": …, "value": …}]`."""
    return lambda given: [{"key": key, "value": value} for key, value in parse_pairs(given, what)]


def parse_time(text: str, now: datetime | None = None) -> str:
    """Read a moment: a duration before now, as in 10m, or a date with or without a time of day."""
    try:
        if text[:4].isdigit() and text[4:5] == "-":
            moment = datetime.fromisoformat(text)
        else:
            moment = (now or datetime.now(UTC)) - parse_duration(text)
    except (ValueError, InputError) as error:
        raise InputError(
            f"'{text}' is not a time: write for example 10m, 2d or 2026-01-31T12:00."
        ) from error
    # A date without a zone is meant on the clock of this machine.
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_duration(text: str, *, can_be_zero: bool = False) -> timedelta:
    """Read `90`, `90s`, `30d` or `1h30m`; a bare number means seconds."""
    compact = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        compact += "s"
    if not re.fullmatch(f"(?:{_PART.pattern})+", compact):
        raise InputError(f"'{text}' is not a duration: write for example 90s, 15m, 12h or 30d.")
    try:
        length = sum(
            (timedelta(**{_UNITS[unit]: float(amount)}) for amount, unit in _PART.findall(compact)),
            timedelta(),
        )
    except OverflowError:
        length = timedelta.max
    if length > _MAX_DURATION:
        raise InputError(f"'{text}' is too long: at most 100 years.")
    if not length and not can_be_zero:
        raise InputError(f"'{text}' is too short: more than 0.")
    return length


def parse_seconds(text: str) -> int:
    """Read a duration in whole seconds, which may be 0."""
    seconds = parse_duration(text, can_be_zero=True).total_seconds()
    if seconds != round(seconds):
        raise InputError(f"'{text}' must be whole seconds.")
    return round(seconds)


def encode_with_raw(fields: Mapping[str, Any], name: str, text: str | None) -> bytes:
    """Encode a JSON object with one member exactly as it was written, digit by digit."""
    given = {key: value for key, value in fields.items() if value is not None}
    document = json.dumps(given)
    if text is None:
        return document.encode()
    return f"{document[:-1]}, {json.dumps(name)}: {text}}}".encode()


def parse_headers(given: list[str]) -> dict[str, str]:
    return dict(parse_pairs(given, "header"))


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
        convert=lambda given: {"type": "bearer", "token": read_secret(given)},
        secret=True,
    )
    basic: str | None = option(
        "USER:PASSWORD to send with HTTP Basic; @file or - likewise.",
        api="auth",
        convert=_basic,
        secret=True,
    )
