"""Reads values out of JSON documents by key, dotted path or indexed path."""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import msgspec

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no JSON, or that are nested too deeply."""

# Nine digits exceed any list; int() refuses very long ones.
_STEP = re.compile(r"([^.\[\]]+)|\[([0-9]{1,9})\]")


class _Missing:
    """A sentinel, because null is a value."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


def document_of(payload: bytes) -> Any:
    """Decode JSON; return MISSING if the bytes are not JSON."""
    try:
        return msgspec.json.decode(payload)
    except NOT_JSON:
        return MISSING


_skip = msgspec.json.Decoder(msgspec.Raw)


def is_json(payload: bytes) -> bool:
    """Return True if these bytes are JSON, without building values many times their size."""
    try:
        _skip.decode(payload)
        return payload.isascii() or bool(payload.decode())
    except NOT_JSON:
        return False


def json_or_text(payload: bytes) -> msgspec.Raw | str:
    """Return JSON unchanged and any other bytes as text, so that nothing is hidden."""
    return msgspec.Raw(payload) if is_json(payload) else payload.decode("utf-8", "replace")


@lru_cache(maxsize=1024)
def parse_path(path: str) -> tuple[str | int, ...] | None:
    """Split `a.b[0].c` into its steps; return None if it is not a path."""
    steps: list[str | int] = []
    position = 0
    while position < len(path):
        if position and path[position] == ".":
            position += 1
        match = _STEP.match(path, position)
        if match is None:
            return None
        name, index = match.groups()
        steps.append(name if name is not None else int(index))
        position = match.end()
    return tuple(steps) or None


def find(document: Any, path: str) -> Any:
    """Return the value at `path`, or MISSING. A key spelled exactly like the path goes first."""
    if isinstance(document, dict) and path in document:
        return document[path]
    steps = parse_path(path)
    if steps is None:
        return MISSING
    value = document
    for step in steps:
        if not _has(value, step):
            return MISSING
        value = value[step]
    return value


def without(document: Any, names: Collection[str], depth: int = 32) -> Any:
    """Copy the document without these keys, in nested maps down to `depth` too."""
    if not isinstance(document, dict) or depth == 0:
        return document
    return {
        # Most values are scalars: a call for each would dominate the cost.
        key: without(value, names, depth - 1) if isinstance(value, dict) else value
        for key, value in document.items()
        if key not in names
    }


def without_path(document: Any, path: str) -> Any:
    """Copy the document without the key at `path`. List items stay, so that no other item moves."""
    steps = parse_path(path)
    if steps is None or isinstance(steps[-1], int):
        return document
    return _cut(document, steps)


def _cut(value: Any, steps: tuple[str | int, ...]) -> Any:
    step, rest = steps[0], steps[1:]
    if not _has(value, step):
        return value
    if isinstance(step, int):
        return [*value[:step], _cut(value[step], rest), *value[step + 1 :]]
    if rest:
        return {**value, step: _cut(value[step], rest)}
    return {key: kept for key, kept in value.items() if key != step}


def _has(value: Any, step: str | int) -> bool:
    if isinstance(step, str):
        return isinstance(value, dict) and step in value
    return isinstance(value, list) and step < len(value)


def equal_json(expected: Any, actual: Any) -> bool:
    """Compare as JSON does: true is not 1, but 1 is 1.0."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(
            equal_json(value, actual[key]) for key, value in expected.items()
        )
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(equal_json, expected, actual))
    return bool(expected == actual)
