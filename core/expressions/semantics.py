"""What operators mean in expressions: total on JSON values, bounded in time, errors with a place.

A missing value is null. Null is false in logic, 0 in arithmetic, nothing in text, and never less or
greater than anything. Integers and decimals are numbers alike; true is no number.
"""

import operator
from collections.abc import Callable
from typing import Any, cast

MAX_TEXT = 65_536
"""Characters of a text that a function reads."""
MAX_JOINED_TEXT = 16_384
"""Characters of a text that `+` makes."""
MAX_ITEMS = 1_000
"""Items of lists and maps that `all`, `exists` and `in` look at, or one evaluation compares."""
MAX_SHORT_TEXT = 256
"""Characters that take no time to speak of: order looks at so many, names of maps have so many."""
MAX_COMPARED_TEXT = 524_288
"""Characters of longer texts that one evaluation compares, and joins within `all` and `exists`."""
MAX_NUMBER = 2**63


class EvaluationError(ValueError):
    """An expression has no value for this record; `at` is the position, from 0."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem, at)
        self.problem, self.at = problem, at

    def __str__(self) -> str:
        return f"character {self.at + 1}: {self.problem}"


def kind_of(value: Any) -> str:
    """Name the type of a value for people."""
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "a map"


_NUMBERS = frozenset({int, float})
_ORDERED = frozenset({int, float, str})


def truth(value: Any, at: int) -> bool:
    """Return a condition's value; null is false."""
    if value is True or value is False:
        return value
    if value is None:
        return False
    raise EvaluationError(f"expected true or false, found {kind_of(value)}", at)


def field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def has_field(value: Any, name: str) -> bool:
    return isinstance(value, dict) and name in value


def item(value: Any, key: Any, at: int) -> Any:
    """Return an item of a list or a map; null if there is none."""
    if isinstance(value, dict):
        if not isinstance(key, str):
            return None
        if len(key) > MAX_SHORT_TEXT:
            raise EvaluationError(f"a name of more than {MAX_SHORT_TEXT} characters", at)
        return value.get(key)
    if isinstance(value, list) and type(key) is int:
        return value[key] if 0 <= key < len(value) else None
    return None


