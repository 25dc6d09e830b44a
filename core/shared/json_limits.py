"""Which JSON documents every parser, encoder and column of the product can carry."""

import math
from typing import Any

MAX_NESTING = 32
"""Of what is written by hand."""
MAX_DEPTH = 64
"""Of any document that is let in."""


def check_plain(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document unchanged; raise ValueError naming the first part that is not plain."""
    _check(document, "", MAX_NESTING)
    return document


def _check(value: Any, place: str, depth: int) -> None:
    match value:
        case dict() | list() if depth == 0:
            raise ValueError(f"{place[:80]}… is nested deeper than {MAX_NESTING} levels")
        case dict():
            for key, item in value.items():
                _check(key, f"the name of {place}.{key}", depth)
                _check(item, f"{place}.{key}".lstrip("."), depth - 1)
        case list():
            for index, item in enumerate(value):
                _check(item, f"{place}[{index}]", depth - 1)
        case str() if not _is_text(value):
            raise ValueError(f"{place!a} holds half of a surrogate pair")
        case float() if not math.isfinite(value):
            raise ValueError(f"{place} is not a finite number")
        case int() if not -(2**63) <= value < 2**64:
            raise ValueError(f"{place} is a number of more than 64 bits")
        case _:
            return


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_deeper(document: Any, levels: int) -> bool:
    """Return True if lists and maps are nested more than `levels` deep."""
    layer = [document] if isinstance(document, dict | list) else []
    for _ in range(levels):
        layer = [
            inner
            for outer in layer
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not layer:
            break
    return bool(layer)
