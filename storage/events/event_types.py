"""Event types and the versions of their schemas. Callers decide which changes are allowed."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

import asyncpg

from core.events.event_type import (
    EventTypeCode,
    EventTypeLifecycle,
    EventTypeRefusal,
    SchemaType,
    StatusChanges,
    TypeSource,
    TypeStatus,
    Validation,
    Version,
    VersionStatus,
)
from storage.postgres import change_notifications
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecVersion:
    """A version of a type, without its schema."""

    version: Version
    status: VersionStatus
    mime_type: str
    schema_type: SchemaType
    digest: bytes
    weight: int | None
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EventType:
    """A type with its versions, oldest first."""

    event_type_id: str
    code: str
    name: str
    description: str | None
    status: TypeStatus
    source: TypeSource
    client_scoped: bool
    validation: Validation
    created_at: float
    updated_at: float
    versions: tuple[SpecVersion, ...]

    @property
    def segments(self) -> EventTypeCode:
        return EventTypeCode(*self.code.split(":"))

    @property
    def lifecycle(self) -> EventTypeLifecycle:
        return EventTypeLifecycle(self.status, {one.version: one.status for one in self.versions})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEventType:
    """A type to register."""

    event_type_id: str
    code: EventTypeCode
    name: str
    description: str | None
    source: TypeSource
    client_scoped: bool
    validation: Validation


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeChange:
    """New texts for a type; None keeps the stored value, unless `describes` is set."""

    name: str | None = None
    description: str | None = None
    describes: bool = False
    validation: Validation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFilter:
    """A filter of types; None matches all."""

    application: str | None = None
    subdomain: str | None = None
    aggregate: str | None = None
    status: TypeStatus | None = None
    source: TypeSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDraft:
    """A version with its schema. `compiled` is set only if it differs from the text."""

    version: Version
    mime_type: str
    schema_type: SchemaType
    schema_text: str
    compiled: bytes | None
    digest: bytes
    weight: int | None


@dataclass(frozen=True, slots=True)
class CompiledSchemaRow:
    """The compiled schema that payloads are validated against."""

    schema_type: SchemaType
    form: bytes
    digest: bytes
    weight: int | None


Refuse: TypeAlias = Callable[[EventTypeLifecycle], EventTypeRefusal | None]
RefuseVersion: TypeAlias = Callable[[EventTypeLifecycle, Version], EventTypeRefusal | None]
Decide: TypeAlias = Callable[[EventTypeLifecycle, Version], EventTypeRefusal | StatusChanges]


async def create(pool: Pool, tenant: int, new: NewEventType) -> bool:
    """Register a type; return False if its code is taken."""
    async with pool.acquire() as conn, conn.transaction():
        made = await add(conn, tenant, new)
        if made:
            await change_notifications.notify(conn, ChangeTopic.EVENT_TYPES, tenant)
        return made


async def add(conn: Connection, tenant: int, new: NewEventType) -> bool:
    """Register a type in the caller's transaction; the caller notifies listeners."""
    made = await conn.fetchval(
        Q["create_event_type"],
        tenant,
        str(new.code),
        new.event_type_id,
        *new.code,
        new.name,
        new.description,
        new.source,
        new.client_scoped,
        new.validation,
    )
    return made is not None


async def page(
    pool: Pool, tenant: int, chosen: TypeFilter, after: str, limit: int
) -> list[EventType]:
    """Read the next types of a listing, by code."""
    rows = await pool.fetch(
        Q["list_event_types"],
        tenant,
        after,
        chosen.application,
        chosen.subdomain,
        chosen.aggregate,
        chosen.status,
        chosen.source,
        limit,
    )
    return await with_versions(pool, tenant, rows)


async def read(pool: Pool, tenant: int, name: str) -> EventType | None:
    """Read one type by its code or id."""
    rows = await pool.fetch(Q["read_event_type"], tenant, name)
    found = await with_versions(pool, tenant, rows)
    return found[0] if found else None


async def schema_text(pool: Pool, tenant: int, code: str, version: Version) -> str | None:
    text: str | None = await pool.fetchval(Q["read_schema_text"], tenant, code, *version)
    return text


async def compiled(
    pool: Pool, tenant: int, code: str, version: Version
) -> CompiledSchemaRow | None:
    """Read the compiled schema of a version."""
    row = await pool.fetchrow(Q["read_compiled_schema"], tenant, code, *version)
    if row is None:
        return None
    return CompiledSchemaRow(
        SchemaType(row["schema_type"]), row["form"], row["digest"], row["weight"]
    )


async def change(pool: Pool, tenant: int, name: str, update: TypeChange) -> bool:
    """Change the texts of a type; return False if there is no such type."""
    async with pool.acquire() as conn, conn.transaction():
        changed = await rename(conn, tenant, name, update)
        if changed:
            await change_notifications.notify(conn, ChangeTopic.EVENT_TYPES, tenant)
        return changed


async def rename(conn: Connection, tenant: int, name: str, update: TypeChange) -> bool:
    """Change the texts in the caller's transaction; the caller notifies listeners."""
    changed = await conn.fetchval(
        Q["change_event_type"],
        tenant,
        name,
        update.name,
        update.describes,
        update.description,
        update.validation,
    )
    return changed is not None


async def put_version(
    pool: Pool, tenant: int, name: str, draft: VersionDraft, refuse: RefuseVersion
) -> EventTypeRefusal | EventType:
    """Add a version or replace its schema, unless `refuse` objects."""
    async with _held(pool, tenant, name) as (conn, current):
        if current is None:
            return EventTypeRefusal.EVENT_TYPE_NOT_FOUND
        refusal = refuse(current.lifecycle, draft.version)
        if refusal is not None:
            return refusal
        await keep_version(conn, tenant, current.code, draft)
        return await _touched(conn, tenant, current)


