"""A record as a shard hosts it: its state, the values it alone may have, and its change rows."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec

from core.records.collection import CollectionDefinition
from core.records.stored_json import encode_document
from core.shared.entities import EntityKind, EntityRef

RECENT_TURNS = 8
"""A record remembers the messages of its last changes, so that one sent again is recognised."""
_DIGEST = 8
_ROW_WEIGHT = 300


class RecordAddress(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The three ids of a record. Every message to a record has one as its `address`."""

    tenant: int
    collection_no: int
    record_id: str
    key: bytes = b""
    """Sixteen bytes that choose the shard; computed where the record is first named."""

    def __post_init__(self) -> None:
        if not self.key:
            numbers = self.tenant.to_bytes(8, "big") + self.collection_no.to_bytes(8, "big")
            digest = hashlib.blake2b(numbers + self.record_id.encode(), digest_size=16)
            msgspec.structs.force_setattr(self, "key", digest.digest())

    @property
    def ref(self) -> "EntityRef[Record]":
        return EntityRef(EntityKind.RECORD, (self.tenant, self.collection_no, self.record_id))

    @property
    def collection_ref(self) -> "EntityRef[Collection]":
        return collection_ref(self.tenant, self.collection_no)

    def unique_ref(self, field: str, value_hash: bytes) -> "EntityRef[UniqueValue]":
        """Return the reference of a value of this record that no other may have."""
        key = (self.tenant, self.collection_no, field, value_hash)
        return EntityRef(EntityKind.UNIQUE_VALUE, key)

    def turn_ref(self, turn_id: str) -> "EntityRef[RecordTurn]":
        """Return the reference of the change that a message made to this record."""
        key = (self.tenant, self.collection_no, self.record_id, turn_id)
        return EntityRef(EntityKind.RECORD_TURN, key)


def collection_ref(tenant: int, collection_no: int) -> "EntityRef[Collection]":
    return EntityRef(EntityKind.COLLECTION, (tenant, collection_no))


class Collection(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A collection as a transition reads it."""

    tenant: int
    collection_no: int
    collection_id: str
    definition: CollectionDefinition
    is_active: bool = True
    followed: frozenset[str] = frozenset()
    """The kinds of changes whose events a subscription is bound to."""
    due_at: None = None
    at_rest: bool = False
    weight: int = 0

    @property
    def ref(self) -> "EntityRef[Collection]":
        return collection_ref(self.tenant, self.collection_no)

    @property
    def version(self) -> int:
        return self.definition.version


class Record(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The state of a record; a deleted one stays as a row with `deleted_at`."""

    address: RecordAddress
    version: int
    revision: int = 0
    """Counts what changes the row and is no change of the record: encrypting it anew."""
    data: Mapping[str, Any]
    indexed: tuple[str | None, str | None, str | None] = (None, None, None)
    created_at: float
    updated_at: float
    created_by: str | None = None
    updated_by: str | None = None
    deleted_at: float | None = None
    recent_turns: bytes = b""
    """Digests of the turn ids of its last changes; the last belongs to the current version."""
    replayed: str | None = None
    """The turn id of a message that is handled again and has changed the record before."""
    due_at: None = None
    at_rest: bool = True
    """Always: another shard may change a record, so it is read anew for each turn."""

    @property
    def ref(self) -> "EntityRef[Record]":
        return self.address.ref

    @cached_property
    def text(self) -> str:
        """The document as JSON, encoded once for the row, the change row and its bound."""
        return encode_document(self.data)

    @property
    def weight(self) -> int:
        return _ROW_WEIGHT + len(self.text)

    def version_of_turn(self, turn_id: str) -> int | None:
        """Return the version that this turn made; None if it is not one of the last changes.

        For a message that is known to be handled again, older changes count as well, and the
        version is the current one.
        """
        if turn_id == self.replayed:
            return self.version
        digest, turns = _digest(turn_id), self.recent_turns
        for ago, start in enumerate(range(len(turns) - _DIGEST, -1, -_DIGEST)):
            if turns[start : start + _DIGEST] == digest:
                return self.version - ago
        return None


def add_turn(recent_turns: bytes, turn_id: str) -> bytes:
    """Return the digests of a record's last changes after one more."""
    return (recent_turns + _digest(turn_id))[-RECENT_TURNS * _DIGEST :]


def _digest(turn_id: str) -> bytes:
    return hashlib.blake2b(turn_id.encode(), digest_size=_DIGEST).digest()


class UniqueValue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which record holds a value; `record_id` is None once the value is released.

    A transition that gives a record a unique value has this entity beside the record, and one that
    takes the value away has it with `record_id=None`.
    """

    ref: EntityRef[Any]
    record_id: str | None
    due_at: None = None
    at_rest: bool = True
    weight: int = _ROW_WEIGHT

    @property
    def version(self) -> int:
        return 1


class RecordTurn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """That a message has changed a record, and to which version."""

    ref: EntityRef[Any]
    version: int
    due_at: None = None
    at_rest: bool = True
    weight: int = 0


class ChangeKind(StrEnum):
    CREATED = "CREATED"
    UPDATED = "UPDATED"
    DELETED = "DELETED"


class RecordChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row of `record_changes`: one for each version of a record."""

    address: RecordAddress
    change_id: str
    version: int
    kind: ChangeKind
    data: str
    """The document after the change, as JSON."""
    before: str | None = None
    """Of the fields that changed, what they were, as JSON; None for a new record."""
    user_id: str | None = None
    turn_id: str
    cause: str | None = None
    depth: int = 0
    at: float

    @property
    def weight(self) -> int:
        return _ROW_WEIGHT + len(self.data) + len(self.before or "")
