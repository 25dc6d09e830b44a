"""The event of a record change: what Kafka and subscriptions are told.

Values keep the digits and the order in which they are stored: only the names of fields are read.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from core.records.record import ChangeKind
from core.records.validation import MASK
from core.shared.media_types import JSON
from core.shared.timestamps import to_iso

SOURCE = "muster"
GROUP_LENGTH = 255
"""The longest name of a message group."""

_MASKED = msgspec.Raw(msgspec.json.encode(MASK))
_NULL = b"null"
_Document: TypeAlias = dict[str, msgspec.Raw]
_fields = msgspec.json.Decoder(_Document).decode
_encode = msgspec.json.Encoder().encode


class ChangedCollection(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an event says of the collection of its record."""

    tenant: str
    """The name of the tenant."""
    collection_id: str
    name: str
    encrypted: frozenset[str] = frozenset()
    """The fields that are ENCRYPTED, or were in an earlier version of the definition."""


class StoredChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row of `record_changes`, as it is read to tell of it."""

    tenant: int
    collection_no: int
    record_id: str
    change_id: str
    version: int
    kind: ChangeKind
    data: str
    before: str | None = None
    user_id: str | None = None
    cause: str | None = None
    at: float


class ChangeMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The Kafka message of a change."""

    topic: str
    key: str
    event_id: str
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


class RecordChangeEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The document of the event, the same for Kafka and for subscriptions."""

    event_id: str
    tenant_id: str
    collection_id: str
    collection_name: str
    record_id: str
    version: int
    change_type: ChangeKind
    data: Mapping[str, msgspec.Raw]
    """The record after the change; of a deleted one, as it was last."""
    previous_data: Mapping[str, msgspec.Raw] | None
    """The record before an update; a field that it did not have is null."""
    changed_fields: tuple[str, ...]
    user_id: str | None
    timestamp: str

    @property
    def type(self) -> str:
        return event_type(self.collection_name, self.change_type)

    @property
    def subject(self) -> str:
        return f"{self.collection_name}/{self.record_id}"

    @property
    def message_group(self) -> str:
        """The record: its changes are delivered in order where a subscription asks for that."""
        return self.subject if len(self.subject) <= GROUP_LENGTH else self.record_id

    def encode(self) -> bytes:
        return _encode(self)


def event_type(collection: str, kind: ChangeKind) -> str:
    """Return the type by which a subscription follows the changes of a collection."""
    return f"muster:records:{collection}:{kind.lower()}"


def event_of(change: StoredChange, collection: ChangedCollection) -> RecordChangeEvent:
    """Build the event; its id is the change's, so receivers can drop a repeated one."""
    data = _fields(change.data)
    before = _fields(change.before) if change.before is not None else {}
    is_update = change.kind is ChangeKind.UPDATED
    return RecordChangeEvent(
        event_id=change.change_id,
        tenant_id=collection.tenant,
        collection_id=collection.collection_id,
        collection_name=collection.name,
        record_id=change.record_id,
        version=change.version,
        change_type=change.kind,
        data=_masked(data, collection.encrypted),
        previous_data=_masked({**data, **before}, collection.encrypted) if is_update else None,
        changed_fields=tuple(before) if is_update else (),
        user_id=change.user_id,
        timestamp=to_iso(change.at),
    )


def kafka_message(event: RecordChangeEvent, topic: str, source: str) -> ChangeMessage:
    """Build the Kafka message: a CloudEvent in binary mode, in order for each collection."""
    attributes = {
        "ce_specversion": "1.0",
        "ce_id": event.event_id,
        "ce_source": source,
        "ce_type": event.type,
        "ce_subject": event.subject,
        "ce_time": event.timestamp,
        "content-type": JSON,
    }
    return ChangeMessage(
        topic=topic,
        key=f"{event.tenant_id}:{event.collection_name}",
        event_id=event.event_id,
        value=event.encode(),
        headers=tuple((name, value.encode()) for name, value in attributes.items()),
    )


def _masked(document: _Document, encrypted: frozenset[str]) -> _Document:
    if encrypted.isdisjoint(document):
        return document
    return {
        name: _MASKED if name in encrypted and bytes(value) != _NULL else value
        for name, value in document.items()
    }
