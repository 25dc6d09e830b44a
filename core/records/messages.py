"""The messages to a record and its replies."""

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from core.records.record import RecordAddress
from core.shared.refusal import CONFLICT, INVALID, NOT_FOUND, STALE, Refusal

MAX_EXPECTED_CHARS = 300
"""The most that a problem says: a formula or a list of values may be much longer."""


class RecordWrite(StrEnum):
    CREATE = "CREATE"
    MERGE = "MERGE"
    REPLACE = "REPLACE"
    UPSERT = "UPSERT"
    """Create the record, or merge into the one that has its id."""
    DELETE = "DELETE"


class SaveRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="record_save"):
    """Write one record. The sender has normalised the fields and encrypted the secret ones."""

    address: RecordAddress
    turn_id: str
    """Stays the same over retries, so that a repeated message gets the same reply."""
    write: RecordWrite
    definition_version: int
    """The version of the collection that the fields were normalised for."""
    fields: dict[str, Any] = {}
    """Null removes a value."""
    kept: tuple[str, ...] = ()
    """Fields that a replacement leaves as they are."""
    numbers: dict[str, int] = {}
    """For a new record, the values of its AUTO_NUMBER fields."""
    expected_version: int | None = None
    user: str | None = None
    fresh: bool = False
    """Whether the sender made the id just now, so that no such record can exist."""
    resent: bool = False
    """Whether it may have been handled before."""
    details: tuple[RecordAddress, ...] = ()
    """Records to delete together with their master."""
    masters: dict[str, RecordAddress] = {}
    """The records that MASTER_DETAIL fields lead to, by field; they must exist."""
    cause: str | None = None
    depth: int = 0
    weight: int = 500
    """Its approximate bytes."""

    @property
    def turn_ids(self) -> tuple[str, ...]:
        return (self.turn_id,)


class RecordRefusal(Refusal):
    """Why a record cannot be written."""

    RECORD_NOT_FOUND = NOT_FOUND, "there is no record with this id in the collection"
    RECORD_EXISTS = CONFLICT, "a record of the collection has this id: choose another, or change it"
    VALUE_NOT_UNIQUE = CONFLICT, "another record of the collection has this value"
    VERSION_MISMATCH = STALE, "the record has another version by now: read it and try again"
    DETAILS_REMAIN = CONFLICT, "some of its details are deleted, and more remain: send this again"
    TOO_MANY_DETAILS = CONFLICT, "the record has many details: delete it by itself"
    COLLECTION_CHANGED = CONFLICT, "the definition of the collection just changed: try again"
    COLLECTION_GONE = NOT_FOUND, "the collection is gone"
    COLLECTION_ARCHIVED = CONFLICT, "the collection is archived: activate it first"
    BATCH_REFUSED = CONFLICT, "nothing was saved, because others of the batch are refused"
    INVALID_RECORD = INVALID, "the record is not valid"


class FieldProblem(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A field that is not valid, and what is expected there."""

    field: str
    expected: str


class RecordSaved(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="record_saved"
):
    """The record as it is stored now; after a replay, as it was stored last."""

    version: int
    created: bool = False
    data: dict[str, Any] = {}
    created_at: float = 0.0
    updated_at: float = 0.0
    created_by: str | None = None
    updated_by: str | None = None


class RecordRefused(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="record_refused"
):
    """Nothing was stored."""

    reason: str
    """The name of a RecordRefusal."""
    problems: tuple[FieldProblem, ...] = ()
    version: int | None = None
    """The version that the record has."""

    @property
    def refusal(self) -> RecordRefusal:
        return RecordRefusal[self.reason]


class SaveAllRecords(msgspec.Struct, frozen=True, kw_only=True, tag="record_save_all"):
    """Write several records, all or none. Each of them is named once."""

    address: RecordAddress
    """That of the first record."""
    turn_id: str
    saves: tuple[SaveRecord, ...]
    fresh: bool = False
    resent: bool = False
    weight: int = 500
    """Its approximate bytes."""

    @property
    def turn_ids(self) -> tuple[str, ...]:
        return tuple(save.turn_id for save in self.saves)


class RecordReplies(msgspec.Struct, frozen=True, kw_only=True, tag="record_replies"):
    """A reply for each record; if one was refused, none is stored."""

    replies: tuple[RecordSaved | RecordRefused, ...]

    @property
    def are_saved(self) -> bool:
        return not any(isinstance(one, RecordRefused) for one in self.replies)


RecordMessage: TypeAlias = SaveRecord | SaveAllRecords
RecordReply: TypeAlias = RecordSaved | RecordRefused | RecordReplies
RecordResult: TypeAlias = RecordSaved | RecordRefused
"""What became of one record."""


def refused(
    refusal: RecordRefusal, *problems: FieldProblem, version: int | None = None
) -> RecordRefused:
    """Return a refusal; what its problems expect is cut to a readable length."""
    shown = tuple(FieldProblem(one.field, _shorten(one.expected)) for one in problems)
    return RecordRefused(reason=refusal.name, problems=shown, version=version)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_EXPECTED_CHARS else f"{text[: MAX_EXPECTED_CHARS - 1]}…"
