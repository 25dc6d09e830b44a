"""The changes of records, as they are read to tell others of them, and who is to be told."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from core.dispatch.subscription import candidate_patterns
from core.records.change_event import ChangedCollection, StoredChange, event_type
from core.records.record import ChangeKind
from storage.postgres.partitions import PartitionedTable
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q


class ChangeKey(NamedTuple):
    tenant: int
    collection_no: int
    record_id: str
    change_id: str


async def read(
    conn: Connection | Pool, keys: Sequence[ChangeKey], max_bytes: int
) -> list[StoredChange | None]:
    """Read the first of these changes, up to a number of bytes but at least one; None: gone."""
    rows = await conn.fetch(Q["read_changes"], *zip(*keys, strict=True), max_bytes)
    return [
        None
        if row["version"] is None
        else msgspec.convert({**row, "tenant": row["tenant_id"]}, StoredChange)
        for row in rows
    ]


async def read_collections(
    conn: Connection | Pool, collection_nos: Iterable[int]
) -> dict[int, ChangedCollection]:
    rows = await conn.fetch(Q["read_changed_collections"], sorted(set(collection_nos)))
    return {row["collection_no"]: msgspec.convert(dict(row), ChangedCollection) for row in rows}


async def followed_kinds(
    conn: Connection | Pool, collections: Sequence[tuple[int, str]]
) -> list[frozenset[str]]:
    """Return the kinds of changes that subscriptions follow, of collections by tenant and name.

    What is read holds until subscriptions change (`ChangeTopic.SUBSCRIPTIONS`).
    """
    asked = [
        (tenant, pattern, place, kind)
        for place, (tenant, name) in enumerate(collections)
        for kind in ChangeKind
        for pattern in candidate_patterns(event_type(name, kind))
    ]
    tenants, patterns = [one[0] for one in asked], [one[1] for one in asked]
    kinds: list[set[str]] = [set() for _ in collections]
    for row in await conn.fetch(Q["followed_patterns"], tenants, patterns):
        _, _, place, kind = asked[row["place"] - 1]
        kinds[place].add(kind)
    return [frozenset(one) for one in kinds]


async def oldest_unsent(pool: Pool) -> str | None:
    oldest: str | None = await pool.fetchval(Q["oldest_unsent_change"])
    return oldest


RECORD_CHANGES = PartitionedTable(
    name="record_changes", id_column="change_id", oldest_needed=oldest_unsent
)
