"""JSON that a record can hold: texts that Postgres stores, exact numbers, bounded depth."""

import math
from typing import Any

from core.shared.json_limits import MAX_NESTING

MAX_EXPONENT = 40
"""Postgres writes numbers out: 1e308 within a list would take 309 characters, not 5."""
_NUL = "\x00"
_SHORT = (
    f"a number from 1e-{MAX_EXPONENT} to 1e{MAX_EXPONENT}, or its negative, within a list or an "
    "object; a field of type DOUBLE holds any other"
)


class InvalidValueError(ValueError):
    """A field cannot hold a value; `place` is the part of it, such as [3].name."""

    def __init__(self, expected: str, place: str = "") -> None:
        super().__init__(expected, place)
        self.expected, self.place = expected, place


def check_text(value: Any, place: str = "") -> str:
    """Return a text that can be stored.

    Raises:
        InvalidValueError: It is no text, or holds a NUL or half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise InvalidValueError("a text", place)
    if _NUL in value:
        raise InvalidValueError("a text without NUL characters", place)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidValueError("a text without half of a surrogate pair", place) from None
    return value


def check_json(value: Any, place: str = "", depth: int = MAX_NESTING) -> None:
    """Check a document of any form.

    Raises:
        InvalidValueError: A text or a number cannot be stored, or it is nested too deep.
    """
    match value:
        case dict() | list() if depth == 0:
            raise InvalidValueError(f"at most {MAX_NESTING} levels", _short(place))
        case dict():
            for name, item in value.items():
                check_text(name, f"{_short(place)}.(name)")
                check_json(item, f"{place}.{name}", depth - 1)
        case list():
            for index, item in enumerate(value):
                check_json(item, f"{place}[{index}]", depth - 1)
        case str():
            check_text(value, _short(place))
        case float() if not math.isfinite(value):
            raise InvalidValueError("a finite number", _short(place))
        case float() if depth < MAX_NESTING and not _is_short(value):
            raise InvalidValueError(_SHORT, _short(place))
        case int() if not -(2**63) <= value < 2**63:
            raise InvalidValueError("a number of at most 64 bits", _short(place))
        case _:
            return


def _is_short(value: float) -> bool:
    return value == 0 or 10.0**-MAX_EXPONENT <= abs(value) < 10.0**MAX_EXPONENT


def _short(place: str) -> str:
    return place if len(place) <= 100 else f"{place[:100]}…"
