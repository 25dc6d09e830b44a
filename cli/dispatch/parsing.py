"""What is typed about events and deliveries, as the API takes it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote

import typer

from cli.shell.durations import parse_duration
from cli.shell.errors import CommandError, InputError
from cli.shell.problems import ProblemResponseError
from core.dispatch.subscription import is_code

LimitOption = Annotated[int, typer.Option(min=1, max=500, help="How many on one page.")]
CursorOption = Annotated[str | None, typer.Option(help="Go on where a page ended.")]


def join_path(base: str, *parts: str) -> str:
    """The path of one thing, whatever its name is made of."""
    return "/".join([base, *(quote(part, safe=":") for part in parts)])


@contextmanager
def explain_not_found(sentence: str) -> Iterator[None]:
    """Say in one sentence, with what to do, that something is not there."""
    try:
        yield
    except ProblemResponseError as problem:
        if problem.status != 404:
            raise
        raise CommandError(sentence) from problem


def require_code(text: str, what: str) -> str:
    """A code as it may be given to something new."""
    if not is_code(text):
        raise InputError(
            f"'{text}' is no code for a {what}: lower-case letters, digits and dashes, as in "
            "billing-eu."
        )
    return text


def parse_pairs(given: Iterable[str], what: str) -> list[tuple[str, str]]:
    """KEY=VALUE as it was typed, once for each."""
    pairs: list[tuple[str, str]] = []
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise InputError(f"'{text}' is no {what}: write KEY=VALUE.")
        pairs.append((key, value))
    return pairs


def parse_time(text: str, now: datetime) -> str:
    """A moment: so long ago, as in 10m, or a date with or without a time of day."""
    if text[:4].isdigit() and text[4:5] == "-":
        return _moment(_dated(text))
    return _moment(now - parse_duration(text))


def parse_seconds(text: str | None) -> int | None:
    """A duration in whole seconds, if one is given."""
    if text is None:
        return None
    seconds = parse_duration(text).total_seconds()
    if seconds != round(seconds):
        raise InputError(f"'{text}' must be whole seconds.")
    return round(seconds)


def encode_with_raw(fields: Mapping[str, Any], name: str, text: str | None) -> bytes:
    """A JSON object of what is given, and one member as it was written, digit by digit."""
    given = {key: value for key, value in fields.items() if value is not None}
    document = json.dumps(given)
    if text is None:
        return document.encode()
    return f"{document[:-1]}, {json.dumps(name)}: {text}}}".encode()


def _dated(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        told = f"'{text}' is no time: write for example 10m, 2d or 2026-01-31T12:00."
        raise InputError(told) from error
    return moment if moment.tzinfo else moment.astimezone()  # the clock of this machine


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
