"""Changes of definitions on a real Postgres: unique values, columns of records, previews."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from core.records.collection import (
    CollectionDefinition,
    CollectionRefusal,
    Collections,
    assign_slots,
)
from core.records.comparison import indexed_text, unique_hash
from core.records.definitions.changes import RecordCheck, compare_definitions
from core.records.field import FieldDefinition, FieldType
from core.records.record import Record, RecordAddress
from handlers.filters.patterns import compile_pattern
from services.records import definition_preview, reindexer
from services.records.definition_preview import DefinitionPreview, check_records
from services.records.reindexer import Reindexer
from storage.access import keys
from storage.entities.loader import load_entities
from storage.entities.transactions import flush_transactions
from storage.operations import warnings
from storage.operations.warnings import WarningFilter
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.records import collections, record_scan, unique_values
from storage.records.collections import CollectionRow, NewCollection, VersionNote
from storage.records.record_scan import ScannedRecord
from tests.support.records import changed, transaction

T = FieldType
NAME = FieldDefinition(name="name", type=T.STRING)
AGE = FieldDefinition(name="age", type=T.INTEGER)
ANYONE = VersionNote()


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


@pytest.fixture
async def tenant(pool: Pool) -> int:
    return await keys.create_tenant(pool, "acme")


def any_definition(_definition: CollectionDefinition, _named: Collections, _: Collections) -> None:
    """Refuse nothing."""


@pytest.fixture
async def people(pool: Pool, tenant: int) -> CollectionRow:
    return await made(pool, tenant, "people")


async def made(pool: Pool, tenant: int, name: str) -> CollectionRow:
    row = await collections.create(
        pool,
        tenant,
        NewCollection(
            collection_id=f"col_{name}_{tenant}",
            name=name,
            description=None,
            definition=CollectionDefinition(name=name, fields=(NAME, AGE)),
        ),
        ANYONE,
        any_definition,
    )
    assert isinstance(row, CollectionRow)
    return row


async def change(
    pool: Pool, row: CollectionRow, *fields: FieldDefinition
) -> CollectionRow | CollectionRefusal:
    def edit(current: CollectionRow) -> CollectionRow:
        slots = assign_slots(fields, current.definition.slots)
        definition = msgspec.structs.replace(current.definition, fields=fields, slots=slots)
        return replace(current, definition=definition)

    return await collections.change(pool, row.tenant, row.name, edit, ANYONE, any_definition)


async def store(pool: Pool, row: CollectionRow, *, deleted: bool = False, **records: Any) -> None:
    for record_id, data in records.items():
        await pool.execute(
            "insert into records (tenant_id, collection_no, record_id, version, data, created_at,"
            " updated_at, deleted_at) values ($1, $2, $3, 1, $4, now(), now(), $5)",
            row.tenant, row.collection_no, record_id, msgspec.json.encode(data).decode(),
            None if not deleted else await pool.fetchval("select now()"),
        )  # fmt: skip


async def held(pool: Pool, row: CollectionRow) -> set[tuple[str, bytes, str]]:
    rows = await pool.fetch(
        "select field, value_hash, record_id from record_unique_values"
        " where tenant_id = $1 and collection_no = $2",
        row.tenant,
        row.collection_no,
    )
    return {tuple(one) for one in rows}


async def columns(pool: Pool, row: CollectionRow) -> dict[str, tuple[str | None, ...]]:
    rows = await pool.fetch(
        "select record_id, indexed_1, indexed_2, indexed_3 from records"
        " where tenant_id = $1 and collection_no = $2",
        row.tenant,
        row.collection_no,
    )
    return {one[0]: tuple(one[1:]) for one in rows}


async def make_due(pool: Pool) -> None:
    await pool.execute("update collections set reindex_at = now() where reindex_at is not null")


UNIQUE = msgspec.structs.replace(NAME, unique=True)


async def test_values_of_a_field_that_becomes_unique_are_taken(
    pool: Pool, tenant: int, people: CollectionRow
) -> None:
    neighbours = await made(pool, await keys.create_tenant(pool, "other"), "people")
    await store(pool, people, a={"name": "Jo"}, b={"name": "Al"}, c={}, d={"name": None})
    await store(pool, people, deleted=True, e={"name": "Jo"})
    await store(pool, neighbours, f={"name": "Jo"})
    changed = await change(pool, people, UNIQUE, AGE)
    assert isinstance(changed, CollectionRow)
    assert (changed.version, changed.is_building) == (2, True)
    expected = {("name", unique_hash("Jo"), "a"), ("name", unique_hash("Al"), "b")}
    assert await held(pool, people) == expected
    assert await held(pool, neighbours) == set()


async def test_a_field_with_a_value_twice_does_not_become_unique(
    pool: Pool, people: CollectionRow
) -> None:
    await store(pool, people, a={"age": 1}, b={"age": 2}, c={"age": 1.0})
    unique = msgspec.structs.replace(AGE, unique=True)
    assert await change(pool, people, NAME, unique) is CollectionRefusal.VALUES_NOT_UNIQUE
    assert await held(pool, people) == set()
    assert await collections.read(pool, people.tenant, "people") == people


async def test_a_large_collection_keeps_its_fields_as_they_are(
    pool: Pool, people: CollectionRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unique_values, "MAX_RECORDS", 3)
    monkeypatch.setattr(record_scan, "BATCH", 2)
    await store(pool, people, a={"name": "a"}, b={"name": "b"}, c={"name": "c"})
    assert isinstance(await change(pool, people, UNIQUE, AGE), CollectionRow)
    await store(pool, people, d={"age": 4})
    unique = msgspec.structs.replace(AGE, unique=True)
    assert await change(pool, people, UNIQUE, unique) is CollectionRefusal.TOO_MANY_RECORDS


async def test_records_are_scanned_within_a_number_of_bytes(
    pool: Pool, people: CollectionRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_scan, "BATCH_BYTES", 1_500)
    await store(pool, people, **{f"r{n}": {"name": f"{n}" * 1_000} for n in range(5)})
    place = (pool, people.tenant, people.collection_no, ["name"])
    assert [one.record_id for one in await record_scan.read_fields(*place, "")] == ["r0", "r1"]
    assert [one.record_id for one in await record_scan.read_fields(*place, "r3")] == ["r4"]
    assert (await preview(pool, people, UNIQUE, AGE)).records_checked == 5
    assert isinstance(await change(pool, people, UNIQUE, AGE), CollectionRow)
    assert len(await held(pool, people)) == 5


async def test_values_of_the_last_time_are_forgotten(pool: Pool, people: CollectionRow) -> None:
    await store(pool, people, a={"name": "Jo"})
    await change(pool, people, UNIQUE, AGE)
    await change(pool, people, NAME, AGE)
    await pool.execute('update records set data = \'{"name": "Al"}\', version = 2')
    assert isinstance(await change(pool, people, UNIQUE, AGE), CollectionRow)
    assert await held(pool, people) == {("name", unique_hash("Al"), "a")}


async def test_an_index_is_built_once_the_old_definition_is_out_of_use(
    pool: Pool, people: CollectionRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_scan, "BATCH", 2)
    documents = {f"r{i}": {"name": f"n{i}", "age": i} for i in range(5)}
    await store(pool, people, **documents)
    await store(pool, people, deleted=True, gone={"name": "x"})
    indexed = msgspec.structs.replace(AGE, indexed=True)
    changed = await change(pool, people, NAME, indexed)
    assert isinstance(changed, CollectionRow)
    assert changed.reindex_at == pytest.approx(changed.updated_at + 60, abs=1)
    assert await Reindexer(pool).run() == 0
    assert set((await columns(pool, people)).values()) == {(None, None, None)}
    await make_due(pool)
    assert await Reindexer(pool).run() == 1
    assert await columns(pool, people) == {
        **{name: (indexed_text(AGE, one["age"]), None, None) for name, one in documents.items()},
        "gone": (None, None, None),
    }
    built = await collections.read(pool, people.tenant, "people")
    assert built is not None
    assert not built.is_building
    assert await Reindexer(pool).run() == 0


async def test_a_record_that_changes_meanwhile_keeps_its_own_columns(
    pool: Pool, people: CollectionRow
) -> None:
    await store(pool, people, a={"name": "Jo"}, b={"name": "Al"})
    place = (pool, people.tenant, people.collection_no)
    await pool.execute("update records set version = 2, indexed_1 = 'new' where record_id = 'a'")
    stale = [record_scan.IndexedColumns(one, 1, "old", None, None) for one in ("a", "b")]
    await record_scan.write_columns(*place, stale)
    written = await columns(pool, people)
    assert (written["a"][0], written["b"][0]) == ("new", "old")
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute("select from records where record_id = 'b' for update")
        await record_scan.write_columns(
            *place, [record_scan.IndexedColumns("b", 1, "mine", None, None)]
        )
    assert (await columns(pool, people))["b"][0] == "old"


async def test_a_definition_that_changes_while_it_is_built_is_built_again(
    pool: Pool, people: CollectionRow
) -> None:
    name, age = (msgspec.structs.replace(one, indexed=True) for one in (NAME, AGE))
    first = await change(pool, people, name, AGE)
    assert isinstance(first, CollectionRow)
    assert (first.definition.slots[0], first.filled_slots[0]) == ("name", None)
    second = await change(pool, people, name, age)
    assert isinstance(second, CollectionRow)
    await collections.finish_reindexing(pool, first)
    current = await collections.read(pool, people.tenant, "people")
    assert current is not None
    assert (current.is_building, current.unfilled) == (True, ("age", "name"))
    await collections.finish_reindexing(pool, second)
    third = await change(pool, people, name, age, FieldDefinition(name="x", type=T.DATE))
    assert isinstance(third, CollectionRow)
    assert (third.is_building, third.filled_slots) == (False, ("name", "age", None))


async def test_an_index_that_is_there_serves_while_another_is_built(
    pool: Pool, people: CollectionRow
) -> None:
    name, age = (msgspec.structs.replace(one, indexed=True) for one in (NAME, AGE))
    first = await change(pool, people, name, AGE)
    assert isinstance(first, CollectionRow)
    await collections.finish_reindexing(pool, first)
    second = await change(pool, people, name, age)
    assert isinstance(second, CollectionRow)
    assert (second.is_building, second.filled_slots) == (True, ("name", None, None))


async def test_unique_values_that_came_in_between_are_filled_in_or_warned_of(
    pool: Pool, people: CollectionRow
) -> None:
    await store(pool, people, a={"name": "Jo"})
    await change(pool, people, UNIQUE, AGE)
    # By a process that did not know of the change yet.
    await store(pool, people, b={"name": "Al"}, c={"name": "Jo"})
    await make_due(pool)
    assert await Reindexer(pool).run() == 1
    expected = {("name", unique_hash("Jo"), "a"), ("name", unique_hash("Al"), "b")}
    assert await held(pool, people) == expected
    (warned,) = await warnings.page(pool, people.tenant, WarningFilter(), None, 9)
    assert (warned.source, warned.category) == ("collections/people", "CONFIGURATION")
    assert "1 values" in warned.message
    await change(pool, people, NAME, AGE)
    await make_due(pool)
    await Reindexer(pool).run()
    assert await held(pool, people) == set()


async def changed_meanwhile(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, query: str, *statements: str
) -> None:
    """Run statements once, just before a query."""
    fetch, left = type(pool).fetch, list(statements)

    async def changed_before(self: Pool, text: str, *args: Any) -> Any:
        while left and query in text:
            await self.execute(left.pop(0))
        return await fetch(self, text, *args)

    monkeypatch.setattr(type(pool), "fetch", changed_before)


async def test_a_value_that_a_record_loses_meanwhile_is_not_put_back(
    pool: Pool, people: CollectionRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    await change(pool, people, UNIQUE, AGE)
    await store(pool, people, a={"name": "Jo"}, b={"name": "Al"}, c={"name": "Bo"})
    await make_due(pool)
    await changed_meanwhile(
        pool, monkeypatch, "fill_unique_values",
        'update records set data = \'{"name": "Cy"}\', version = 2 where record_id = \'a\'',
        "update records set deleted_at = now(), version = 2 where record_id = 'b'",
    )  # fmt: skip
    assert await Reindexer(pool).run() == 1
    expected = {("name", unique_hash("Cy"), "a"), ("name", unique_hash("Bo"), "c")}
    assert await held(pool, people) == expected
    assert await warnings.page(pool, people.tenant, WarningFilter(), None, 9) == []


async def test_values_that_records_lost_while_the_field_became_unique_are_free_again(
    pool: Pool, people: CollectionRow
) -> None:
    await store(pool, people, a={"name": "Jo"}, b={"name": "Al"}, c={"name": "Bo"})
    await change(pool, people, UNIQUE, AGE)
    # By statements that began before the change: they know nothing of unique values.
    await pool.execute("update records set data = '{\"name\": \"Cy\"}' where record_id = 'a'")
    await pool.execute("update records set deleted_at = now() where record_id = 'b'")
    await pool.execute("update records set data = '{}' where record_id = 'c'")
    await store(pool, people, d={"name": "Jo"})
    await make_due(pool)
    assert await Reindexer(pool).run() == 1
    expected = {("name", unique_hash("Cy"), "a"), ("name", unique_hash("Jo"), "d")}
    assert await held(pool, people) == expected
    assert await warnings.page(pool, people.tenant, WarningFilter(), None, 9) == []


async def test_a_change_that_did_not_know_of_a_value_is_decided_again(
    pool: Pool, people: CollectionRow
) -> None:
    """Else it would leave the value behind, which it does not know to release."""
    await change(pool, people, UNIQUE, AGE)
    await store(pool, people, a={"name": "Jo"})
    address = RecordAddress(people.tenant, people.collection_no, "a")
    async with pool.acquire() as conn:
        before = (await load_entities(conn, [address.ref]))[address.ref]
        assert isinstance(before, Record)
        await make_due(pool)
        await Reindexer(pool).run()
        ahead = transaction((before, changed(before, "t2", name="Al")), turn_id="t2")
        assert await flush_transactions(conn, [ahead]) == {0}


async def test_a_record_that_somebody_holds_is_filled_once_it_is_free(
    pool: Pool, people: CollectionRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reindexer, "RETRY_PAUSE", 0.01)
    await store(pool, people, a={"name": "Jo"}, b={"name": "Al"})
    name = msgspec.structs.replace(NAME, indexed=True, unique=True)
    await change(pool, people, name, AGE)
    await pool.execute("delete from record_unique_values")
    await make_due(pool)
    async with pool.acquire() as conn:
        holding = conn.transaction()
        await holding.start()
        await conn.execute("select from records where record_id = 'a' for update")
        running = asyncio.create_task(Reindexer(pool).run())
        while (await columns(pool, people))["b"][0] is None:  # noqa: ASYNC110 - until it is there
            await asyncio.sleep(0.01)
        assert (await columns(pool, people))["a"][0] is None
        await holding.rollback()
    assert await running == 1
    assert {one[0] for one in (await columns(pool, people)).values()} == {"Jo", "Al"}
    assert len(await held(pool, people)) == 2


async def test_records_that_are_held_for_long_are_filled_by_a_later_round(
    pool: Pool, people: CollectionRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reindexer, "RETRY_PAUSE", 0.0)
    monkeypatch.setattr(reindexer, "MAX_ATTEMPTS", 3)
    await store(pool, people, a={"name": "Jo"})
    await change(pool, people, msgspec.structs.replace(NAME, indexed=True), AGE)
    await make_due(pool)
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute("select from records for update")
        assert await Reindexer(pool).run() == 1
    found = await collections.read(pool, people.tenant, "people")
    assert found is not None
    assert (found.is_building, found.unfilled) == (True, ("name",))
    await Reindexer(pool).run()
    assert (await columns(pool, people))["a"][0] == "Jo"


async def test_columns_of_an_outdated_definition_are_not_filled(
    pool: Pool, people: CollectionRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(pool, people, a={"name": "Jo"})
    await change(pool, people, msgspec.structs.replace(NAME, indexed=True), AGE)
    await make_due(pool)
    current = await collections.to_reindex(pool, 1)
    await change(pool, people, NAME, AGE)

    async def outdated(_pool: Pool, _limit: int) -> list[CollectionRow]:
        return current

    monkeypatch.setattr(collections, "to_reindex", outdated)
    assert await Reindexer(pool).run() == 1
    assert (await columns(pool, people))["a"][0] is None


async def preview(pool: Pool, row: CollectionRow, *fields: FieldDefinition) -> DefinitionPreview:
    after = msgspec.structs.replace(row.definition, fields=fields, slots=assign_slots(fields))
    found = DefinitionPreview(compare_definitions(row.definition, after))

    async def read(names: list[str], last: str) -> list[ScannedRecord]:
        return await record_scan.read_fields(pool, row.tenant, row.collection_no, names, last)

    check = RecordCheck(row.definition, after, compile_pattern)
    await check_records(found, check, read, lambda: 0.0)
    return found


async def test_a_preview_counts_what_does_not_fit(pool: Pool, people: CollectionRow) -> None:
    documents = {f"r{i}": {"name": "n" * i, "age": i % 2} for i in range(1, 30)}
    await store(pool, people, **documents, none={"age": 3})
    await store(pool, people, deleted=True, gone={"name": "n" * 99})
    found = await preview(pool, people, msgspec.structs.replace(NAME, required=True, max=4), AGE)
    assert (found.breaking, found.records_checked, found.complete) == (True, 30, True)
    assert (found.misfits, len(found.examples)) == (26, definition_preview.MAX_EXAMPLES)
    assert ("none", "name", "a value") in {
        (one.record_id, one.field, one.expected) for one in found.examples
    }


async def test_a_preview_finds_values_that_are_there_twice(
    pool: Pool, people: CollectionRow
) -> None:
    await store(pool, people, a={"name": "Jo"}, b={"name": "Al"}, c={"name": "Jo"})
    found = await preview(pool, people, UNIQUE, AGE)
    assert found.misfits == 1
    (one,) = found.examples
    assert (one.record_id, one.field) == ("c", "name")
    assert one.expected.endswith(": a has it")


async def test_a_preview_ends_where_there_are_many_records(
    pool: Pool, people: CollectionRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_scan, "BATCH", 2)
    monkeypatch.setattr(definition_preview, "MAX_RECORDS", 4)
    await store(pool, people, **{f"r{i}": {"name": "x"} for i in range(7)})
    found = await preview(pool, people, UNIQUE, AGE)
    assert (found.records_checked, found.complete, found.misfits) == (4, False, 3)
    monkeypatch.setattr(definition_preview, "MAX_SECONDS", -1.0)
    assert (await preview(pool, people, UNIQUE, AGE)).records_checked == 0


async def test_a_preview_of_nothing_reads_no_records(pool: Pool, people: CollectionRow) -> None:
    await store(pool, people, a={"name": "Jo"})
    found = await preview(pool, people, NAME, AGE)
    assert (found.breaking, found.records_checked, found.complete) == (False, 0, True)
