"""What is wrong with one field, in words for the person who wrote the request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PLACES = frozenset({"body", "query", "path", "header"})
# The forms that a value may have, where there are two; see wire/gathers.py.
_FORMS = frozenset({"(name)", "(resource)"})
# Where a field of the value itself says its kind, that is no step on the way to another.
_KINDS = frozenset({("auth", "bearer"), ("auth", "basic")})
# Not even their author is shown these again: an answer may be kept where a request is not.
_SECRETS = frozenset({"token", "password", "secret"})
_SHOWN = 100
# pydantic's sentences begin like this; the rest says what is expected.
_OPENINGS = (
    "Value error, ",
    "Assertion failed, ",
    "Input should be ",
    "Input should ",
    "String should ",
)
_WITHOUT_VALUE = frozenset({"missing", "extra_forbidden", "value_error", "assertion_error"})


@dataclass(frozen=True, slots=True)
class FieldError:
    """The field, what would be right there, and what was there instead."""

    field: str
    expected: str
    got: Any = None

    def __str__(self) -> str:
        return f"{self.field}: {self.expected}"

    def document(self) -> dict[str, Any]:
        """As it stands in a problem."""
        body = {"field": self.field, "expected": self.expected}
        return body if self.got is None else body | {"got": self.got}


def field_errors_of(errors: Sequence[Any], within: str = "") -> list[FieldError]:
    """Pydantic's errors, each with the path of its field as the caller wrote it."""
    return [_field_error(error, within) for error in errors]


def _field_error(error: Mapping[str, Any], within: str) -> FieldError:
    kind, loc = str(error["type"]), error["loc"]
    is_hidden = kind in _WITHOUT_VALUE or bool(_SECRETS.intersection(loc))
    got = None if is_hidden else _brief(error.get("input"))
    return FieldError(_path(loc, within), _expected(kind, str(error["msg"])), got)


def _expected(kind: str, message: str) -> str:
    match kind:
        case "missing":
            return "is required"
        case "extra_forbidden":
            return "there is no such field"
        case _:
            for opening in _OPENINGS:
                message = message.removeprefix(opening)
            return message


def _path(parts: Sequence[str | int], within: str) -> str:
    path = within
    for index, part in enumerate(parts):
        if (index == 0 and part in _PLACES) or part in _FORMS:
            continue
        if index and (parts[index - 1], part) in _KINDS:
            continue
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path or "body"


def _brief(value: Any) -> Any:
    """Enough to recognise the value; never a whole document."""
    match value:
        case str() if len(value) > _SHOWN:
            return value[:_SHOWN] + "…"
        case str() | bool() | float():
            return value
        case int() if -(2**63) <= value < 2**64:
            return value
        case dict():
            return "an object"
        case list() | tuple():
            return "a list"
        case None:
            return "null"
        case _:
            return type(value).__name__
