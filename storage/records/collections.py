"""Collections in Postgres: definitions of records, with the versions they had."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import msgspec

from core.records.collection import (
    MAX_DEFINITION_AGE,
    MAX_TENANT_BYTES,
    MAX_VERSIONS,
    CollectionDefinition,
    CollectionRefusal,
    Collections,
    CollectionStatus,
    IndexSlots,
    needs_reindexing,
    unfilled_slots,
)
from storage.postgres import change_notifications
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q
from storage.postgres.table import Table
from storage.records import unique_values


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCollection:
    """A collection to create, with what is known of its definition without reading it."""

    collection_id: str
    name: str
    description: str | None
    definition: CollectionDefinition
    field_count: int = 0
    definition_bytes: int = 0
    refers_to: tuple[str, ...] = ()

    def measured(self) -> Self:
        """Return the collection with the columns that follow from its definition."""
        return replace(
            self,
            field_count=len(self.definition.fields),
            definition_bytes=len(msgspec.json.encode(self.definition)),
            refers_to=tuple(sorted(self.definition.refers_to)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionRow(NewCollection):
    """A stored collection."""

    collection_no: int
    tenant: int
    version: int
    status: CollectionStatus
    reindex_at: float | None = None
    """When the columns of its records can be filled anew; None once they are."""
    unfilled: tuple[str, ...] = ()
    """The indexed fields whose columns are not filled yet."""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def is_building(self) -> bool:
        return self.reindex_at is not None

    @property
    def filled_slots(self) -> IndexSlots:
        """Return the columns that serve listings, each by its field."""
        return tuple(None if name in self.unfilled else name for name in self.definition.slots)


class CollectionFilter(NamedTuple):
    """Which collections a listing shows; None leaves a filter off."""

    status: CollectionStatus | None = None


class CollectionSummary(msgspec.Struct, frozen=True):
    """A collection without its definition, which may be long."""

    collection_id: str
    name: str
    description: str | None
    field_count: int
    version: int
    status: CollectionStatus
    created_at: float
    updated_at: float


class CollectionVersion(msgspec.Struct, frozen=True):
    """When and by whom a version was made."""

    version: int
    note: str | None
    created_by: str | None
    created_at: float


class VersionNote(NamedTuple):
    """Who makes a version, and why; `expected` is the version that it replaces, None for any."""

    created_by: str | None = None
    note: str | None = None
    expected: int | None = None


Validate = Callable[[CollectionDefinition, Collections, Collections], None]
"""Raises if a definition is not valid beside those that it names and those that name it."""
Edit = Callable[[CollectionRow], CollectionRow]
Step = Callable[[Connection, CollectionRow], Awaitable[CollectionRefusal | CollectionRow]]

_table = Table(
    noun="collection",
    table="collections",
    row_type=CollectionRow,
    new_type=NewCollection,
    key="collection_no",
    saved=(
        "description", "definition", "field_count", "definition_bytes", "refers_to", "unfilled",
        "version", "status",
    ),
    filters={"status": "status = :status"},
    topic=ChangeTopic.COLLECTIONS,
    not_found=CollectionRefusal.COLLECTION_NOT_FOUND,
    code="name",
    documents=("definition",),
)  # fmt: skip
read, count = _table.read, _table.count


async def page(
    pool: Pool, tenant: int, wanted: CollectionFilter, after: str, limit: int
) -> list[CollectionSummary]:
    """List the next collections by name."""
    rows = await pool.fetch(Q["list_collection_summaries"], tenant, after, wanted.status, limit)
    return [msgspec.convert(dict(row), CollectionSummary) for row in rows]


async def read_no(conn: Pool | Connection, tenant: int, collection_no: int) -> CollectionRow | None:
    return await _table.first(conn, "read_collection_no", tenant, collection_no)


async def read_many(
    conn: Pool | Connection, tenant: int, names: Iterable[str]
) -> dict[str, CollectionRow]:
    """Read the active collections that have these names."""
    rows = await _table.all(conn, "read_active_collections", tenant, sorted(names))
    return {row.name: row for row in rows}


async def referring(conn: Pool | Connection, tenant: int, name: str) -> list[CollectionRow]:
    """Read the other active collections with fields that lead to this one or sum it up."""
    return await _table.all(conn, "collections_that_refer", tenant, name)


async def create(
    pool: Pool, tenant: int, new: NewCollection, note: VersionNote, validate: Validate
) -> CollectionRefusal | CollectionRow:
    async with pool.acquire() as conn, conn.transaction():
        await _lock(conn, tenant)
        await check(conn, tenant, new.definition, validate)
        measured = new.measured()
        if refusal := await _refuse_bytes(conn, tenant, measured):
            return refusal
        made = await _table.add(conn, tenant, measured)
        if made is None:
            return CollectionRefusal.NAME_EXISTS
        await _keep_version(conn, made, note)
        return made


async def change(
    pool: Pool, tenant: int, name: str, edit: Edit, note: VersionNote, validate: Validate
) -> CollectionRefusal | CollectionRow:
    """Change a collection that has the expected version; another definition is a new version."""

    async def step(conn: Connection, row: CollectionRow) -> CollectionRefusal | CollectionRow:
        if row.status is CollectionStatus.ARCHIVED:
            return CollectionRefusal.COLLECTION_ARCHIVED
        if note.expected not in (None, row.version):
            return CollectionRefusal.VERSION_CHANGED
        new = edit(row)
        if new == row:
            return row
        if new.definition == row.definition:
            return await _table.save(conn, new)
        version = row.version + 1
        new = replace(
            new,
            version=version,
            definition=msgspec.structs.replace(
                new.definition, version=version, masked=tuple(sorted(row.definition.hidden))
            ),
        )
        await check(conn, tenant, new.definition, validate)
        unfilled = {*row.unfilled, *unfilled_slots(row.definition, new.definition)}
        measured = replace(new.measured(), unfilled=tuple(sorted(unfilled)))
        if refusal := await _refuse_bytes(conn, tenant, measured):
            return refusal
        keys = await unique_values.collect(conn, row, new.definition)
        if isinstance(keys, CollectionRefusal):
            return keys
        await unique_values.replace(conn, row, new.definition, keys)
        if needs_reindexing(row.definition, new.definition):
            await conn.execute(Q["schedule_reindexing"], row.collection_no, MAX_DEFINITION_AGE)
        saved = await _table.save(conn, measured)
        await _keep_version(conn, saved, note)
        return saved

    return await _update(pool, tenant, name, step)


async def archive(pool: Pool, tenant: int, name: str) -> CollectionRefusal | CollectionRow:
    """Archive a collection that no other active collection refers to."""

    async def step(conn: Connection, row: CollectionRow) -> CollectionRefusal | CollectionRow:
        if await conn.fetchval(Q["collection_is_used"], tenant, row.name):
            return CollectionRefusal.COLLECTION_IN_USE
        return await _table.save(conn, replace(row, status=CollectionStatus.ARCHIVED))

    return await _update(pool, tenant, name, step)


async def activate(
    pool: Pool, tenant: int, name: str, validate: Validate
) -> CollectionRefusal | CollectionRow:
    """Activate an archived collection, if what it refers to is still there."""

    async def step(conn: Connection, row: CollectionRow) -> CollectionRefusal | CollectionRow:
        await check(conn, tenant, row.definition, validate)
        return await _table.save(conn, replace(row, status=CollectionStatus.ACTIVE))

    return await _update(pool, tenant, name, step)


async def versions(
    pool: Pool, tenant: int, collection_no: int, before: int, limit: int
) -> list[CollectionVersion]:
    """List the versions of a collection before a number, the newest first."""
    rows = await pool.fetch(Q["list_collection_versions"], collection_no, tenant, before, limit)
    return [msgspec.convert(dict(row), CollectionVersion) for row in rows]


async def read_version(
    pool: Pool, tenant: int, collection_no: int, version: int
) -> tuple[CollectionVersion, CollectionDefinition] | None:
    row = await pool.fetchrow(Q["read_collection_version"], collection_no, tenant, version)
    if row is None:
        return None
    definition = msgspec.json.decode(row["definition"], type=CollectionDefinition)
    return msgspec.convert(dict(row), CollectionVersion), definition


async def to_reindex(pool: Pool, limit: int) -> list[CollectionRow]:
    """Read the collections whose columns of records are to be filled now."""
    return await _table.all(pool, "collections_to_reindex", limit)


async def is_current(pool: Pool, row: CollectionRow) -> bool:
    """Return whether a collection still has the version that was read."""
    found: bool = await pool.fetchval(Q["collection_has_version"], row.collection_no, row.version)
    return found


async def finish_reindexing(pool: Pool, row: CollectionRow) -> None:
    """Let listings use the columns, unless the definition has changed since it was read."""
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute(Q["finish_reindexing"], row.collection_no, row.version)
        await change_notifications.notify(conn, ChangeTopic.COLLECTIONS, row.tenant)


async def _update(
    pool: Pool, tenant: int, name: str, step: Step
) -> CollectionRefusal | CollectionRow:
    async def lock(conn: Connection) -> None:
        await _lock(conn, tenant)

    return await _table.update(pool, tenant, name, step, lock)


async def _lock(conn: Connection, tenant: int) -> None:
    """Keep the tenant's other collections from changing, because they refer to each other."""
    await conn.execute(Q["lock_collections"], tenant)


