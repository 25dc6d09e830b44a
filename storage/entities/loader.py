"""Reads the entities that transitions ask for, all of a kind in one query."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias

import asyncpg
import msgspec

from core.records.collection import CollectionDefinition
from core.records.record import Collection, Record, RecordAddress, RecordTurn, UniqueValue
from core.shared.entities import Entity, EntityKind, EntityRef
from core.shared.tsid import first_at
from storage.postgres.clock import read_clock
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q
from storage.records.changes import followed_kinds

Loaded: TypeAlias = dict[EntityRef[Any], Entity | None]

LOAD_BYTES = 32 * 1024 * 1024
"""The most bytes of documents that are read at once; a record and 100 details of 256 KB fit."""
DECODED_BYTES = 1024 * 1024
"""How much is decoded before others run."""
TURN_SECONDS = 900.0
"""How long after a change a message that made it is recognised."""
TURN_CHANGES = 20_000
"""The most changes of a record, from its last on, that are searched for a message."""

_definition = msgspec.json.Decoder(CollectionDefinition)
_document = msgspec.json.Decoder(dict[str, Any])


async def load_entities(conn: Connection | Pool, refs: Iterable[EntityRef[Any]]) -> Loaded:
    """Read entities; None for those that do not exist.

    Records whose documents have more than `LOAD_BYTES` together with those before them are missing.
    """
    by_kind: dict[EntityKind, list[EntityRef[Any]]] = {}
    for ref in refs:
        by_kind.setdefault(ref.kind, []).append(ref)
    loaded: Loaded = {}
    for kind, load in _LOADERS.items():
        asked = by_kind.get(kind)
        if asked:
            loaded.update(await load(conn, asked))
    return loaded


async def _load_records(conn: Connection | Pool, refs: Sequence[EntityRef[Any]]) -> Loaded:
    loaded: Loaded = dict.fromkeys(refs)
    decoded = 0
    for row in await conn.fetch(Q["load_records"], *_columns(refs), LOAD_BYTES):
        ref = EntityRef[Any](EntityKind.RECORD, tuple(row)[:3])
        if row["data"] is None:
            del loaded[ref]
            continue
        loaded[ref] = _record_of(row)
        decoded += len(row["data"])
        if decoded > DECODED_BYTES:
            await asyncio.sleep(0)
            decoded = 0
    return loaded


async def _load_record_turns(conn: Connection | Pool, refs: Sequence[EntityRef[Any]]) -> Loaded:
    # Change ids have the database's time.
    since = first_at(await read_clock(conn) - TURN_SECONDS)
    rows = await conn.fetch(Q["load_record_turns"], *_columns(refs), since, TURN_CHANGES)
    found = [
        RecordTurn(ref=EntityRef(EntityKind.RECORD_TURN, tuple(row)[:4]), version=row["version"])
        for row in rows
    ]
    return _by_ref(refs, found)


async def _load_unique_values(conn: Connection | Pool, refs: Sequence[EntityRef[Any]]) -> Loaded:
    rows = await conn.fetch(Q["load_unique_values"], *_columns(refs))
    found = [
        UniqueValue(ref=EntityRef(EntityKind.UNIQUE_VALUE, tuple(row)[:4]), record_id=row[4])
        for row in rows
    ]
    return _by_ref(refs, found)


async def _load_collections(conn: Connection | Pool, refs: Sequence[EntityRef[Any]]) -> Loaded:
    rows = await conn.fetch(Q["load_collections"], *_columns(refs))
    followed = await followed_kinds(conn, [(row["tenant_id"], row["name"]) for row in rows])
    found = [
        Collection(
            tenant=row["tenant_id"],
            collection_no=row["collection_no"],
            collection_id=row["collection_id"],
            definition=_definition.decode(row["definition"]),
            is_active=row["is_active"],
            followed=kinds,
        )
        for row, kinds in zip(rows, followed, strict=True)
    ]
    return _by_ref(refs, found)


_Loader: TypeAlias = Callable[[Connection | Pool, Sequence[EntityRef[Any]]], Awaitable[Loaded]]
# In this order: which messages changed a record is read after the record.
_LOADERS: dict[EntityKind, _Loader] = {
    EntityKind.RECORD: _load_records,
    EntityKind.UNIQUE_VALUE: _load_unique_values,
    EntityKind.RECORD_TURN: _load_record_turns,
    EntityKind.COLLECTION: _load_collections,
}


def _by_ref(refs: Sequence[EntityRef[Any]], entities: Iterable[Entity]) -> Loaded:
    return {**dict.fromkeys(refs), **{one.ref: one for one in entities}}


def _columns(refs: Sequence[EntityRef[Any]]) -> list[list[Any]]:
    """Return the parts of the keys, one list for each part."""
    return [list(column) for column in zip(*(ref.key for ref in refs), strict=True)]


def _record_of(row: asyncpg.Record) -> Record:
    return Record(
        address=RecordAddress(row["tenant_id"], row["collection_no"], row["record_id"]),
        version=row["version"],
        revision=row["revision"],
        data=_document.decode(row["data"]),
        indexed=(row["indexed_1"], row["indexed_2"], row["indexed_3"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        created_by=row["created_by"],
        updated_by=row["updated_by"],
        deleted_at=row["deleted_at"],
        recent_turns=row["recent_turns"],
    )
