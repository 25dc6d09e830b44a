"""Values of fields: refuses what a field cannot hold, and returns the rest as it is stored."""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any, cast

from core.records.field import FieldDefinition, FieldType
from core.records.json_values import InvalidValueError, check_json, check_text

MAX_RECORD_ID_CHARS = 100
RECORD_ID = rf"[A-Za-z0-9][A-Za-z0-9._:-]{{0,{MAX_RECORD_ID_CHARS - 1}}}"
RESERVED_IDS = frozenset({"batch", "export", "import"})
"""They would have the paths of other routes."""
COMPUTED = frozenset({FieldType.FORMULA, FieldType.ROLLUP_SUMMARY, FieldType.AUTO_NUMBER})
"""What a collection computes, and no caller can set."""

Matches = Callable[[str], bool]

_record_id = re.compile(RECORD_ID)
_EMAIL = re.compile(r"[^\s@\x00-\x1f]{1,64}@[^\s@\x00-\x1f.]+(?:\.[^\s@\x00-\x1f.]+)*")
_PHONE = re.compile(r"\+?[0-9(][0-9 ()./x-]{2,38}")
_URL = re.compile(r"https?://[^\s/?#]+[^\s]*", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_INTEGERS = {FieldType.INTEGER: 31, FieldType.LONG: 63}


def is_record_id(text: str) -> bool:
    return _record_id.fullmatch(text) is not None and text not in RESERVED_IDS


def number_text(field: FieldDefinition, number: int) -> int | str:
    """Return a number as an AUTO_NUMBER field has it: INV-0042 where the format is INV-{0000}."""
    if field.format is None:
        return number
    before, _, rest = field.format.partition("{")
    zeros, _, after = rest.partition("}")
    return f"{before}{number:0{len(zeros)}d}{after}"


def normalize_value(field: FieldDefinition, value: Any, matches: Matches | None = None) -> Any:
    """Return a value, which is not null, as it is stored.

    `matches` is the compiled pattern of the field.

    Raises:
        InvalidValueError: The field cannot hold it.
    """
    return _READERS[field.type](field, value, matches)


def _text(field: FieldDefinition, value: Any, matches: Matches | None) -> str:
    text = check_text(value)
    _check_range(field, len(text), " characters")
    if field.values and text not in field.values:
        raise InvalidValueError(_one_of(field))
    try:
        fits = matches is None or matches(text)
    except ValueError as error:  # too long for its pattern
        raise InvalidValueError(f"a text that matches {field.pattern}, not {error}") from None
    if not fits:
        raise InvalidValueError(f"a text that matches {field.pattern}")
    return text


def _formatted(pattern: re.Pattern[str], max_chars: int, expected: str) -> Callable[..., str]:
    def read(field: FieldDefinition, value: Any, matches: Matches | None) -> str:
        text = _text(field, value, matches)
        if len(text) > max_chars or not pattern.fullmatch(text):
            raise InvalidValueError(expected)
        return text

    return read


def _integer(field: FieldDefinition, value: Any, _: Matches | None) -> int:
    bits = _INTEGERS[field.type]
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        value = int(value)
    if type(value) is not int or not -(2**bits) <= value < 2**bits:
        raise InvalidValueError(f"a whole number from -2^{bits} to 2^{bits} - 1")
    _check_range(field, value)
    return value


def _number(field: FieldDefinition, value: Any, _: Matches | None) -> int | float:
    if type(value) not in {int, float} or (type(value) is float and not math.isfinite(value)):
        raise InvalidValueError("a number")
    if isinstance(value, int) and (abs(value) > 2**63 or int(float(value)) != value):
        raise InvalidValueError(
            f"a number that a {field.type} holds exactly; a LONG holds whole numbers beyond 2^53"
        )
    _check_range(field, value)
    return cast("int | float", value)


def _boolean(_field: FieldDefinition, value: Any, _: Matches | None) -> bool:
    if value is not True and value is not False:
        raise InvalidValueError("true or false")
    return value


def _date(_field: FieldDefinition, value: Any, _: Matches | None) -> str:
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return date.fromisoformat(value).isoformat()
    except ValueError:
        pass
    raise InvalidValueError("a date such as 2026-01-31")


def _datetime(_field: FieldDefinition, value: Any, _: Matches | None) -> str:
    """Return the time in UTC and of one length, so that texts sort as times do."""
    try:
        read = datetime.fromisoformat(value) if isinstance(value, str) else None
        if read is not None and read.tzinfo is not None:
            text = read.astimezone(UTC).isoformat(timespec="microseconds")
            return f"{text.removesuffix('+00:00')}Z"
    except (ValueError, OverflowError):
        pass
    raise InvalidValueError("a time with its offset, such as 2026-01-31T12:30:00Z")


def _json(_field: FieldDefinition, value: Any, _: Matches | None) -> Any:
    check_json(value)
    return value


def _array(field: FieldDefinition, value: Any, _: Matches | None) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidValueError("a list")
    _check_range(field, len(value), " items")
    check_json(value)
    _check_items(field, value)
    return value


def _choices(field: FieldDefinition, value: Any, matches: Matches | None) -> list[Any]:
    items = _array(field, value, matches)
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise InvalidValueError("a text", f"[{index}]")
        if item in items[:index]:
            raise InvalidValueError("each value once", f"[{index}]")
    return items


def _location(_field: FieldDefinition, value: Any, _: Matches | None) -> dict[str, Any]:
    match value:
        case {"latitude": int() | float() as latitude, "longitude": int() | float() as longitude}:
            is_bool = isinstance(latitude, bool) or isinstance(longitude, bool)
            if len(value) == 2 and not is_bool and abs(latitude) <= 90 and abs(longitude) <= 180:
                return {"latitude": latitude, "longitude": longitude}
        case _:
            pass
    raise InvalidValueError(
        "an object of latitude, from -90 to 90, and longitude, from -180 to 180, and nothing else"
    )


def _reference(field: FieldDefinition, value: Any, _: Matches | None) -> str:
    if not isinstance(value, str) or not is_record_id(value):
        raise InvalidValueError(f"the id of a record of {field.target}")
    return value


def _computed(field: FieldDefinition, _value: Any, _: Matches | None) -> Any:
    raise InvalidValueError(f"nothing: a {field.type} is computed and cannot be set")


def _check_items(field: FieldDefinition, items: list[Any]) -> None:
    for index, item in enumerate(items):
        if field.values and item not in field.values:
            raise InvalidValueError(_one_of(field), f"[{index}]")


def _check_range(field: FieldDefinition, size: float, unit: str = "") -> None:
    if field.min is not None and size < field.min:
        raise InvalidValueError(f"at least {field.min:g}{unit}")
    if field.max is not None and size > field.max:
        raise InvalidValueError(f"at most {field.max:g}{unit}")


def _one_of(field: FieldDefinition) -> str:
    shown = ", ".join(field.values[:20])
    more = len(field.values) - 20
    return f"one of {shown}{f' and {more} more' if more > 0 else ''}"


_READERS: Mapping[FieldType, Callable[[FieldDefinition, Any, Matches | None], Any]] = {
    **dict.fromkeys(
        (FieldType.STRING, FieldType.RICH_TEXT, FieldType.PICKLIST, FieldType.ENCRYPTED), _text
    ),
    **dict.fromkeys((FieldType.INTEGER, FieldType.LONG), _integer),
    **dict.fromkeys((FieldType.DOUBLE, FieldType.CURRENCY, FieldType.PERCENT), _number),
    **dict.fromkeys(
        (FieldType.REFERENCE, FieldType.LOOKUP, FieldType.MASTER_DETAIL), _reference
    ),
    **dict.fromkeys(COMPUTED, _computed),
    FieldType.BOOLEAN: _boolean,
    FieldType.DATE: _date,
    FieldType.DATETIME: _datetime,
    FieldType.JSON: _json,
    FieldType.ARRAY: _array,
    FieldType.MULTI_PICKLIST: _choices,
    FieldType.PHONE: _formatted(_PHONE, 40, "a telephone number such as +1 555 0100"),
    FieldType.EMAIL: _formatted(_EMAIL, 254, "an e-mail address such as jo@example.com"),
    FieldType.URL: _formatted(_URL, 2_048, "an http:// or https:// URL"),
    FieldType.EXTERNAL_ID: _formatted(re.compile(r"\S.{0,254}"), 255, "1 to 255 characters"),
    FieldType.GEOLOCATION: _location,
}  # fmt: skip
