"""Kafka messages, and the events in them: plain JSON, or CloudEvents in either mode."""

import base64
import binascii
from functools import lru_cache
from typing import Any

import msgspec

from core.events.cloud_event_attributes import is_content_type
from core.shared.json_path import NOT_JSON
from core.shared.media_types import BYTES, CLOUD_EVENT, JSON, is_json_type, media_type
from core.waits.incoming_event import IncomingEvent
from core.waits.spec import Source

CHANNEL = "kafka"

# The CloudEvents attributes that carry the two ids, and the header each stands for.
_ID_ATTRIBUTES = {"ce_correlationid": "x-correlation-id", "ce_executionid": "x-execution-id"}
_ENVELOPE = msgspec.json.Decoder(dict[str, msgspec.Raw])


class KafkaMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    topic: str
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def position(self) -> str:
        """Return partition and offset, which deduplicate the messages of a topic."""
        return f"{self.partition}/{self.offset}"


class UndecodableMessage(msgspec.Struct, frozen=True):
    """A message whose content is not of the type that it declares."""

    error: str


def read_message(message: KafkaMessage) -> IncomingEvent | UndecodableMessage:
    """Read a message's headers, CloudEvents attributes and data.

    Data is JSON unless the message declares another type. Data without a declared type that is
    not JSON is kept as bytes, with its ids in headers. A malformed content type is ignored,
    because many producers send one.
    """
    headers = _headers(message)
    declared = _declared_type(headers.get("content-type", ""))
    if declared == CLOUD_EVENT:
        return _from_envelope(message, headers)
    _name_ids(headers)
    raw = b"null" if message.value is None else message.value
    if declared and not is_json_type(declared):
        return _incoming(message, headers, raw, None, declared)
    try:
        return _incoming(message, headers, raw, msgspec.json.decode(raw), JSON)
    except NOT_JSON as error:
        if declared:
            return UndecodableMessage(f"declared as JSON, but it is not: {error}")
        return _incoming(message, headers, raw, None, BYTES)


def _from_envelope(
    message: KafkaMessage, headers: dict[str, str]
) -> IncomingEvent | UndecodableMessage:
    """Read a CloudEvent in structured mode: attributes and data in one JSON object."""
    try:
        envelope = _ENVELOPE.decode(message.value or b"")
        for name, value in envelope.items():
            if not name.startswith("data") or name == "datacontenttype":
                headers[f"ce_{name.lower()}"] = _attribute(value)
        _name_ids(headers)
        declared = _declared_type(headers.get("ce_datacontenttype", JSON)) or JSON
        if "data_base64" in envelope:
            raw = base64.b64decode(
                msgspec.json.decode(envelope["data_base64"], type=str), None, True
            )
        else:
            raw = bytes(envelope.get("data", msgspec.Raw(b"null")))
        body = msgspec.json.decode(raw) if is_json_type(declared) else None
    except (*NOT_JSON, binascii.Error) as error:
        return UndecodableMessage(f"declared as a CloudEvent, but it is not: {error}")
    return _incoming(message, headers, raw, body, JSON if is_json_type(declared) else declared)


def _incoming(
    message: KafkaMessage, headers: dict[str, str], raw: bytes, body: Any, content_type: str
) -> IncomingEvent:
    return IncomingEvent(
        source=Source.KAFKA,
        channel=CHANNEL,
        label=message.topic,
        raw=raw,
        body=body,
        headers=headers,
        event_id=message.position,
        content_type=content_type,
    )


def _headers(message: KafkaMessage) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in message.headers:
        if value is None:
            continue
        try:
            headers.setdefault(name.lower(), value.decode())
        except UnicodeDecodeError:
            continue  # an id is text
    return headers


def _name_ids(headers: dict[str, str]) -> None:
    for attribute, header in _ID_ATTRIBUTES.items():
        if attribute in headers:
            headers.setdefault(header, headers[attribute])


def _attribute(raw: msgspec.Raw) -> str:
    value = msgspec.json.decode(raw)
    return value if isinstance(value, str) else bytes(raw).decode()


@lru_cache(maxsize=256)
def _declared_type(content_type: str) -> str:
    kind = media_type(content_type)
    return kind if is_content_type(kind) else ""
