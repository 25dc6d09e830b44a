"""What an application declares becomes so as a whole, on a real Postgres, and others are told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeAlias

import asyncpg
import pytest

from core.events import event_type as rules
from core.events.event_type import (
    EventTypeRefusal,
    SchemaType,
    TypeSource,
    TypeStatus,
    Validation,
    Version,
    VersionStatus,
)
from storage.access import keys
from storage.events import event_type_sync, event_types
from storage.events.event_type_sync import (
    DeclaredType,
    DeclaredVersion,
    fingerprint_of,
)
from storage.events.event_types import EventType, NewEventType, TypeChange, VersionDraft
from storage.postgres.change_notifications import CHANNEL
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.postgres.reconciler import DeclarationOptions, SyncRefusal, SyncResult

CREATED, SHIPPED = "shop:orders:order:created", "shop:orders:order:shipped"
Sync: TypeAlias = Callable[..., Awaitable[Any]]

V10, V11 = Version(1, 0), Version(1, 1)
DRAFT, CURRENT, OLD = VersionStatus.FINALISING, VersionStatus.CURRENT, VersionStatus.DEPRECATED


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


@pytest.fixture
async def tenant(pool: Pool) -> int:
    return await keys.create_tenant(pool, "acme")


def new_type(code: str = CREATED, name: str = "Order", **more: Any) -> NewEventType:
    parsed = rules.parse_code(code)
    assert parsed is not None
    new = NewEventType(
        event_type_id=f"evt_{code}",
        code=parsed,
        name=name,
        description=None,
        source=TypeSource.CODE,
        client_scoped=False,
        validation=Validation.ENFORCE,
    )
    return replace(new, **more)


def version(
    number: Version = V10, status: VersionStatus | None = None, text: str = "{}", *, fresh: bool
) -> DeclaredVersion:
    kind, mime_type = SchemaType.JSON_SCHEMA, "application/json"
    draft = VersionDraft(
        version=number,
        mime_type=mime_type,
        schema_type=kind,
        schema_text=text,
        compiled=None,
        digest=text.encode(),
        weight=1,
    )
    made_of = fingerprint_of(kind, mime_type, text)
    return DeclaredVersion(
        version=number, status=status, fingerprint=made_of, draft=draft if fresh else None
    )


def declared(
    *versions: DeclaredVersion, validation: Validation | None = None, **new: Any
) -> DeclaredType:
    return DeclaredType(
        new=new_type(**new),
        validation=validation,
        versions=versions,
    )


@pytest.fixture
def sync(pool: Pool, tenant: int) -> Sync:
    async def make_so(
        *types: DeclaredType, removes: bool = False, is_dry_run: bool = False
    ) -> SyncRefusal | SyncResult:
        options = DeclarationOptions(application="shop", remove=removes, is_dry_run=is_dry_run)
        return await event_type_sync.sync(pool, tenant, options, types)

    return make_so


async def read(pool: Pool, tenant: int, code: str = CREATED) -> EventType:
    found = await event_types.read(pool, tenant, code)
    assert found is not None
    return found


async def test_a_declaration_is_made_so_and_then_nothing_is_left_to_do(
    pool: Pool, tenant: int, sync: Sync
) -> None:
    first = declared(version(V10, OLD, fresh=True), version(V11, CURRENT, text="true", fresh=True))
    assert await sync(first, declared(code=SHIPPED)) == SyncResult(created=[CREATED, SHIPPED])
    found = await read(pool, tenant)
    assert found.source is TypeSource.CODE
    assert found.lifecycle.versions == {V10: OLD, V11: CURRENT}
    assert await event_types.schema_text(pool, tenant, CREATED, V11) == "true"
    again = declared(
        version(V10, OLD, fresh=False), version(V11, CURRENT, text="true", fresh=False)
    )
    assert await sync(declared(code=SHIPPED), again) == SyncResult(unchanged=[CREATED, SHIPPED])
    assert await read(pool, tenant) == found


async def test_words_and_schemas_change_and_what_is_not_said_stays(
    pool: Pool, tenant: int, sync: Sync
) -> None:
    await sync(declared(version(fresh=True), description="once"))
    await event_types.change(pool, tenant, CREATED, TypeChange(validation=Validation.WARN))
    changed = await sync(declared(version(text="true", fresh=True), name="Other"))
    assert changed == SyncResult(updated=[CREATED])
    found = await read(pool, tenant)
    assert (found.name, found.description, found.validation) == ("Other", None, Validation.WARN)
    assert await event_types.schema_text(pool, tenant, CREATED, V10) == "true"
    assert await sync(declared(name="Other")) == SyncResult(unchanged=[CREATED])
    strict = declared(name="Other", validation=Validation.ENFORCE)
    assert await sync(strict) == SyncResult(updated=[CREATED])
    assert (await read(pool, tenant)).validation is Validation.ENFORCE
    assert await sync(declared(version(V10, CURRENT, "true", fresh=False), name="Other"))
    assert (await read(pool, tenant)).lifecycle.versions == {V10: CURRENT}


async def test_one_refusal_and_nothing_has_changed(pool: Pool, tenant: int, sync: Sync) -> None:
    await sync(declared(version(V10, CURRENT, fresh=True)))
    other = declared(version(text="true", fresh=True))
    refused = await sync(declared(code="shop:a:b:c"), other, declared(code=SHIPPED))
    assert refused == SyncRefusal(CREATED, EventTypeRefusal.INVALID_STATUS, V10)
    assert await event_types.read(pool, tenant, "shop:a:b:c") is None
    scoped = declared(client_scoped=True)
    assert await sync(scoped) == SyncRefusal(CREATED, EventTypeRefusal.SCOPE_IS_FIXED)
    # It was the same when it was looked at, and is not any more.
    stale = declared(version(text="true", fresh=False), code=SHIPPED)
    assert await sync(stale) == SyncRefusal(SHIPPED, EventTypeRefusal.CHANGED_MEANWHILE)
    await event_types.move_version(pool, tenant, CREATED, V10, rules.deprecate)
    await event_types.archive(pool, tenant, CREATED, rules.refuse_archive)
    assert await sync(declared()) == SyncRefusal(CREATED, EventTypeRefusal.ALREADY_ARCHIVED)


async def test_a_rehearsal_says_all_and_does_nothing(pool: Pool, tenant: int, sync: Sync) -> None:
    assert await sync(declared(), is_dry_run=True) == SyncResult(created=[CREATED])
    assert await event_types.read(pool, tenant, CREATED) is None


async def test_what_is_declared_no_more_goes_if_that_was_asked_for(
    pool: Pool, tenant: int, sync: Sync
) -> None:
    other = await keys.create_tenant(pool, "other")
    await event_types.create(pool, other, new_type("shop:a:b:draft"))
    await event_types.create(pool, tenant, new_type("shop:a:b:by-hand", source=TypeSource.UI))
    await event_types.create(pool, tenant, new_type("crm:a:b:draft"))
    await sync(
        declared(version(fresh=True), code="shop:a:b:draft"),
        declared(version(V10, OLD, fresh=True), code="shop:a:b:old"),
        declared(version(V10, CURRENT, fresh=True), code="shop:a:b:used"),
    )
    assert await sync(declared()) == SyncResult(created=[CREATED])
    assert await sync(declared(), removes=True) == SyncResult(
        unchanged=[CREATED],
        removed=["shop:a:b:draft"],
        archived=["shop:a:b:old"],
        kept=[SyncRefusal("shop:a:b:used", EventTypeRefusal.VERSIONS_NOT_DEPRECATED)],
    )
    assert (await read(pool, tenant, "shop:a:b:old")).status is TypeStatus.ARCHIVED
    for owner, code in ((tenant, "shop:a:b:by-hand"), (tenant, "crm:a:b:draft")):
        await read(pool, owner, code)
    await read(pool, other, "shop:a:b:draft")


async def test_two_at_once_are_one_after_the_other(sync: Sync) -> None:
    codes = [f"shop:a:b:n{number}" for number in range(20)]
    done = await asyncio.gather(
        *(sync(*(declared(code=code) for code in turn)) for turn in (codes, codes[::-1]) * 2)
    )
    assert sorted(len(one.created) for one in done) == [0, 0, 0, 20]


async def test_every_change_is_told_and_nothing_else_is(
    database: str, pool: Pool, tenant: int, sync: Sync
) -> None:
    told: list[str] = []
    listener = await asyncpg.connect(database)
    await listener.add_listener(CHANNEL, lambda *message: told.append(message[-1]))

    async def heard() -> int:
        """How many notices came of all that was done before."""
        await listener.fetchval("select 1")
        await asyncio.sleep(0)
        assert set(told) <= {f"event_types {tenant}"}
        count = len(told)
        told.clear()
        return count

    try:
        await sync(declared(version(V10, CURRENT, fresh=True)))
        assert await heard() == 1
        await sync(declared(version(V10, CURRENT, fresh=False)))
        await sync(declared(code=SHIPPED), is_dry_run=True)
        await sync(declared(client_scoped=True))
        assert await heard() == 0
        await event_types.create(pool, tenant, new_type(SHIPPED))
        await event_types.change(pool, tenant, SHIPPED, TypeChange(name="x"))
        draft = version(fresh=True).draft
        assert draft is not None
        await event_types.put_version(pool, tenant, SHIPPED, draft, rules.refuse_version)
        await event_types.move_version(pool, tenant, SHIPPED, V10, rules.finalise)
        await event_types.move_version(pool, tenant, SHIPPED, V10, rules.deprecate)
        await event_types.archive(pool, tenant, SHIPPED, rules.refuse_archive)
        await event_types.drop(pool, tenant, SHIPPED, rules.refuse_delete)
        assert await heard() == 7
        assert not await event_types.create(pool, tenant, new_type())
        await event_types.drop(pool, tenant, SHIPPED, rules.refuse_delete)
        assert not await event_types.change(pool, tenant, SHIPPED, TypeChange(name="x"))
        assert await heard() == 0
    finally:
        await listener.close()
