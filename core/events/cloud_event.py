"""Reads CloudEvents 1.0: plain JSON, structured mode, binary mode, and batches.

Plain JSON needs only `type` and `source`, and accepts names in camel case (`correlationId`). An
unknown field is kept as an extension if its name is allowed for extensions.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec

from core.events.cloud_event_attributes import CHECKS, extension
from core.events.cloud_event_data import EventData, from_base64, from_body, from_json
from core.events.event import MAX_CLOCK_SKEW, MAX_EXTENSIONS, Event, deduplication_key
from core.shared.errors import InvalidError
from core.shared.json_path import NOT_JSON

PREFIX = "ce-"

_ATTRIBUTES = {
    "specversion": "spec_version",
    "id": "id",
    "type": "type",
    "source": "source",
    "subject": "subject",
    "time": "time",
    "datacontenttype": "content_type",
    "dataschema": "data_schema",
    "typeversion": "type_version",
    "executionid": "execution_id",
    "correlationid": "correlation_id",
    "causationid": "causation_id",
    "deduplicationid": "deduplication_id",
    "messagegroup": "message_group",
    "contextdata": "context",
}
_CAMEL_CASE = (
    "specVersion dataContentType dataSchema typeVersion executionId correlationId causationId "
    "deduplicationId messageGroup contextData"
)
_FIELDS = _ATTRIBUTES | {name: _ATTRIBUTES[name.lower()] for name in _CAMEL_CASE.split()}
_BASE64 = ("data_base64", "dataBase64")
_NEEDED = ("type", "source")
_NEEDED_OF_CLOUD_EVENTS = ("specversion", "id", "source", "type")
# …/order/1.0, urn:shop:order:1.0, …/order-v1.0.json
_TRAILING_VERSION = re.compile(r"[/:#@=_-]v?([0-9]{1,9})\.([0-9]{1,9})(?:\.[a-z]+)?/?$")
_ESCAPED = re.compile(r"\\(.)")

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode = msgspec.json.Decoder().decode
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class EventStamp:
    """What the receiver adds to an event: the tenant, the time of arrival and a new id."""

    tenant: int
    now: float
    new_id: Callable[[], str]


def read_event(raw: bytes | msgspec.Raw, stamp: EventStamp, *, structured: bool = False) -> Event:
    """Read an event from a JSON object, in structured mode if it has `specversion`.

    Raises:
        InvalidError: The event is invalid; the error names the field.
    """
    try:
        members = _members(raw)
    except NOT_JSON as error:
        raise InvalidError("body", f"an event as a JSON object: {error}") from None
    structured = structured or "specversion" in members
    data = members.pop("data", None)
    encoded = {name: members.pop(name) for name in _BASE64 if name in members}
    known, extensions = _sorted((name, _value(name, raw)) for name, raw in members.items())
    _refuse_missing(known, _NEEDED_OF_CLOUD_EVENTS if structured else _NEEDED)
    declared = known.pop("content_type", None)
    if encoded:
        if data is not None or len(encoded) > 1:
            raise InvalidError("data", "data or data_base64, one of them")
        ((name, member),) = encoded.items()
        found = from_base64(name, bytes(member), declared)
    elif data is None:
        found = EventData(None, declared)
    else:
        found = from_json(bytes(data), declared, structured=structured)
    return _born(known, extensions, found, stamp)


def read_binary(headers: Mapping[str, str], body: bytes, stamp: EventStamp) -> Event:
    """Read an event in binary mode from headers, whose names are in lower case, and body.

    Raises:
        InvalidError: The event is invalid; the error names the header.
    """
    given = [
        (name.removeprefix(PREFIX), _header(name, value))
        for name, value in headers.items()
        if name.startswith(PREFIX)
    ]
    known, extensions = _sorted(given, PREFIX, _ATTRIBUTES)
    _refuse_missing(known, _NEEDED_OF_CLOUD_EVENTS, PREFIX)
    if "content_type" in known:
        raise InvalidError(f"{PREFIX}datacontenttype", "Content-Type says what the data is")
    declared = headers.get("content-type")
    if declared is not None:
        declared = CHECKS["content_type"]("content-type", declared)
    found = from_body("body", body, declared) if body else EventData(None, declared)
    return _born(known, extensions, found, stamp)


def read_batch(
    raw: bytes, stamp: EventStamp, most: int, *, structured: bool = False
) -> list[Event]:
    """Read events from a JSON array, each plain or in structured mode.

    Raises:
        InvalidError: An event is invalid; the error names its index and the field.
    """
    try:
        items = _items(raw)
    except NOT_JSON as error:
        raise InvalidError("body", f"a JSON array of events: {error}") from None
    if not 1 <= len(items) <= most:
        raise InvalidError("body", f"1 to {most} events, not {len(items)}")
    events: list[Event] = []
    for item in items:
        try:
            events.append(read_event(item, stamp, structured=structured))
        except InvalidError as error:
            field = "" if error.field == "body" else f".{error.field}"
            raise InvalidError(f"[{len(events)}]{field}", error.expected) from None
    return events


def _sorted(
    given: Iterable[tuple[str, Any]], prefix: str = "", fields: Mapping[str, str] = _FIELDS
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check all values; return the known attributes by field name, and the extensions."""
    known: dict[str, Any] = {}
    extensions: dict[str, Any] = {}
    for name, value in given:
        if value is None:
            continue
        field = fields.get(name)
        if field is None:
            extensions[name] = extension(name, value, prefix)
        elif field in known:
            raise InvalidError(prefix + name, "in one spelling only")
        else:
            known[field] = CHECKS[field](prefix + name, value)
    if len(extensions) > MAX_EXTENSIONS:
        raise InvalidError("extensions", f"at most {MAX_EXTENSIONS} attributes of your own")
    return known, extensions


def _refuse_missing(known: Mapping[str, Any], needed: Iterable[str], prefix: str = "") -> None:
    for name in needed:
        if _FIELDS[name] not in known:
            raise InvalidError(prefix + name, "is required")


def _born(
    known: dict[str, Any], extensions: dict[str, Any], data: EventData, stamp: EventStamp
) -> Event:
    """Make the event; derive its deduplication id and its type version if they are missing."""
    time = known.setdefault("time", stamp.now)
    if not 0 <= time <= stamp.now + MAX_CLOCK_SKEW:
        raise InvalidError(
            "time", f"a time since 1970, at most {MAX_CLOCK_SKEW:.0f} seconds ahead of now"
        )
    own_id = known.pop("id", None)
    if own_id is not None:
        known.setdefault("deduplication_id", deduplication_key(known["source"], own_id))
    schema = known.get("data_schema")
    if schema is not None and "type_version" not in known:
        known["type_version"] = version_in(schema)
    return Event(
        tenant=stamp.tenant,
        event_id=stamp.new_id(),
        data=data.content,
        content_type=data.content_type,
        extensions=extensions,
        **known,
    )


def version_in(schema: str) -> str | None:
    """Return the version at the end of a schema's URL, or None."""
    found = _TRAILING_VERSION.search(schema)
    return f"{int(found[1])}.{int(found[2])}" if found else None


def _value(name: str, member: msgspec.Raw) -> Any:
    try:
        return _decode(member)
    except NOT_JSON as error:
        raise InvalidError(name[:_SHOWN], f"JSON: {error}") from None


def _header(name: str, value: str) -> str:
    """Decode a header's value, which may be quoted and percent-encoded."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = _ESCAPED.sub(r"\1", value[1:-1])
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise InvalidError(name, "percent-encoded UTF-8") from None
