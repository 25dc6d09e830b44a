"""Synchronizes event types with an application's declaration, all or nothing."""

import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from core.events.event_type import EventTypeRefusal, SchemaType, Validation, Version, VersionStatus
from core.events.event_type_sync import (
    DesiredVersion,
    SyncPlan,
    SyncPlanRefused,
    plan_removal,
    plan_sync,
)
from core.shared.refusal import Refusal
from storage.events import event_types
from storage.events.event_types import EventType, NewEventType, TypeChange, VersionDraft
from storage.postgres import change_notifications
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q
from storage.postgres.reconciler import (
    DeclarationOptions,
    Reconciler,
    Synced,
    SyncOutcome,
    SyncRefusal,
)

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
    pool: Pool, tenant: int, options: DeclarationOptions, declared: Sequence[DeclaredType]
) -> Synced:
    """Apply a declaration; versions that are not declared stay."""
    codes = [one.code for one in declared]
    stored: Fingerprints = {}

    async def lock(conn: Connection) -> None:
        nonlocal stored
        await conn.execute(Q["hold_tenant"], tenant)
        stored = await read_fingerprints(conn, tenant, codes)

    async def apply(conn: Connection, one: DeclaredType) -> SyncOutcome | Refusal | SyncRefusal:
        return await _apply(conn, tenant, one, stored)

    async def remove(conn: Connection) -> AsyncIterator[tuple[str, SyncOutcome | Refusal]]:
        limits = (options.application, codes, MAX_REMOVED)
        rows = await conn.fetch(Q["hold_undeclared_types"], tenant, *limits)
        for one in await event_types.with_versions(conn, tenant, rows):
            yield one.code, await _remove(conn, tenant, one)

    reconciler = Reconciler(
        lock=lock,
        apply=apply,
        remove=remove,
        notify=lambda conn: change_notifications.notify(conn, ChangeTopic.EVENT_TYPES, tenant),
    )
    return await reconciler.run(pool, options, sorted(declared, key=lambda one: one.code))


async def _apply(
    conn: Connection, tenant: int, declared: DeclaredType, stored: Fingerprints
) -> SyncOutcome | Refusal | SyncRefusal:
    code, outcome = declared.code, SyncOutcome.UNCHANGED
    current = await event_types.lock_for_update(conn, tenant, code)
    if current is None and await event_types.add(conn, tenant, declared.new):
        current = await event_types.lock_for_update(conn, tenant, code)
        outcome = SyncOutcome.CREATED
    if current is None:
        return EventTypeRefusal.CHANGED_MEANWHILE
    if current.client_scoped is not declared.new.client_scoped:
        return EventTypeRefusal.SCOPE_IS_FIXED
    steps = plan_sync(current.lifecycle, _compared(declared, stored))
    if isinstance(steps, SyncPlanRefused):
        return SyncRefusal(code, *steps)
    drafts = {one.version: one.draft for one in declared.versions if one.draft is not None}
    if not drafts.keys() >= set(steps.new_schemas):
        return EventTypeRefusal.CHANGED_MEANWHILE
    is_renamed = await _rename(conn, tenant, current, declared)
    await _take(conn, tenant, code, steps, drafts)
    is_updated = outcome is SyncOutcome.UNCHANGED and (is_renamed or steps)
    return SyncOutcome.UPDATED if is_updated else outcome


def _compared(declared: DeclaredType, stored: Fingerprints) -> list[DesiredVersion]:
    return [
        DesiredVersion(
            one.version, stored.get((declared.code, one.version)) != one.fingerprint, one.status
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


async def _rename(
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


async def _remove(conn: Connection, tenant: int, one: EventType) -> SyncOutcome | Refusal:
    """Archive or delete a type that is no longer declared, where that is allowed."""
    removal = plan_removal(one.lifecycle)
    if removal.kept is not None:
        return removal.kept
    query = "drop_event_type" if removal.deletes else "archive_event_type"
    await conn.execute(Q[query], tenant, one.code)
    return SyncOutcome.REMOVED if removal.deletes else SyncOutcome.ARCHIVED
