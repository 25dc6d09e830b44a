"""Collections on a real Postgres: whose they are, their versions, and what keeps them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import asyncpg
import msgspec
import pytest

from core.records import collection
from core.records.collection import (
    CollectionDefinition,
    CollectionRefusal,
    Collections,
    CollectionStatus,
    assign_slots,
)
from core.records.field import FieldDefinition, FieldType, RollupFunction, RollupSummary
from storage.access import keys
from storage.postgres.change_notifications import CHANNEL
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.records import collections
from storage.records.collections import (
    CollectionFilter,
    CollectionRow,
    NewCollection,
    VersionNote,
)

NAME = FieldDefinition(name="name", type=FieldType.STRING, indexed=True)
ANYONE = VersionNote()


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


@pytest.fixture
async def tenant(pool: Pool) -> int:
    return await keys.create_tenant(pool, "acme")


@pytest.fixture
async def other(pool: Pool) -> int:
    return await keys.create_tenant(pool, "other")


def any_definition(_definition: CollectionDefinition, _named: Collections, _: Collections) -> None:
    """Refuse nothing."""


def new(name: str, *fields: FieldDefinition) -> NewCollection:
    chosen = fields or (NAME,)
    return NewCollection(
        collection_id=f"col_{name}",
        name=name,
        description=None,
        definition=CollectionDefinition(name=name, fields=chosen, slots=assign_slots(chosen)),
    )


async def made(pool: Pool, tenant: int, name: str, *fields: FieldDefinition) -> CollectionRow:
    row = await collections.create(pool, tenant, new(name, *fields), ANYONE, any_definition)
    assert isinstance(row, CollectionRow)
    return row


def adding(*fields: FieldDefinition) -> Callable[[CollectionRow], CollectionRow]:
    def edit(row: CollectionRow) -> CollectionRow:
        definition = msgspec.structs.replace(
            row.definition, fields=(*row.definition.fields, *fields)
        )
        return replace(row, definition=definition)

    return edit


def leads_to(target: str) -> FieldDefinition:
    return FieldDefinition(name=f"{target}_id", type=FieldType.LOOKUP, target=target)


async def test_a_collection_is_read_as_it_was_created(pool: Pool, tenant: int) -> None:
    rollup = RollupSummary(collection="lines", relationship="up", function=RollupFunction.COUNT)
    fields = (
        NAME,
        FieldDefinition(name="lines", type=FieldType.ROLLUP_SUMMARY, rollup=rollup),
        FieldDefinition(name="tags", type=FieldType.MULTI_PICKLIST, values=("é", "b"), min=1),
        FieldDefinition(name="extra", type=FieldType.JSON, default={"a": [1, 2.5, None]}),
        leads_to("customers"),
    )
    row = await made(pool, tenant, "orders", *fields)
    assert row.definition == CollectionDefinition(
        name="orders", fields=fields, version=1, slots=("name", None, None)
    )
    assert (row.version, row.status, row.is_building) == (1, CollectionStatus.ACTIVE, False)
    assert (row.field_count, row.refers_to) == (5, ("customers", "lines"))
    assert row.definition_bytes == len(msgspec.json.encode(row.definition))
    for name in ("orders", "col_orders"):
        assert await collections.read(pool, tenant, name) == row
    assert await collections.read_no(pool, tenant, row.collection_no) == row


async def test_a_tenant_sees_its_own_collections_only(pool: Pool, tenant: int, other: int) -> None:
    row = await made(pool, tenant, "orders")
    anchors = await made(pool, 0, "everyones")
    for who in (other, 0):
        assert await collections.read(pool, who, "orders") is None
        assert await collections.read(pool, who, "col_orders") is None
        assert await collections.read_no(pool, who, row.collection_no) is None
        assert await collections.read_many(pool, who, ["orders"]) == {}
        assert await collections.versions(pool, who, row.collection_no, 9, 9) == []
        assert await collections.read_version(pool, who, row.collection_no, 1) is None
        refused = await collections.archive(pool, who, "orders")
        assert refused is CollectionRefusal.COLLECTION_NOT_FOUND
    assert await collections.read(pool, tenant, anchors.name) is None
    assert await collections.page(pool, other, CollectionFilter(), "", 9) == []
    assert await collections.count(pool, other, CollectionFilter()) == 0
    same = replace(new("orders"), collection_id="col_other")
    again = await collections.create(pool, other, same, ANYONE, any_definition)
    assert isinstance(again, CollectionRow)


async def test_a_listing_goes_page_by_page(pool: Pool, tenant: int) -> None:
    for name in ("a", "b", "c"):
        await made(pool, tenant, name)
    await collections.archive(pool, tenant, "b")
    first = await collections.page(pool, tenant, CollectionFilter(), "", 2)
    assert [one.name for one in first] == ["a", "b"]
    rest = await collections.page(pool, tenant, CollectionFilter(), first[-1].name, 2)
    assert [(one.name, one.field_count, one.version) for one in rest] == [("c", 1, 1)]
    archived = CollectionFilter(CollectionStatus.ARCHIVED)
    assert [one.name for one in await collections.page(pool, tenant, archived, "", 9)] == ["b"]
    assert await collections.count(pool, tenant, archived) == 1
    assert set(await collections.read_many(pool, tenant, ["a", "b", "none"])) == {"a"}


async def test_a_name_is_taken_once(pool: Pool, tenant: int) -> None:
    await made(pool, tenant, "orders")
    again = replace(new("orders"), collection_id="col_2")
    refused = await collections.create(pool, tenant, again, ANYONE, any_definition)
    assert refused is CollectionRefusal.NAME_EXISTS


async def test_another_definition_is_another_version(pool: Pool, tenant: int) -> None:
    first = await made(pool, tenant, "orders")
    total = FieldDefinition(name="total", type=FieldType.CURRENCY)
    note = VersionNote("key1", "totals", 1)
    second = await collections.change(pool, tenant, "orders", adding(total), note, any_definition)
    assert isinstance(second, CollectionRow)
    assert (second.version, second.definition.version, second.field_count) == (2, 2, 2)
    assert second.definition.fields == (NAME, total)
    assert await collections.read(pool, tenant, "orders") == second
    listed = await collections.versions(pool, tenant, first.collection_no, 99, 9)
    assert [(one.version, one.created_by, one.note) for one in listed] == [
        (2, "key1", "totals"),
        (1, None, None),
    ]
    older = await collections.versions(pool, tenant, first.collection_no, 2, 9)
    assert [one.version for one in older] == [1]
    found = await collections.read_version(pool, tenant, first.collection_no, 1)
    assert found is not None
    assert found[1] == first.definition
    assert await collections.read_version(pool, tenant, first.collection_no, 3) is None


async def test_a_change_for_another_version_is_refused(pool: Pool, tenant: int) -> None:
    await made(pool, tenant, "orders")
    total = FieldDefinition(name="total", type=FieldType.CURRENCY)
    stale = VersionNote(expected=2)
    refused = await collections.change(pool, tenant, "orders", adding(total), stale, any_definition)
    assert refused is CollectionRefusal.VERSION_CHANGED
    note = VersionNote(expected=1)
    attempts = [
        collections.change(
            pool,
            tenant,
            "orders",
            adding(FieldDefinition(name=f"f{i}", type=FieldType.DATE)),
            note,
            any_definition,
        )
        for i in range(5)
    ]
    outcomes = await asyncio.gather(*attempts)
    assert sum(isinstance(one, CollectionRow) for one in outcomes) == 1
    assert outcomes.count(CollectionRefusal.VERSION_CHANGED) == 4
    row = await collections.read(pool, tenant, "orders")
    assert row is not None
    assert (row.version, row.field_count) == (2, 2)


async def test_no_version_is_made_where_the_fields_stay(pool: Pool, tenant: int) -> None:
    row = await made(pool, tenant, "orders")
    same = await collections.change(pool, tenant, "orders", lambda one: one, ANYONE, any_definition)
    assert same == row
    described = await collections.change(
        pool, tenant, "orders", lambda one: replace(one, description="x"), ANYONE, any_definition
    )
    assert isinstance(described, CollectionRow)
    assert (described.version, described.description) == (1, "x")
    assert len(await collections.versions(pool, tenant, row.collection_no, 99, 9)) == 1


async def test_the_last_versions_are_kept(
    pool: Pool, tenant: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert collection.MAX_VERSIONS == 100
    monkeypatch.setattr(collections, "MAX_VERSIONS", 3)
    row = await made(pool, tenant, "orders")
    for i in range(5):
        edit = adding(FieldDefinition(name=f"f{i}", type=FieldType.DATE))
        await collections.change(pool, tenant, "orders", edit, ANYONE, any_definition)
    kept = await collections.versions(pool, tenant, row.collection_no, 99, 99)
    assert [one.version for one in kept] == [6, 5, 4]


class _InvalidError(Exception):
    """Stands for a problem that the check found."""


async def test_a_definition_is_checked_beside_its_neighbours(pool: Pool, tenant: int) -> None:
    seen: list[tuple[set[str], set[str]]] = []

    def check(_: CollectionDefinition, named: Collections, naming: Collections) -> None:
        seen.append((set(named), set(naming)))

    await made(pool, tenant, "customers")
    await made(pool, tenant, "lines", leads_to("orders"))
    both = new("orders", leads_to("customers"), leads_to("orders"), leads_to("none"))
    assert isinstance(await collections.create(pool, tenant, both, ANYONE, check), CollectionRow)
    assert seen == [({"customers"}, {"lines"})]

    def fail(_: CollectionDefinition, named: Collections, naming: Collections) -> None:
        raise _InvalidError

    with pytest.raises(_InvalidError):
        await collections.create(pool, tenant, new("more"), ANYONE, fail)
    assert await collections.read(pool, tenant, "more") is None
    with pytest.raises(_InvalidError):
        await collections.change(pool, tenant, "orders", adding(NAME), ANYONE, fail)
    row = await collections.read(pool, tenant, "orders")
    assert row is not None
    assert row.version == 1


async def test_what_others_refer_to_is_not_archived(pool: Pool, tenant: int) -> None:
    await made(pool, tenant, "customers", leads_to("customers"))
    await made(pool, tenant, "orders", leads_to("customers"))
    refused = await collections.archive(pool, tenant, "customers")
    assert refused is CollectionRefusal.COLLECTION_IN_USE
    for name in ("orders", "customers"):
        archived = await collections.archive(pool, tenant, name)
        assert isinstance(archived, CollectionRow)
        assert archived.status is CollectionStatus.ARCHIVED
    refused = await collections.change(pool, tenant, "orders", adding(NAME), ANYONE, any_definition)
    assert refused is CollectionRefusal.COLLECTION_ARCHIVED
    active = await collections.activate(pool, tenant, "orders", any_definition)
    assert isinstance(active, CollectionRow)
    assert active.status is CollectionStatus.ACTIVE


async def test_definitions_have_a_limit_together(
    pool: Pool, tenant: int, other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await made(pool, tenant, "a")
    monkeypatch.setattr(collections, "MAX_TENANT_BYTES", 2 * first.definition_bytes)
    too_long = new("second", NAME)
    refused = await collections.create(pool, tenant, too_long, ANYONE, any_definition)
    assert refused is CollectionRefusal.DEFINITIONS_TOO_LONG
    await made(pool, tenant, "b")
    longer = FieldDefinition(name="n", type=FieldType.DATE)
    refused = await collections.change(pool, tenant, "a", adding(longer), ANYONE, any_definition)
    assert refused is CollectionRefusal.DEFINITIONS_TOO_LONG
    assert await collections.read(pool, tenant, "a") == first
    assert isinstance(await made(pool, other, "second"), CollectionRow)


async def test_listeners_hear_of_changes(pool: Pool, tenant: int, database: str) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    listener = await asyncpg.connect(database)
    try:
        await listener.add_listener(CHANNEL, lambda *said: heard.put_nowait(said[3]))
        await made(pool, tenant, "orders")
        assert await asyncio.wait_for(heard.get(), 10) == f"collections {tenant}"
        await collections.archive(pool, tenant, "orders")
        assert await asyncio.wait_for(heard.get(), 10) == f"collections {tenant}"
    finally:
        await listener.close()
