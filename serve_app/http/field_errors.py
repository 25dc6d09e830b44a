"""Field errors: sentences that tell the author of a request what is wrong with a field."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.dispatch import subscription
from core.events import event_type
from core.shared import tsid

_PLACES = frozenset({"body", "query", "path", "header"})
# Steps of pydantic's path that name a variant of a union; see serve_app/gathers/models.py.
_FORMS = frozenset({"(name)", "(resource)"})
# pydantic adds the tag of a tagged union to the path, where the caller wrote no field.
_KINDS = frozenset({("auth", "bearer"), ("auth", "basic")})
# pydantic adds this to the path of a key that is not valid.
_KEY = "[key]"
# Errors never repeat these values, because a response may be logged where a request is not.
_SECRETS = frozenset({"token", "password", "secret"})
_SHOWN = 100
# Beginnings of pydantic's sentences; the rest says what is expected.
_OPENINGS = ("Value error, ", "Assertion failed, ", "Input should be ", "Input should ")
# Plainer sentences than pydantic's.
_SENTENCES = {
    "missing": "is required",
    "extra_forbidden": "a field that exists; this one is unknown",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length} items",
    "too_long": "at most {max_length} items",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
}
_ONE = re.compile(r"\b1 (\w+)s\b")
# What a pattern means, by the pattern or its prefix.
_PATTERNS = {
    event_type.CODE: "four names joined by colons, such as shop:orders:order:created",
    subscription.CODE: "lower-case letters, digits and hyphens, beginning with a letter",
    event_type.VERSION: "a version such as 1.0",
    subscription.SPEC_VERSION: "a version such as 1.0 or 1.*",
    tsid.PATTERN: f"an id of {tsid.LENGTH} characters such as 0HZXEQ5Y8JY5Z",
    "^https?://": "an http:// or https:// URL without user name, spaces and fragment",
    "^(?:evt_": "the id (evt_…) or the code of an event type",
    "^(?:dpl_": "the id (dpl_…) or the code of a dispatch pool",
    "^(?:sub_": "the id (sub_…) or the code of a subscription",
    "^evt_": "the id of an event type: evt_ and 13 characters",
    "^sch_": "the id of a schema: sch_ and 13 characters",
    "^whsec_": "a secret: whsec_ and base64",
    "^[^\\x00-\\x1f": "text without control characters",
    r"^[\w.:-]+$": "letters, digits and the characters . : - _",
    "^[A-Za-z0-9!#$&^_.+-]{1,63}/": "a media type such as application/json",
}
_WITHOUT_VALUE = frozenset({"missing", "extra_forbidden", "value_error", "assertion_error"})


@dataclass(frozen=True, slots=True)
class FieldError:
    """Names the field, what is expected there, and the value that was there."""

    field: str
    expected: str
    got: Any = None

    def __str__(self) -> str:
        return f"{self.field}: {self.expected}"

    def document(self) -> dict[str, Any]:
        body = {"field": self.field, "expected": self.expected}
        return body if self.got is None else body | {"got": self.got}


def field_errors_of(errors: Sequence[Any], within: str = "") -> list[FieldError]:
    """Convert pydantic's errors; each names its field as the caller wrote it."""
    return [_field_error(error, within) for error in errors]


def _field_error(error: Mapping[str, Any], within: str) -> FieldError:
    kind, loc = str(error["type"]), error["loc"]
    is_hidden = kind in _WITHOUT_VALUE or bool(_SECRETS.intersection(loc))
    got = None if is_hidden else _brief(error.get("input"))
    return FieldError(
        _path(loc, within), _expected(kind, str(error["msg"]), error.get("ctx", {})), got
    )


def _expected(kind: str, message: str, context: Mapping[str, Any]) -> str:
    if kind == "string_pattern_mismatch":
        return _meaning(str(context["pattern"]))
    if sentence := _SENTENCES.get(kind):
        return _ONE.sub(r"1 \1", sentence.format_map(context))
    for opening in _OPENINGS:
        message = message.removeprefix(opening)
    return message


def _meaning(pattern: str) -> str:
    if words := _PATTERNS.get(pattern):
        return words
    beginnings = (words for start, words in _PATTERNS.items() if pattern.startswith(start))
    return next(beginnings, f"a value that matches {pattern}")


def _path(parts: Sequence[str | int], within: str) -> str:
    path = within
    for index, part in enumerate(parts):
        if (index == 0 and part in _PLACES) or part in _FORMS or part == _KEY:
            continue
        if index and (parts[index - 1], part) in _KINDS:
            continue
        if isinstance(part, int) or not part:
            path += f"[{part!r}]"
        else:
            path += f".{part}" if path else part
    return path or "body"


def _brief(value: Any) -> Any:
    """Shorten a value so that its author recognises it; never show a whole document."""
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
