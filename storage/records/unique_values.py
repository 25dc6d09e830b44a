"""Values that one record of a collection has: filled in where a field becomes unique."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from core.records.collection import (
    CollectionDefinition,
    CollectionRefusal,
    new_unique_fields,
)
from core.records.comparison import unique_hash
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q
from storage.records import record_scan

MAX_RECORDS = 50_000
"""As many can be checked while a request waits."""


class _StoredCollection(Protocol):
    """The definition of a collection, and whose it is."""

    @property
    def tenant(self) -> int: ...
    @property
    def collection_no(self) -> int: ...
    @property
    def definition(self) -> CollectionDefinition: ...


class UniqueRow(NamedTuple):
    """A record, and the hash of its value in a unique field."""

    field: str
    value_hash: bytes
    record_id: str


class StaleKeys(NamedTuple):
    """Keys that their records do not have, in the versions that were read; None: no record."""

    keys: list[UniqueRow]
    versions: dict[str, int | None]
    last: tuple[str, bytes] | None
    """The last key that was read; None: there are no more."""


async def collect(
    conn: Connection, row: _StoredCollection, after: CollectionDefinition
) -> CollectionRefusal | list[UniqueRow]:
    """Read what records have in the fields that become unique; refuse if they have it twice."""
    fields = new_unique_fields(row.definition, after)
    holders: dict[tuple[str, bytes], UniqueRow] = {}
    scanned, last = 0, ""
    place = (row.tenant, row.collection_no, fields)
    while fields and (found := await record_scan.read_fields(conn, *place, last)):
        for one in found:
            for key in unique_rows(fields, one.record_id, one.data):
                if holders.setdefault((key.field, key.value_hash), key) is not key:
                    return CollectionRefusal.VALUES_NOT_UNIQUE
        scanned += len(found)
        if scanned > MAX_RECORDS:
            return CollectionRefusal.TOO_MANY_RECORDS
        last = found[-1].record_id
    return list(holders.values())


def unique_rows(fields: Sequence[str], record_id: str, data: dict[str, Any]) -> list[UniqueRow]:
    return [
        UniqueRow(name, unique_hash(data[name]), record_id)
        for name in fields
        if data.get(name) is not None
    ]


async def lacking(
    conn: Connection | Pool, row: _StoredCollection, keys: Sequence[UniqueRow]
) -> list[UniqueRow]:
    """Return the keys that are not stored, or that another record has."""
    if not keys:
        return []
    place = (row.tenant, row.collection_no)
    found = await conn.fetch(Q["unique_values_of_others"], *place, *_columns(keys))
    return [UniqueRow(*one) for one in found]


async def fill(
    conn: Connection | Pool,
    row: _StoredCollection,
    keys: Sequence[UniqueRow],
    versions: Mapping[str, int],
) -> set[str]:
    """Store keys of records that still have these versions.

    Return the ids of these records, without those that somebody holds.
    """
    return await _of_free_records(conn, "fill_unique_values", row, keys, versions)


async def stale_page(
    conn: Connection | Pool, row: _StoredCollection, after: tuple[str, bytes]
) -> StaleKeys:
    """Read the next keys after one; return those that their records do not have."""
    place = (row.tenant, row.collection_no, *after)
    found = await conn.fetch(Q["scan_unique_values"], *place, record_scan.BATCH)
    stale = [one for one in found if not _is_held(one)]
    return StaleKeys(
        [UniqueRow(*tuple(one)[:3]) for one in stale],
        {one["record_id"]: one["version"] for one in stale},
        (found[-1]["field"], found[-1]["value_hash"]) if found else None,
    )


async def drop_stale(conn: Connection | Pool, row: _StoredCollection, stale: StaleKeys) -> set[str]:
    """Delete keys of records that still have these versions, and return the ids of these."""
    return await _of_free_records(conn, "drop_stale_values", row, stale.keys, stale.versions)


async def _of_free_records(
    conn: Connection | Pool,
    query: str,
    row: _StoredCollection,
    keys: Sequence[UniqueRow],
    versions: Mapping[str, int | None],
) -> set[str]:
    if not keys:
        return set()
    seen = [versions[one.record_id] for one in keys]
    place = (row.tenant, row.collection_no)
    done = await conn.fetch(Q[query], *place, *_columns(keys), seen)
    return {one["record_id"] for one in done}


def _is_held(one: Any) -> bool:
    """Return whether a record has the value of its key."""
    if one["value"] is None:
        return False
    value = msgspec.json.decode(one["value"])
    return value is not None and bool(unique_hash(value) == one["value_hash"])


def _columns(keys: Sequence[UniqueRow]) -> list[list[Any]]:
    return [list(column) for column in zip(*keys, strict=True)]


async def replace(
    conn: Connection, row: _StoredCollection, after: CollectionDefinition, keys: Sequence[UniqueRow]
) -> None:
    """Store the keys of fields that become unique, in place of any from the last time they were."""
    fields = new_unique_fields(row.definition, after)
    if fields:
        place = (row.tenant, row.collection_no)
        await conn.execute(Q["drop_unique_values"], *place, fields)
        if keys:
            await conn.execute(Q["add_unique_values"], *place, *_columns(keys))


async def forget_others(conn: Connection | Pool, row: _StoredCollection, fields: list[str]) -> None:
    """Delete the keys of fields that are not unique any more."""
    await conn.execute(Q["forget_unique_values"], row.tenant, row.collection_no, fields)
