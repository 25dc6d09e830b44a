"""Event types and the versions of their schemas. Callers decide which changes are allowed."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, TypeAlias

import asyncpg
import msgspec

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
    describes: bool = False
    description: str | None = None
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
Step: TypeAlias = Callable[[Connection, EventType], Awaitable[EventTypeRefusal | None]]
"""Changes a locked type, or says why it cannot be changed."""


async def create(pool: Pool, tenant: int, new: NewEventType) -> bool:
    """Register a type; return False if its code is taken."""
    async with pool.acquire() as conn, conn.transaction():
        return await add(conn, tenant, new)


async def add(conn: Connection, tenant: int, new: NewEventType) -> bool:
    """Do what `create` does, in the caller's transaction."""
    type_id, code, *values = astuple(new)
    query = Q["create_event_type"]
    made = await conn.fetchval(query, tenant, str(new.code), type_id, *code, *values)
    if made is not None:
        await change_notifications.notify(conn, ChangeTopic.EVENT_TYPES, tenant)
    return made is not None


async def page(
    pool: Pool, tenant: int, chosen: TypeFilter, after: str, limit: int
) -> list[EventType]:
    """Read the next types of a listing, by code."""
    rows = await pool.fetch(Q["list_event_types"], tenant, after, *astuple(chosen), limit)
    return await with_versions(pool, tenant, rows)


async def read(conn: Pool | Connection, tenant: int, name: str) -> EventType | None:
    """Read one type by its code or id."""
    rows = await conn.fetch(Q["read_event_type"], tenant, name)
    return next(iter(await with_versions(conn, tenant, rows)), None)


async def schema_text(pool: Pool, tenant: int, code: str, version: Version) -> str | None:
    text: str | None = await pool.fetchval(Q["read_schema_text"], tenant, code, *version)
    return text


async def compiled(
    pool: Pool, tenant: int, code: str, version: Version
) -> CompiledSchemaRow | None:
    row = await pool.fetchrow(Q["read_compiled_schema"], tenant, code, *version)
    return msgspec.convert(dict(row), CompiledSchemaRow) if row else None


async def change(pool: Pool, tenant: int, name: str, update: TypeChange) -> bool:
    """Change the texts of a type; return False if there is no such type."""
    async with pool.acquire() as conn, conn.transaction():
        return await rename(conn, tenant, name, update)


async def rename(conn: Connection, tenant: int, name: str, update: TypeChange) -> bool:
    """Do what `change` does, in the caller's transaction."""
    changed = await conn.fetchval(Q["change_event_type"], tenant, name, *astuple(update))
    if changed is not None:
        await change_notifications.notify(conn, ChangeTopic.EVENT_TYPES, tenant)
    return changed is not None


async def put_version(
    pool: Pool, tenant: int, name: str, draft: VersionDraft, refuse: RefuseVersion
) -> EventTypeRefusal | EventType:
    """Add a version or replace its schema, unless `refuse` objects."""

    async def step(conn: Connection, current: EventType) -> EventTypeRefusal | None:
        refusal = refuse(current.lifecycle, draft.version)
        if refusal is None:
            await keep_version(conn, tenant, current.code, draft)
        return refusal

    return await _update(pool, tenant, name, step)


async def keep_version(conn: Connection, tenant: int, code: str, draft: VersionDraft) -> None:
    """Store a version in the caller's transaction, without a check."""
    version, *values = astuple(draft)
    await conn.execute(Q["put_version"], tenant, code, *version, *values)


async def move_version(
    pool: Pool, tenant: int, name: str, version: Version, decide: Decide
) -> EventTypeRefusal | EventType:
    """Change the status of a version, and of other versions as `decide` says."""

    async def step(conn: Connection, current: EventType) -> EventTypeRefusal | None:
        moves = decide(current.lifecycle, version)
        if isinstance(moves, EventTypeRefusal):
            return moves
        await set_statuses(conn, tenant, current.code, moves)
        return None

    return await _update(pool, tenant, name, step)


async def set_statuses(conn: Connection, tenant: int, code: str, moves: StatusChanges) -> None:
    """Store statuses in the caller's transaction, without a check."""
    majors, minors = [one.major for one in moves], [one.minor for one in moves]
    statuses = [status.value for status in moves.values()]
    await conn.execute(Q["move_versions"], tenant, code, majors, minors, statuses)


async def archive(
    pool: Pool, tenant: int, name: str, refuse: Refuse
) -> EventTypeRefusal | EventType:
    """Archive a type, unless `refuse` objects."""
    return await _run_unless(pool, tenant, name, refuse, "archive_event_type")


async def drop(pool: Pool, tenant: int, name: str, refuse: Refuse) -> EventTypeRefusal | EventType:
    """Delete a type, unless `refuse` objects; return it as it was."""
    return await _run_unless(pool, tenant, name, refuse, "drop_event_type")


async def _run_unless(
    pool: Pool, tenant: int, name: str, refuse: Refuse, query: str
) -> EventTypeRefusal | EventType:
    async def step(conn: Connection, current: EventType) -> EventTypeRefusal | None:
        refusal = refuse(current.lifecycle)
        if refusal is None:
            await conn.execute(Q[query], tenant, current.code)
        return refusal

    return await _update(pool, tenant, name, step)


async def _update(pool: Pool, tenant: int, name: str, step: Step) -> EventTypeRefusal | EventType:
    """Lock a type and change it in one step; return the type as it is then."""
    async with pool.acquire() as conn, conn.transaction():
        current = await lock_for_update(conn, tenant, name)
        if current is None:
            return EventTypeRefusal.EVENT_TYPE_NOT_FOUND
        refusal = await step(conn, current)
        if refusal is not None:
            return refusal
        await conn.execute(Q["touch_event_type"], tenant, current.code)
        await change_notifications.notify(conn, ChangeTopic.EVENT_TYPES, tenant)
        return await read(conn, tenant, current.code) or current


async def applications(pool: Pool, tenant: int, limit: int) -> list[str]:
    return [row[0] for row in await pool.fetch(Q["list_applications"], tenant, limit)]


async def subdomains(pool: Pool, tenant: int, application: str | None, limit: int) -> list[str]:
    """List the subdomains of one application or of all."""
    rows = await pool.fetch(Q["list_subdomains"], tenant, application, limit)
    return [row[0] for row in rows]


async def aggregates(
    pool: Pool, tenant: int, application: str | None, subdomain: str | None, limit: int
) -> list[str]:
    """List the aggregates of one application and subdomain, or of all."""
    rows = await pool.fetch(Q["list_aggregates"], tenant, application, subdomain, limit)
    return [row[0] for row in rows]


async def lock_for_update(conn: Connection, tenant: int, name: str) -> EventType | None:
    """Lock a type until the transaction ends."""
    rows = await conn.fetch(Q["hold_event_type"], tenant, name)
    return next(iter(await with_versions(conn, tenant, rows)), None)


async def with_versions(
    conn: Pool | Connection, tenant: int, rows: Sequence[asyncpg.Record]
) -> list[EventType]:
    if not rows:
        return []
    versions: dict[str, list[dict[str, Any]]] = {row["code"]: [] for row in rows}
    for row in await conn.fetch(Q["list_versions"], tenant, list(versions)):
        versions[row["code"]].append({**row, "version": (row["major"], row["minor"])})
    return [msgspec.convert({**row, "versions": versions[row["code"]]}, EventType) for row in rows]
