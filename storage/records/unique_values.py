"""Values that one record of a collection has: filled in where a field becomes unique."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

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


async def add(
    conn: Connection | Pool, row: _StoredCollection, keys: Sequence[UniqueRow]
) -> list[UniqueRow]:
    """Store keys; return those that another record has."""
    if not keys:
        return []
    columns = [list(column) for column in zip(*keys, strict=True)]
    place = (row.tenant, row.collection_no)
    await conn.execute(Q["add_unique_values"], *place, *columns)
    taken = await conn.fetch(Q["unique_values_of_others"], *place, *columns)
    return [UniqueRow(*one) for one in taken]


async def replace(
    conn: Connection, row: _StoredCollection, after: CollectionDefinition, keys: Sequence[UniqueRow]
) -> None:
    """Store the keys of fields that become unique, in place of any from the last time they were."""
    fields = new_unique_fields(row.definition, after)
    if fields:
        await conn.execute(Q["drop_unique_values"], row.tenant, row.collection_no, fields)
        await add(conn, row, keys)


async def forget_others(conn: Connection | Pool, row: _StoredCollection, fields: list[str]) -> None:
    """Delete the keys of fields that are not unique any more."""
    await conn.execute(Q["forget_unique_values"], row.tenant, row.collection_no, fields)