async def check(
    conn: Pool | Connection, tenant: int, definition: CollectionDefinition, validate: Validate
) -> None:
    """Check a definition beside those that it names and those that name it."""
    named = await read_many(conn, tenant, definition.refers_to - {definition.name})
    naming = await referring(conn, tenant, definition.name)
    validate(
        definition,
        {row.name: row.definition for row in named.values()},
        {row.name: row.definition for row in naming},
    )


async def _refuse_bytes(
    conn: Connection, tenant: int, new: NewCollection
) -> CollectionRefusal | None:
    """Bound what a tenant's definitions have together: some requests read many of them."""
    others: int = await conn.fetchval(Q["bytes_of_definitions"], tenant, new.name)
    is_over = others + new.definition_bytes > MAX_TENANT_BYTES
    return CollectionRefusal.DEFINITIONS_TOO_LONG if is_over else None


async def _keep_version(conn: Connection, row: CollectionRow, note: VersionNote) -> None:
    definition = msgspec.json.encode(row.definition).decode()
    key = row.collection_no, row.version
    await conn.execute(
        Q["keep_collection_version"], *key, row.tenant, definition, note.note, note.created_by
    )
    await conn.execute(
        Q["forget_collection_versions"], row.collection_no, row.version - MAX_VERSIONS
    )
