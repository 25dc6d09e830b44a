"""Event types as an application declares them: all of it becomes so, or nothing changes."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from core.events.event_type import Refusal, SchemaType, Validation, Version, VersionStatus
from core.events.event_type_sync import Declared, Refused, Steps, plan, remove
from storage.events import event_types
from storage.events.event_types import Draft, EventType, NewEventType, TypeChange
from storage.postgres import change_notifications
from storage.postgres.change_notifications import Topic
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

MOST_REMOVED = 1_000

Prints: TypeAlias = Mapping[tuple[str, Version], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredVersion:
    """A version as it is to be; its draft is there where another schema was kept before."""

    version: Version
    status: VersionStatus | None
    print: bytes
    draft: Draft | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredType:
    """A type as it is to be; None leaves its validation as it is."""

    new: NewEventType
    validation: Validation | None
    versions: tuple[DeclaredVersion, ...]

    @property
    def code(self) -> str:
        """Its code as text."""
        return str(self.new.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """All that an application declares."""

    application: str
    types: Sequence[DeclaredType]
    removes: bool
    is_rehearsal: bool


@dataclass(frozen=True, slots=True)
class Synced:
    """What has become of which type."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    archived: list[str] = field(default_factory=list)
    kept: dict[str, Refusal] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything is another than before."""
        return bool(self.created or self.updated or self.removed or self.archived)


class SyncRefused(NamedTuple):
    """Why nothing has changed."""

    code: str
    refusal: Refusal
    version: Version | None = None


def print_of(kind: SchemaType, mime_type: str, text: str) -> bytes:
    """What a schema is made of, in one value: as `list_schema_prints` has it."""
    return hashlib.sha256(f"{kind} {mime_type} {text}".encode()).digest()


async def prints(pool: Pool | Connection, tenant: int, codes: Iterable[str]) -> Prints:
    """The schemas that are kept of these types."""
    rows = await pool.fetch(Q["list_schema_prints"], tenant, list(codes))
    return {(row["code"], Version(row["major"], row["minor"])): row["print"] for row in rows}


async def sync(pool: Pool, tenant: int, declaration: Declaration) -> SyncRefused | Synced:
    """Make the types what is declared. A rehearsal, like a refusal, changes nothing."""
    async with pool.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        try:
            done = await _sync(conn, tenant, declaration)
            keeps = isinstance(done, Synced) and not declaration.is_rehearsal
            if keeps and done:
                await change_notifications.notify(conn, Topic.EVENT_TYPES, tenant)
        except BaseException:
            await transaction.rollback()
            raise
        await (transaction.commit() if keeps else transaction.rollback())
        return done


async def _sync(conn: Connection, tenant: int, declaration: Declaration) -> SyncRefused | Synced:
    await conn.execute(Q["hold_tenant"], tenant)  # else two at once might wait for each other
    codes = [one.code for one in declaration.types]
    kept = await prints(conn, tenant, codes)
    done = Synced()
    for declared in sorted(declaration.types, key=lambda one: one.code):
        refused = await _settle(conn, tenant, declared, kept, done)
        if refused is not None:
            return refused
    if declaration.removes:
        await _remove(conn, tenant, declaration.application, codes, done)
    return done


async def _settle(
    conn: Connection, tenant: int, declared: DeclaredType, kept: Prints, done: Synced
) -> SyncRefused | None:
    """Make one type what is declared, and note what that came to."""
    code = declared.code
    held = await event_types.hold(conn, tenant, code)
    if held is None and await event_types.add(conn, tenant, declared.new):
        held = await event_types.hold(conn, tenant, code)
        done.created.append(code)
    if held is None:
        return SyncRefused(code, Refusal.CHANGED_MEANWHILE)
    if held.client_scoped is not declared.new.client_scoped:
        return SyncRefused(code, Refusal.SCOPE_IS_FIXED)
    steps = plan(held.life, _compared(declared, kept))
    if isinstance(steps, Refused):
        return SyncRefused(code, *steps)
    drafts = {one.version: one.draft for one in declared.versions if one.draft is not None}
    if not drafts.keys() >= set(steps.puts):
        return SyncRefused(code, Refusal.CHANGED_MEANWHILE)
    changed = await _reword(conn, tenant, held, declared)
    await _take(conn, tenant, code, steps, drafts)
    if code not in done.created:
        (done.updated if changed or steps else done.unchanged).append(code)
    return None


def _compared(declared: DeclaredType, kept: Prints) -> list[Declared]:
    return [
        Declared(one.version, kept.get((declared.code, one.version)) != one.print, one.status)
        for one in declared.versions
    ]


async def _take(
    conn: Connection, tenant: int, code: str, steps: Steps, drafts: Mapping[Version, Draft]
) -> None:
    for version in steps.puts:
        await event_types.keep_version(conn, tenant, code, drafts[version])
    if steps.moves:
        await event_types.set_statuses(conn, tenant, code, steps.moves)
    if steps:
        await conn.execute(Q["touch_event_type"], tenant, code)


async def _reword(conn: Connection, tenant: int, held: EventType, declared: DeclaredType) -> bool:
    """Whether it was called otherwise."""
    new, validation = declared.new, declared.validation or held.validation
    words = (new.name, new.description, validation)
    if words == (held.name, held.description, held.validation):
        return False
    wish = TypeChange(
        name=new.name, description=new.description, describes=True, validation=validation
    )
    return await event_types.rename(conn, tenant, held.code, wish)


async def _remove(
    conn: Connection, tenant: int, application: str, declared: list[str], done: Synced
) -> None:
    """Put away what was declared once and is no more, as far as that is allowed."""
    rows = await conn.fetch(Q["hold_undeclared_types"], tenant, application, declared, MOST_REMOVED)
    for one in await event_types.with_versions(conn, tenant, rows):
        removal = remove(one.life)
        if removal.kept is not None:
            done.kept[one.code] = removal.kept
        elif removal.drops:
            await conn.execute(Q["drop_event_type"], tenant, one.code)
            done.removed.append(one.code)
        else:
            await conn.execute(Q["archive_event_type"], tenant, one.code)
            done.archived.append(one.code)
