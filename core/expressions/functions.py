"""The functions of expressions. Each takes its arguments and its position in the text."""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, NamedTuple

from core.expressions.semantics import (
    EvaluationError,
    greater,
    in_range,
    kind_of,
    less,
    number,
    text_of,
)

MAX_PLACES = 15
MAX_CASE_TEXT = 4_096
"""Characters that UPPER and LOWER read: those beyond ASCII take a hundred times as long."""
MAX_NUMBER_TEXT = 400


class FunctionSignature(NamedTuple):
    """How many arguments a function takes, what it costs, and what evaluates it."""

    call: Callable[..., Any]
    arguments: int
    reads_text: bool = False
    """Whether its time grows with the length of a text."""
    is_condition: bool = False
    reads_last: bool = False
    """Whether its time grows with the length of its last argument, a text."""


def is_blank(value: Any, _: int) -> bool:
    return value is None or value in ("", [], {})


def blank_value(value: Any, other: Any, at: int) -> Any:
    return other if is_blank(value, at) else value


def length(value: Any, at: int) -> int:
    """Count the characters of a text, or the items of a list or map; null has none."""
    if value is None:
        return 0
    if isinstance(value, str | list | dict):
        return len(value)
    return len(text_of(value, at))


def contains_text(text: Any, part: Any, at: int) -> bool:
    return text_of(part, at) in text_of(text, at)


def upper(text: Any, at: int) -> str:
    return _case_text(text, at).upper()


def lower(text: Any, at: int) -> str:
    return _case_text(text, at).lower()


def _case_text(value: Any, at: int) -> str:
    text = text_of(value, at)
    if len(text) > MAX_CASE_TEXT and not text.isascii():
        raise EvaluationError(f"a text beyond ASCII of more than {MAX_CASE_TEXT:,} characters", at)
    return text


def trim(text: Any, at: int) -> str:
    return text_of(text, at).strip()


def value_of(text: Any, at: int) -> int | float | None:
    """Read a number from a text; null stays null."""
    if text is None or not isinstance(text, str):
        return None if text is None else number(text, at)
    try:
        found = float(text if len(text) <= MAX_NUMBER_TEXT else "")
    except ValueError:
        raise EvaluationError(f"{text[:50]!r} is not a number", at) from None
    in_range(found, at)
    return int(found) if found.is_integer() else found


def round_to(value: Any, places: Any, at: int) -> int | float:
    """Round half away from zero, as people do."""
    digits = number(places, at)
    if not isinstance(digits, int) or not 0 <= digits <= MAX_PLACES:
        raise EvaluationError(f"ROUND expects 0 to {MAX_PLACES} places", at)
    try:
        unit = Decimal(1).scaleb(-digits)
        rounded = Decimal(repr(number(value, at))).quantize(unit, ROUND_HALF_UP)
    except InvalidOperation:  # more digits than a decimal holds: there is nothing to round
        return number(value, at)
    return int(rounded) if digits == 0 else float(rounded)


def absolute(value: Any, at: int) -> int | float:
    return in_range(abs(number(value, at)), at)


def largest(left: Any, right: Any, at: int) -> Any:
    """Return the greater of two values; null counts as nothing."""
    if left is None or right is None:
        return right if left is None else left
    return right if less(left, right, at) else left


def smallest(left: Any, right: Any, at: int) -> Any:
    """Return the smaller of two values; null counts as nothing."""
    if left is None or right is None:
        return right if left is None else left
    return right if greater(left, right, at) else left


def days_between(later: Any, earlier: Any, at: int) -> int | None:
    """Count the days from `earlier` to `later`; null if one is null."""
    if later is None or earlier is None:
        return None
    return (_day(later, at) - _day(earlier, at)).days


def starts_with(text: Any, start: Any, at: int) -> bool:
    return text_of(text, at).startswith(text_of(start, at))


def ends_with(text: Any, end: Any, at: int) -> bool:
    return text_of(text, at).endswith(text_of(end, at))


def _day(value: Any, at: int) -> date:
    try:
        return datetime.fromisoformat(value).date()
    except (TypeError, ValueError):
        shown = repr(value[:50]) if isinstance(value, str) else kind_of(value)
        raise EvaluationError(f"{shown} is not a date such as 2026-01-31", at) from None


FUNCTION_TABLE: Mapping[str, FunctionSignature] = {
    "ISBLANK": FunctionSignature(is_blank, 1, is_condition=True),
    "BLANKVALUE": FunctionSignature(blank_value, 2),
    "LEN": FunctionSignature(length, 1),
    "CONTAINS": FunctionSignature(contains_text, 2, reads_text=True, is_condition=True),
    "UPPER": FunctionSignature(upper, 1, reads_text=True),
    "LOWER": FunctionSignature(lower, 1, reads_text=True),
    "TRIM": FunctionSignature(trim, 1, reads_text=True),
    "TEXT": FunctionSignature(text_of, 1),
    "VALUE": FunctionSignature(value_of, 1),
    "ROUND": FunctionSignature(round_to, 2),
    "ABS": FunctionSignature(absolute, 1),
    "MAX": FunctionSignature(largest, 2),
    "MIN": FunctionSignature(smallest, 2),
    "DATEDIFF": FunctionSignature(days_between, 2),
}
METHOD_TABLE: Mapping[str, FunctionSignature] = {
    "size": FunctionSignature(length, 1),
    "contains": FunctionSignature(contains_text, 2, reads_text=True, is_condition=True),
    "startsWith": FunctionSignature(starts_with, 2, is_condition=True, reads_last=True),
    "endsWith": FunctionSignature(ends_with, 2, is_condition=True, reads_last=True),
}
