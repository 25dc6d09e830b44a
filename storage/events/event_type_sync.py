"""Synchronizes event types with an application's declaration, all or nothing."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from core.events.event_type import EventTypeRefusal, SchemaType, Validation, Version, VersionStatus
from core.events.event_type_sync import (
    DesiredVersion,
    SyncPlan,
    SyncPlanRefused,
    plan_removal,
    plan_sync,
)
from storage.events import event_types
from storage.events.event_types import EventType, NewEventType, TypeChange, VersionDraft
from storage.postgres import change_notifications
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

MAX_REMOVED = 1_000

Fingerprints: TypeAlias = Mapping[tuple[str, Version], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredVersion:
    """A declared version. `draft` is set only if the stored schema differs."""

    version: Version
    status: VersionStatus | None
    fingerprint: bytes
    draft: VersionDraft | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredType:
    """A declared type; validation None keeps the stored setting."""

    new: NewEventType
    validation: Validation | None
    versions: tuple[DeclaredVersion, ...]

    @property
    def code(self) -> str:
        return str(self.new.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTypeDeclaration:
    """Everything that an application declares."""

    application: str
    types: Sequence[DeclaredType]
    removes: bool
    is_dry_run: bool


@dataclass(frozen=True, slots=True)
class EventTypeSyncResult:
    """The codes of the declared types, by what was done with them."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    archived: list[str] = field(default_factory=list)
    kept: dict[str, EventTypeRefusal] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return True if anything changed."""
        return bool(self.created or self.updated or self.removed or self.archived)


class EventTypeSyncRefusal(NamedTuple):
    """Why the declaration was refused."""

    code: str
    refusal: EventTypeRefusal
    version: Version | None = None


def fingerprint_of(kind: SchemaType, mime_type: str, text: str) -> bytes:
    """Hash a schema in the same way as the query `list_schema_prints`."""
    return hashlib.sha256(f"{kind} {mime_type} {text}".encode()).digest()


async def read_fingerprints(
    pool: Pool | Connection, tenant: int, codes: Iterable[str]
) -> Fingerprints:
    """Read the fingerprints of the stored schemas of these types."""
    rows = await pool.fetch(Q["list_schema_prints"], tenant, list(codes))
    return {(row["code"], Version(row["major"], row["minor"])): row["print"] for row in rows}


async def sync(
    pool: Pool, tenant: int, declaration: EventTypeDeclaration
) -> EventTypeSyncRefusal | EventTypeSyncResult:
    """Apply a declaration. A rehearsal or a refusal changes nothing."""
    async with pool.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        try:
            done = await _sync(conn, tenant, declaration)
            keeps = isinstance(done, EventTypeSyncResult) and not declaration.is_dry_run
            if keeps and done:
                await change_notifications.notify(conn, ChangeTopic.EVENT_TYPES, tenant)
        except BaseException:
            await transaction.rollback()
            raise
        await (transaction.commit() if keeps else transaction.rollback())
        return done


async def _sync(
    conn: Connection, tenant: int, declaration: EventTypeDeclaration
) -> EventTypeSyncRefusal | EventTypeSyncResult:
    await conn.execute(Q["hold_tenant"], tenant)  # prevents deadlocks between two syncs
    codes = [one.code for one in declaration.types]
    kept = await read_fingerprints(conn, tenant, codes)
    done = EventTypeSyncResult()
    for declared in sorted(declaration.types, key=lambda one: one.code):
        refused = await _settle(conn, tenant, declared, kept, done)
        if refused is not None:
            return refused
    if declaration.removes:
        await _remove(conn, tenant, declaration.application, codes, done)
    return done


async def _settle(
    conn: Connection,
    tenant: int,
    declared: DeclaredType,
    kept: Fingerprints,
    done: EventTypeSyncResult,
) -> EventTypeSyncRefusal | None:
    """Apply the declaration of one type, and add the changes to `done`."""
    code = declared.code
    current = await event_types.lock_for_update(conn, tenant, code)
    if current is None and await event_types.add(conn, tenant, declared.new):
        current = await event_types.lock_for_update(conn, tenant, code)
        done.created.append(code)
    if current is None:
        return EventTypeSyncRefusal(code, EventTypeRefusal.CHANGED_MEANWHILE)
    if current.client_scoped is not declared.new.client_scoped:
        return EventTypeSyncRefusal(code, EventTypeRefusal.SCOPE_IS_FIXED)
    steps = plan_sync(current.lifecycle, _compared(declared, kept))
    if isinstance(steps, SyncPlanRefused):
        return EventTypeSyncRefusal(code, *steps)
    drafts = {one.version: one.draft for one in declared.versions if one.draft is not None}
    if not drafts.keys() >= set(steps.new_schemas):
        return EventTypeSyncRefusal(code, EventTypeRefusal.CHANGED_MEANWHILE)
    changed = await _reword(conn, tenant, current, declared)
    await _take(conn, tenant, code, steps, drafts)
    if code not in done.created:
        (done.updated if changed or steps else done.unchanged).append(code)
    return None


def _compared(declared: DeclaredType, kept: Fingerprints) -> list[DesiredVersion]:
    return [
        DesiredVersion(
            one.version, kept.get((declared.code, one.version)) != one.fingerprint, one.status
        )
        for one in declared.versions
    ]


async def _take(
    conn: Connection,
    tenant: int,
    code: str,
    steps: SyncPlan,
    drafts: Mapping[Version, VersionDraft],
) -> None:
    for version in steps.new_schemas:
        await event_types.keep_version(conn, tenant, code, drafts[version])
    if steps.status_changes:
        await event_types.set_statuses(conn, tenant, code, steps.status_changes)
    if steps:
        await conn.execute(Q["touch_event_type"], tenant, code)


async def _reword(
    conn: Connection, tenant: int, current: EventType, declared: DeclaredType
) -> bool:
    """Update name and description; return True if they changed."""
    new, validation = declared.new, declared.validation or current.validation
    words = (new.name, new.description, validation)
    if words == (current.name, current.description, current.validation):
        return False
    update = TypeChange(
        name=new.name, description=new.description, describes=True, validation=validation
    )
    return await event_types.rename(conn, tenant, current.code, update)


async def _remove(
    conn: Connection, tenant: int, application: str, declared: list[str], done: EventTypeSyncResult
) -> None:
    """Archive or delete types that are no longer declared, where that is allowed."""
    rows = await conn.fetch(Q["hold_undeclared_types"], tenant, application, declared, MAX_REMOVED)
    for one in await event_types.with_versions(conn, tenant, rows):
        removal = plan_removal(one.lifecycle)
        if removal.kept is not None:
            done.kept[one.code] = removal.kept
        elif removal.deletes:
            await conn.execute(Q["drop_event_type"], tenant, one.code)
            done.removed.append(one.code)
        else:
            await conn.execute(Q["archive_event_type"], tenant, one.code)
            done.archived.append(one.code)
