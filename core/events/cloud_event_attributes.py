"""Checks of event attributes. Each returns the value or raises an error with the field."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, TypeAlias

import msgspec

from core.events import event
from core.events.event_type import RECORD_EVENTS, parse_version
from core.shared.address import check_id
from core.shared.errors import InvalidError

AttributeCheck: TypeAlias = Callable[[str, Any], Any]

# Lone surrogates cannot be encoded.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTENT_TYPE = re.compile(
    r"[\w!#$&^.+-]{1,127}/[\w!#$&^.+-]{1,127}(?:\s*;[\x20-\x7e]*)?", re.ASCII
)
CONTENT_TYPE_LENGTH = 255
_EXTENSION_NAME = re.compile(r"[a-z0-9]{1,50}")
_PAIR = frozenset({"key", "value"})
_LARGEST = 2**63
_SHOWN = 100
_TIME = Annotated[datetime, msgspec.Meta(tz=True)]


def text(longest: int) -> AttributeCheck:
    """Make a check for a text of at most `longest` characters without control characters."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= longest or _CONTROL.search(value):
            raise InvalidError(name, f"a text of 1 to {longest} characters on one line")
        return value

    return check


def extension(name: str, value: Any, prefix: str = "") -> Any:
    if not _EXTENSION_NAME.fullmatch(name) or name == "data":
        raise InvalidError(
            prefix + name[:_SHOWN],
            "there is no such field; extensions have names of lower-case letters and digits",
        )
    if isinstance(value, str):
        return _extension_text(prefix + name, value)
    if isinstance(value, int) and -_LARGEST <= value < _LARGEST:
        return value
    raise InvalidError(prefix + name, "a text, a whole number, true or false")


def _spec_version(name: str, value: Any) -> str:
    if value != event.SPEC_VERSION:
        raise InvalidError(
            name, f'"{event.SPEC_VERSION}", the version of CloudEvents that is supported'
        )
    return event.SPEC_VERSION


def _type(name: str, value: Any) -> str:
    if not isinstance(value, str) or check_id(value) is None or event.ANY in value:
        limits = f"1 to {event.TYPE_LENGTH} printable characters"
        raise InvalidError(name, f"{limits}, without * and without a space at an end")
    if value.startswith(RECORD_EVENTS):
        raise InvalidError(
            name,
            f"another type: Muster alone sends events of {RECORD_EVENTS}*, when a record changes",
        )
    return value


def _wait_id(name: str, value: Any) -> str:
    found = check_id(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidError(
            name, f"1 to {event.ID_LENGTH} printable characters, without a space at either end"
        )
    return found


def _type_version(name: str, value: Any) -> str:
    version = parse_version(value) if isinstance(value, str) else None
    if version is None:
        raise InvalidError(name, 'a version of the event\'s type, such as "1.0"')
    return str(version)


def is_content_type(value: str) -> bool:
    """Return whether a text can be a media type, with or without parameters."""
    return len(value) <= CONTENT_TYPE_LENGTH and _CONTENT_TYPE.fullmatch(value) is not None


def _content_type(name: str, value: Any) -> str:
    if not isinstance(value, str) or not is_content_type(value):
        raise InvalidError(name, "a media type such as application/json")
    return value


def _time(name: str, value: Any) -> float:
    try:
        return msgspec.convert(value, _TIME).timestamp()
    except (msgspec.ValidationError, UnicodeEncodeError):
        raise InvalidError(name, "a time with its zone, such as 2026-01-31T12:00:00Z") from None


def _context(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(value, str):  # a header contains the list as JSON
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            value = None
    if not isinstance(value, list) or len(value) > event.MAX_CONTEXT_PAIRS:
        raise InvalidError(
            name, f'a list of at most {event.MAX_CONTEXT_PAIRS} {{"key": …, "value": …}}'
        )
    return tuple(_pair(f"{name}[{index}]", one) for index, one in enumerate(value))


def _pair(place: str, pair: Any) -> tuple[str, str]:
    if not isinstance(pair, dict) or pair.keys() != _PAIR:
        raise InvalidError(place, '{"key": …, "value": …}')
    key = _key(f"{place}.key", pair["key"])
    if "=" in key:
        raise InvalidError(f"{place}.key", "a key without =")
    return key, _context_value(f"{place}.value", pair["value"])


_extension_text = text(event.EXTENSION_LENGTH)
_key, _context_value = text(event.KEY_LENGTH), text(event.VALUE_LENGTH)

CHECKS: dict[str, AttributeCheck] = {
    "spec_version": _spec_version,
    "id": text(event.ID_LENGTH),
    "type": _type,
    "source": text(event.SOURCE_LENGTH),
    "subject": text(event.SUBJECT_LENGTH),
    "time": _time,
    "content_type": _content_type,
    "data_schema": text(event.SCHEMA_LENGTH),
    "type_version": _type_version,
    "execution_id": _wait_id,
    "correlation_id": _wait_id,
    "causation_id": text(event.ID_LENGTH),
    "deduplication_id": text(event.DEDUPLICATION_LENGTH),
    "message_group": text(event.ID_LENGTH),
    "context": _context,
}
"""By the names of the fields of Event."""