async def keep_version(conn: Connection, tenant: int, code: str, draft: VersionDraft) -> None:
    """Store a version in the caller's transaction, without a check."""
    await conn.execute(
        Q["put_version"],
        tenant,
        code,
        *draft.version,
        draft.mime_type,
        draft.schema_type,
        draft.schema_text,
        draft.compiled,
        draft.digest,
        draft.weight,
    )


async def move_version(
    pool: Pool, tenant: int, name: str, version: Version, decide: Decide
) -> EventTypeRefusal | EventType:
    """Change the status of a version, and of other versions as `decide` says."""
    async with _held(pool, tenant, name) as (conn, current):
        if current is None:
            return EventTypeRefusal.EVENT_TYPE_NOT_FOUND
        moves = decide(current.lifecycle, version)
        if isinstance(moves, EventTypeRefusal):
            return moves
        await set_statuses(conn, tenant, current.code, moves)
        return await _touched(conn, tenant, current)


async def set_statuses(conn: Connection, tenant: int, code: str, moves: StatusChanges) -> None:
    """Store statuses in the caller's transaction, without a check."""
    majors, minors = [one.major for one in moves], [one.minor for one in moves]
    statuses = [status.value for status in moves.values()]
    await conn.execute(Q["move_versions"], tenant, code, majors, minors, statuses)


async def archive(
    pool: Pool, tenant: int, name: str, refuse: Refuse
) -> EventTypeRefusal | EventType:
    """Archive a type, unless `refuse` objects."""
    async with _held(pool, tenant, name) as (conn, current):
        if current is None:
            return EventTypeRefusal.EVENT_TYPE_NOT_FOUND
        refusal = refuse(current.lifecycle)
        if refusal is not None:
            return refusal
        await conn.execute(Q["archive_event_type"], tenant, current.code)
        return await _touched(conn, tenant, current)


async def drop(pool: Pool, tenant: int, name: str, refuse: Refuse) -> EventTypeRefusal | str:
    """Delete a type, unless `refuse` objects; return its code."""
    async with _held(pool, tenant, name) as (conn, current):
        if current is None:
            return EventTypeRefusal.EVENT_TYPE_NOT_FOUND
        refusal = refuse(current.lifecycle)
        if refusal is not None:
            return refusal
        await conn.execute(Q["drop_event_type"], tenant, current.code)
        await change_notifications.notify(conn, ChangeTopic.EVENT_TYPES, tenant)
        return current.code


async def applications(pool: Pool, tenant: int, limit: int) -> list[str]:
    """List the applications that have types."""
    return _segments(await pool.fetch(Q["list_applications"], tenant, limit))


async def subdomains(pool: Pool, tenant: int, application: str | None, limit: int) -> list[str]:
    """List the subdomains of one application or of all."""
    return _segments(await pool.fetch(Q["list_subdomains"], tenant, application, limit))


async def aggregates(
    pool: Pool, tenant: int, application: str | None, subdomain: str | None, limit: int
) -> list[str]:
    """List the aggregates of one application and subdomain, or of all."""
    rows = await pool.fetch(Q["list_aggregates"], tenant, application, subdomain, limit)
    return _segments(rows)


@asynccontextmanager
async def _held(
    pool: Pool, tenant: int, name: str
) -> AsyncIterator[tuple[Connection, EventType | None]]:
    """Open a transaction that locks a type."""
    async with pool.acquire() as conn, conn.transaction():
        yield conn, await lock_for_update(conn, tenant, name)


async def lock_for_update(conn: Connection, tenant: int, name: str) -> EventType | None:
    """Lock a type until the transaction ends."""
    rows = await conn.fetch(Q["hold_event_type"], tenant, name)
    found = await with_versions(conn, tenant, rows)
    return found[0] if found else None


async def _touched(conn: Connection, tenant: int, current: EventType) -> EventType:
    await conn.execute(Q["touch_event_type"], tenant, current.code)
    await change_notifications.notify(conn, ChangeTopic.EVENT_TYPES, tenant)
    rows = await conn.fetch(Q["read_event_type"], tenant, current.code)
    (found,) = await with_versions(conn, tenant, rows)
    return found


async def with_versions(
    conn: Pool | Connection, tenant: int, rows: Sequence[asyncpg.Record]
) -> list[EventType]:
    """Convert rows to types with their versions."""
    if not rows:
        return []
    versions: dict[str, list[SpecVersion]] = {row["code"]: [] for row in rows}
    for row in await conn.fetch(Q["list_versions"], tenant, list(versions)):
        versions[row["code"]].append(_version(row))
    return [_event_type(row, tuple(versions[row["code"]])) for row in rows]


def _event_type(row: asyncpg.Record, versions: tuple[SpecVersion, ...]) -> EventType:
    return EventType(
        event_type_id=row["event_type_id"],
        code=row["code"],
        name=row["name"],
        description=row["description"],
        status=TypeStatus(row["status"]),
        source=TypeSource(row["source"]),
        client_scoped=row["client_scoped"],
        validation=Validation(row["validation"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        versions=versions,
    )


def _version(row: asyncpg.Record) -> SpecVersion:
    return SpecVersion(
        version=Version(row["major"], row["minor"]),
        status=VersionStatus(row["status"]),
        mime_type=row["mime_type"],
        schema_type=SchemaType(row["schema_type"]),
        digest=row["digest"],
        weight=row["weight"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _segments(rows: Sequence[asyncpg.Record]) -> list[str]:
    return [row["segment"] for row in rows]