def equal(left: Any, right: Any) -> bool:
    """Compare as JSON does, where one is no list or map: true is not 1, but 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


class Comparison:
    """Compares documents; all comparisons together have a number of items and characters."""

    __slots__ = ("_chars_left", "_left")

    def __init__(self) -> None:
        self._left = MAX_ITEMS
        self._chars_left = MAX_COMPARED_TEXT

    def equal(self, left: Any, right: Any, at: int) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            if len(left) != len(right):
                return False
            self.spend_text(left, at)
            return left == right
        if not isinstance(left, list | dict) or not isinstance(right, list | dict):
            return equal(left, right)
        if len(left) != len(right):
            return False
        self.spend(len(left), at)
        if isinstance(left, dict) and isinstance(right, dict):
            return left.keys() == right.keys() and all(
                self.equal(value, right[name], at) for name, value in left.items()
            )
        if isinstance(left, list) and isinstance(right, list):
            return all(self.equal(one, other, at) for one, other in zip(left, right, strict=True))
        return False

    def contains(self, container: Any, wanted: Any, at: int) -> bool:
        """Evaluate `wanted in container`: an item of a list, or a name of a map."""
        if container is None:
            return False
        if isinstance(container, dict):
            if not isinstance(wanted, str):
                return False
            self.spend_text(wanted, at)
            return wanted in container
        if not isinstance(container, list):
            raise EvaluationError(f"in expects a list or a map, found {kind_of(container)}", at)
        self.spend(len(container), at)
        if isinstance(wanted, str) and len(wanted) <= MAX_SHORT_TEXT:
            return wanted in container  # a text equals nothing but the same text
        return any(self.equal(wanted, one, at) for one in container)

    def spend(self, items: int, at: int) -> None:
        self._left -= items
        if self._left < 0:
            raise EvaluationError(f"more than {MAX_ITEMS:,} items to compare", at)

    def spend_text(self, text: str, at: int) -> None:
        if len(text) > MAX_SHORT_TEXT:
            self._chars_left -= len(text)
            if self._chars_left < 0:
                raise EvaluationError(f"more than {MAX_COMPARED_TEXT:,} characters to compare", at)


def equal_within(comparison: Comparison, left: Any, right: Any, at: int) -> bool:
    return comparison.equal(left, right, at)


def contains_within(comparison: Comparison, container: Any, wanted: Any, at: int) -> bool:
    return comparison.contains(container, wanted, at)


def _ordered(symbol: str, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any, int], bool]:
    def ordered(left: Any, right: Any, at: int) -> bool:
        kind, other = type(left), type(right)
        if kind is str is other and len(left) > MAX_SHORT_TEXT < len(right):
            return compare(*_beginnings(left, right, at))
        if (kind is other and kind in _ORDERED) or (kind in _NUMBERS and other in _NUMBERS):
            return compare(left, right)
        if left is None or right is None:
            return False
        raise EvaluationError(f"{kind_of(left)} {symbol} {kind_of(right)} has no meaning", at)

    return ordered


def _beginnings(left: str, right: str, at: int) -> tuple[str, str]:
    """Return as much of two long texts as decides their order."""
    one, other = left[:MAX_SHORT_TEXT], right[:MAX_SHORT_TEXT]
    if one == other:
        raise EvaluationError(
            f"texts to order that have the same first {MAX_SHORT_TEXT} characters", at
        )
    return one, other


less = _ordered("<", operator.lt)
less_or_equal = _ordered("<=", operator.le)
greater = _ordered(">", operator.gt)
greater_or_equal = _ordered(">=", operator.ge)


def is_changed(changed: Any, wanted: Any, at: int) -> bool:
    """Evaluate `changed('field')`."""
    if not isinstance(changed, list) or not isinstance(wanted, str):
        return False
    if len(changed) > MAX_ITEMS:
        raise EvaluationError(f"a list of more than {MAX_ITEMS:,} items", at)
    return wanted in changed


def is_one_of(wanted: Any, values: list[Any]) -> bool:
    """Evaluate `wanted in […]` for values that are written out."""
    if isinstance(wanted, str):
        return wanted in values
    return not isinstance(wanted, list | dict) and any(equal(wanted, one) for one in values)


def items_of(value: Any, at: int) -> list[Any]:
    """Return what `all` and `exists` look at: the items of a list, or the names of a map."""
    if value is None:
        return []
    if not isinstance(value, list | dict):
        raise EvaluationError(f"expected a list, found {kind_of(value)}", at)
    if len(value) > MAX_ITEMS:
        raise EvaluationError(f"a list of more than {MAX_ITEMS:,} items", at)
    return list(value)


def number(value: Any, at: int) -> int | float:
    kind = type(value)
    if kind is float:
        return cast("float", value)
    if kind is int:  # of any length in JSON
        return in_range(value, at)
    if value is None:
        return 0
    raise EvaluationError(f"expected a number, found {kind_of(value)}", at)


def in_range(value: float, at: int) -> int | float:
    if not -MAX_NUMBER <= value < MAX_NUMBER:  # not a number, too
        raise EvaluationError("the result is out of the range of numbers", at)
    return value


def text_of(value: Any, at: int) -> str:
    """Return a value as a part of a text; lists and maps are none."""
    match value:
        case None:
            return ""
        case str():
            return bounded(value, at)
        case bool():
            return "true" if value else "false"
        case int():
            return str(in_range(value, at))
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
        case _:
            raise EvaluationError(f"expected a text or a number, found {kind_of(value)}", at)


def bounded(text: str, at: int) -> str:
    if len(text) > MAX_TEXT:
        raise EvaluationError(f"a text of more than {MAX_TEXT:,} characters", at)
    return text


def matcher(matches: Callable[[str], bool], at: int) -> Callable[[Any], bool]:
    """Return a function of any value that says whether its text matches a pattern."""

    def match(value: Any) -> bool:
        text = text_of(value, at)
        try:
            return matches(text)
        except ValueError as error:
            raise EvaluationError(str(error), at) from None

    return match


def add(left: Any, right: Any, at: int) -> Any:
    """Add numbers; with a text on either side, join texts."""
    if isinstance(left, str) or isinstance(right, str):
        one, other = text_of(left, at), text_of(right, at)
        if len(one) + len(other) > MAX_JOINED_TEXT:
            raise EvaluationError(f"a text of more than {MAX_JOINED_TEXT:,} characters", at)
        return one + other
    return in_range(number(left, at) + number(right, at), at)


def add_within(comparison: Comparison, left: Any, right: Any, at: int) -> Any:
    """Add within `all` and `exists`, where many texts could be joined."""
    joined = add(left, right, at)
    if isinstance(joined, str):
        comparison.spend_text(joined, at)
    return joined


def subtract(left: Any, right: Any, at: int) -> Any:
    return in_range(number(left, at) - number(right, at), at)


def multiply(left: Any, right: Any, at: int) -> Any:
    return in_range(number(left, at) * number(right, at), at)


def divide(left: Any, right: Any, at: int) -> Any:
    """Divide; two integers that divide evenly give an integer."""
    over, under = number(left, at), number(right, at)
    if under == 0:
        raise EvaluationError("division by zero", at)
    if isinstance(over, int) and isinstance(under, int) and over % under == 0:
        return in_range(over // under, at)
    return in_range(over / under, at)


def remainder(left: Any, right: Any, at: int) -> Any:
    """Return the remainder of a division, with the sign of `left`."""
    over, under = number(left, at), number(right, at)
    if under == 0:
        raise EvaluationError("division by zero", at)
    rest = abs(over) % abs(under)
    return -rest if over < 0 else rest


def negate(value: Any, at: int) -> Any:
    return in_range(-number(value, at), at)


def date_of(now: str) -> str:
    """Return the date of a timestamp."""
    return now[:10]
