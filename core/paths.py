"""Reading values out of JSON documents by direct key, dotted path or indexed path."""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class _Missing:
    """Told apart from null, which is a value."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@lru_cache(maxsize=1024)
def parse_path(path: str) -> tuple[str | int, ...] | None:
    """The steps of `a.b[0].c`, or None if it is not a path."""
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
    """The value at `path`, or MISSING. A key spelled exactly like the path comes first."""
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
    """The document without these keys, through nested maps down to `depth`."""
    if not isinstance(document, dict) or depth == 0:
        return document
    return {
        key: without(value, names, depth - 1) for key, value in document.items() if key not in names
    }


def _has(value: Any, step: str | int) -> bool:
    if isinstance(step, str):
        return isinstance(value, dict) and step in value
    return isinstance(value, list) and step < len(value)


def same(expected: Any, actual: Any) -> bool:
    """Equality as JSON sees it: true is not 1, 1 is 1.0."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    return bool(expected == actual)
