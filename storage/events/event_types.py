"""Event types and the versions of their schemas. What may become of them is decided by callers."""

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
    """Other words for a type; None leaves as it is, but for a description that is to go."""

    name: str | None = None
    description: str | None = None
    describes: bool = False
    validation: Validation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFilter:
    """Which types are meant; None leaves a filter off."""

    application: str | None = None
    subdomain: str | None = None
    aggregate: str | None = None
    status: TypeStatus | None = None
    source: TypeSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDraft:
    """A version with its schema. `compiled` is there where it is more than the text."""

    version: Version
    mime_type: str
    schema_type: SchemaType
    schema_text: str
    compiled: bytes | None
    digest: bytes
    weight: int | None


@dataclass(frozen=True, slots=True)
class CompiledSchemaRow:
    """What payloads are held against."""

    schema_type: SchemaType
    form: bytes
    digest: bytes
    weight: int | None


Refuse: TypeAlias = Callable[[EventTypeLifecycle], EventTypeRefusal | None]
RefuseVersion: TypeAlias = Callable[[EventTypeLifecycle, Version], EventTypeRefusal | None]
Decide: TypeAlias = Callable[[EventTypeLifecycle, Version], EventTypeRefusal | StatusChanges]


async def create(pool: Pool, tenant: int, new: NewEventType) -> bool:
    """Register a type; False if its code is taken."""
    async with pool.acquire() as conn, conn.transaction():
        made = await add(conn, tenant, new)
        if made:
            await change_notifications.notify(conn, ChangeTopic.EVENT_TYPES, tenant)
        return made


async def add(conn: Connection, tenant: int, new: NewEventType) -> bool:
    """The same, in a transaction of the caller's, who tells others."""
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
    """The next types of a listing, by code."""
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
    """One type, by its code or its id."""
    rows = await pool.fetch(Q["read_event_type"], tenant, name)
    found = await with_versions(pool, tenant, rows)
    return found[0] if found else None


async def schema_text(pool: Pool, tenant: int, code: str, version: Version) -> str | None:
    """The schema of a version."""
    text: str | None = await pool.fetchval(Q["read_schema_text"], tenant, code, *version)
    return text


async def compiled(
    pool: Pool, tenant: int, code: str, version: Version
) -> CompiledSchemaRow | None:
    """What payloads are held against, of a version."""
    row = await pool.fetchrow(Q["read_compiled_schema"], tenant, code, *version)
    if row is None:
        return None
    return CompiledSchemaRow(
        SchemaType(row["schema_type"]), row["form"], row["digest"], row["weight"]
    )


async def change(pool: Pool, tenant: int, name: str, update: TypeChange) -> bool:
    """Change its words; False if there is none."""
    async with pool.acquire() as conn, conn.transaction():
        changed = await rename(conn, tenant, name, update)
        if changed:
            await change_notifications.notify(conn, ChangeTopic.EVENT_TYPES, tenant)
        return changed


async def rename(conn: Connection, tenant: int, name: str, update: TypeChange) -> bool:
    """The same, in a transaction of the caller's, who tells others."""
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
    """Add a version or give it another schema, unless that is refused."""
    async with _held(pool, tenant, name) as (conn, current):
        if current is None:
            return EventTypeRefusal.EVENT_TYPE_NOT_FOUND
        refusal = refuse(current.lifecycle, draft.version)
        if refusal is not None:
            return refusal
        await keep_version(conn, tenant, current.code, draft)
        return await _touched(conn, tenant, current)


async def keep_version(conn: Connection, tenant: int, code: str, draft: VersionDraft) -> None:
    """The same, in a transaction of the caller's, who has decided."""
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
    """Let a version take its next step, and others make room for it."""
    async with _held(pool, tenant, name) as (conn, current):
        if current is None:
            return EventTypeRefusal.EVENT_TYPE_NOT_FOUND
        moves = decide(current.lifecycle, version)
        if isinstance(moves, EventTypeRefusal):
            return moves
        await set_statuses(conn, tenant, current.code, moves)
        return await _touched(conn, tenant, current)


async def set_statuses(conn: Connection, tenant: int, code: str, moves: StatusChanges) -> None:
    """The same, in a transaction of the caller's, who has decided."""
    majors, minors = [one.major for one in moves], [one.minor for one in moves]
    statuses = [status.value for status in moves.values()]
    await conn.execute(Q["move_versions"], tenant, code, majors, minors, statuses)


async def archive(
    pool: Pool, tenant: int, name: str, refuse: Refuse
) -> EventTypeRefusal | EventType:
    """Put a type out of use, unless that is refused."""
    async with _held(pool, tenant, name) as (conn, current):
        if current is None:
            return EventTypeRefusal.EVENT_TYPE_NOT_FOUND
        refusal = refuse(current.lifecycle)
        if refusal is not None:
            return refusal
        await conn.execute(Q["archive_event_type"], tenant, current.code)
        return await _touched(conn, tenant, current)


async def drop(pool: Pool, tenant: int, name: str, refuse: Refuse) -> EventTypeRefusal | str:
    """Remove a type, unless that is refused; its code."""
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
    """Every application that has types."""
    return _segments(await pool.fetch(Q["list_applications"], tenant, limit))


async def subdomains(pool: Pool, tenant: int, application: str | None, limit: int) -> list[str]:
    """Every subdomain, of one application or of all."""
    return _segments(await pool.fetch(Q["list_subdomains"], tenant, application, limit))


async def aggregates(
    pool: Pool, tenant: int, application: str | None, subdomain: str | None, limit: int
) -> list[str]:
    """Every aggregate, of one application and subdomain or of all."""
    rows = await pool.fetch(Q["list_aggregates"], tenant, application, subdomain, limit)
    return _segments(rows)


@asynccontextmanager
async def _held(
    pool: Pool, tenant: int, name: str
) -> AsyncIterator[tuple[Connection, EventType | None]]:
    """A type that nobody else changes meanwhile."""
    async with pool.acquire() as conn, conn.transaction():
        yield conn, await lock_for_update(conn, tenant, name)


async def lock_for_update(conn: Connection, tenant: int, name: str) -> EventType | None:
    """A type that nobody else changes before the transaction ends."""
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
    """The types of these rows, with their versions."""
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
