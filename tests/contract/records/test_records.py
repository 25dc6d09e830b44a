"""Records on a real Postgres: one, its versions, listings in any order, and their bounds."""

from base64 import b85encode
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from core.records.collection import NO_SLOTS, CollectionDefinition, assign_slots
from core.records.field import FieldDefinition, FieldType
from core.records.record import ChangeKind, Record, RecordAddress
from core.records.record_schema import compile_collection
from core.shared.errors import InvalidError
from handlers.filters.expressions import compile_expression
from handlers.filters.patterns import compile_pattern
from services.records.record_query import read_filter
from storage.entities.transactions import flush_transactions
from storage.postgres.pool import Connection, Pool, PoolOptions, open_connection
from storage.postgres.queries import Q
from storage.records import record_listing, records
from storage.records.record_listing import RecordFilter, RecordPosition
from tests.support.records import changed, created, transaction

_FIELDS = (
    FieldDefinition(name="status", type=FieldType.PICKLIST, indexed=True),
    FieldDefinition(name="total", type=FieldType.CURRENCY, indexed=True),
    FieldDefinition(name="name", type=FieldType.STRING),
    FieldDefinition(name="tags", type=FieldType.MULTI_PICKLIST),
    FieldDefinition(name="paid", type=FieldType.BOOLEAN),
    FieldDefinition(name="due", type=FieldType.DATE),
    FieldDefinition(name="card", type=FieldType.ENCRYPTED),
)
SCHEMA = compile_collection(
    1,
    CollectionDefinition(name="orders", fields=_FIELDS, slots=assign_slots(_FIELDS)),
    compile_expression,
    compile_pattern,
)
SLOTS = SCHEMA.definition.slots


@pytest.fixture
async def conn(database: str) -> AsyncIterator[Connection]:
    connection = await open_connection(PoolOptions(dsn=database, name="test"))
    yield connection
    await connection.close()


def a_record(tenant: int, record_id: str, **data: Any) -> Record:
    record = created(RecordAddress(tenant, 1, record_id), **data)
    return replace(record, indexed=SCHEMA.indexed_columns(data))


async def store(conn: Connection, *stored: Record) -> None:
    assert await flush_transactions(conn, [transaction((None, one)) for one in stored]) == set()


@pytest.fixture
async def orders(conn: Connection, tenant: int, other: int) -> int:
    """Four orders of one tenant, and one of another with the same id."""
    await store(
        conn,
        a_record(tenant, "o1", status="open", total=10, name="Jo", tags=["a", "b"], paid=True),
        a_record(tenant, "o2", status="paid", total=-5.5, name="Al", due="2026-01-31"),
        a_record(tenant, "o3", status="open", total=100, name="Bo", tags=["b"]),
        a_record(tenant, "o4", name="Cy"),
        a_record(other, "o1", status="open", total=1_000_000, name="Eve"),
    )
    return tenant


async def ids(pool: Pool, tenant: int, query: str = "", **more: Any) -> list[str]:
    """List all records that a query string describes, three at a time."""
    pairs = [tuple(part.split("=", 1)) for part in query.split("&") if part]
    given = [(name, value) for name, value in pairs if name != "sort"]
    chosen = read_filter(SCHEMA, SLOTS, given, dict(pairs).get("sort"))
    found, after = list[str](), None
    while True:
        page = await record_listing.page(pool, tenant, 1, chosen, after, more.get("limit", 3))
        found += [row.record_id for row in page.items]
        after = page.scanned_to
        if after is None:
            return found


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["o1", "o2", "o3", "o4"]),
        ("sort=-id", ["o4", "o3", "o2", "o1"]),
        ("sort=total", ["o2", "o1", "o3"]),
        ("sort=-total", ["o3", "o1", "o2"]),
        ("status=open", ["o1", "o3"]),
        ("status.in=open,paid", ["o1", "o2", "o3"]),
        ("status.ne=open", ["o2", "o4"]),
        ("status=open&total.gt=10", ["o3"]),
        ("sort=total&total.gte=10", ["o1", "o3"]),
        ("sort=total&total.lt=10", ["o2"]),
        ("sort=-total&total.lte=10", ["o1", "o2"]),
        ("total=10.0", ["o1"]),
        ("name=Jo", ["o1"]),
        ("name.gt=B", ["o1", "o3", "o4"]),
        ("tags=b", ["o1", "o3"]),
        ("paid=true", ["o1"]),
        ("due.lte=2026-02-01", ["o2"]),
        ("createdAt.gte=2020-01-01T00:00:00Z&paid=true", ["o1"]),
        ("updatedAt.lt=2100-01-01T00:00:00Z&paid=true", ["o1"]),
        ("createdAt.lt=2020-01-01T00:00:00Z", []),
        ("status=nothing", []),
    ],
)
async def test_listings_filter_and_sort(
    pool: Pool, orders: int, query: str, expected: list[str]
) -> None:
    assert await ids(pool, orders, query) == expected
    assert await ids(pool, orders, query, limit=1) == expected


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("nmae=x", "nmae"),
        ("status.like=x", "status.like"),
        ("total=many", "total"),
        ("paid=yes", "paid"),
        ("due=tomorrow", "due"),
        ("card=1", "card"),
        ("sort=name", "sort"),
        ("createdAt=2020-01-01T00:00:00Z", "createdAt"),
        ("createdAt.gte=yesterday", "createdAt.gte"),
        ("status.in=" + ",".join("x" * 101), "status.in"),
        ("&".join(f"name.ne={n}" for n in range(21)), "query"),
    ],
)
async def test_a_query_that_means_nothing_is_named(
    pool: Pool, orders: int, query: str, field: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        await ids(pool, orders, query)
    assert caught.value.field == field


async def test_columns_that_are_being_filled_serve_nothing(orders: int) -> None:
    chosen = read_filter(SCHEMA, NO_SLOTS, [("status", "open")], None)
    assert (chosen.slot, chosen.path) == (None, '($."status" == $v0)')
    with pytest.raises(InvalidError):
        read_filter(SCHEMA, NO_SLOTS, [], "total")


async def test_a_page_looks_at_a_bounded_number_of_rows(
    pool: Pool, conn: Connection, tenant: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(conn, *(a_record(tenant, f"r{n:02}", name=str(n)) for n in range(30)))
    monkeypatch.setattr(record_listing, "SCAN_ROWS", 10)
    chosen = RecordFilter(path='$."name" == $v0', values='{"v0": "25"}')
    page = await record_listing.page(pool, tenant, 1, chosen, None, 5)
    assert (page.items, page.scanned_to) == ([], RecordPosition("r09", "r09"))
    assert await ids(pool, tenant, "name=25") == ["r25"]


async def test_a_page_has_a_bounded_number_of_bytes(
    pool: Pool, conn: Connection, tenant: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_listing, "PAGE_BYTES", 2_500)
    text = "".join(chr(33 + n * 7 % 90) for n in range(1_000))
    await store(conn, *(a_record(tenant, f"r{n}", name=text[n:]) for n in range(5)))
    page = await record_listing.page(pool, tenant, 1, RecordFilter(), None, 5)
    assert [row.record_id for row in page.items] == ["r0", "r1"]
    assert await ids(pool, tenant, limit=5) == ["r0", "r1", "r2", "r3", "r4"]
    monkeypatch.setattr(record_listing, "PAGE_BYTES", 1)
    assert await ids(pool, tenant, limit=5) == ["r0", "r1", "r2", "r3", "r4"]


@pytest.mark.parametrize("value", ["x" * 10_000, [1e39] * 240, [1e-39] * 240])
async def test_documents_count_as_they_are_read(
    pool: Pool, conn: Connection, tenant: int, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    """Not as they are stored, compressed, nor as they were sent."""
    monkeypatch.setattr(record_listing, "PAGE_BYTES", 25_000)
    await store(conn, *(a_record(tenant, f"r{n}", name=value) for n in range(3)))
    page = await record_listing.page(pool, tenant, 1, RecordFilter(), None, 5)
    assert [row.record_id for row in page.items] == ["r0", "r1"]
    sizes = await pool.fetch("select data_bytes, data::text as data from records")
    assert all(size == len(data) for size, data in sizes)


async def test_a_page_of_history_has_a_bounded_number_of_bytes(
    pool: Pool, conn: Connection, tenant: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the fields were before counts as well, and is not read beyond the bound either."""
    last = a_record(tenant, "o1", name="x" * 1_000)
    await store(conn, last)
    for turn_id in ("t2", "t3", "t4"):
        after = changed(last, turn_id, status=turn_id)
        step = transaction((last, after), turn_id=turn_id)
        assert await flush_transactions(conn, [step]) == set()
        last = after
    monkeypatch.setattr(records, "PAGE_BYTES", 4_500)
    page = await records.history(pool, tenant, 1, "o1", None, 5)
    assert ([row.version for row in page.rows], page.is_last) == ([4, 3], False)
    rest = await records.history(pool, tenant, 1, "o1", page.rows[-1].change_id, 5)
    assert ([row.version for row in rest.rows], rest.is_last) == ([2, 1], True)
    arguments = (tenant, 1, "o1", records.AFTER_ALL_CHANGES, 5, 1)
    found = await pool.fetch(Q["list_record_changes"], *arguments)
    assert [row["before"] is None for row in found] == [False, True, True, True]


async def test_a_record_is_read_for_its_tenant_alone(pool: Pool, orders: int, other: int) -> None:
    found = await records.read(pool, orders, 1, "o1")
    assert found is not None
    assert '"Jo"' in found.data
    assert await records.read(pool, orders, 2, "o1") is None
    assert await records.read(pool, other, 1, "o2") is None
    assert await ids(pool, other) == ["o1"]


async def test_versions_and_history(pool: Pool, conn: Connection, tenant: int, other: int) -> None:
    first = a_record(tenant, "o1", name="a")
    await store(conn, first)
    second = changed(first, "t2", name="b")
    assert await flush_transactions(conn, [transaction((first, second), turn_id="t2")]) == set()
    old = await records.read_version(pool, tenant, 1, "o1", 1)
    assert old is not None
    assert (old.kind, old.data) == (ChangeKind.CREATED, '{"name":"a"}')
    assert await records.read_version(pool, tenant, 1, "o1", 3) is None
    assert await records.read_version(pool, other, 1, "o1", 1) is None
    page = await records.history(pool, tenant, 1, "o1", None, 1)
    assert ([row.version for row in page.rows], page.is_last) == ([2], False)
    rest = await records.history(pool, tenant, 1, "o1", page.rows[0].change_id, 5)
    assert ([row.version for row in rest.rows], rest.is_last) == ([1], True)
    assert (await records.history(pool, other, 1, "o1", None, 5)).rows == []


async def test_details_are_found_by_their_master(pool: Pool, orders: int, other: int) -> None:
    both = ["open", "paid"]
    found = await records.details(pool, orders, (1, 0), both, [], 5)
    assert sorted(found) == [("open", "o1"), ("open", "o3"), ("paid", "o2")]
    assert await records.details(pool, orders, (1, 0), both, ["o1", "o2"], 5) == [("open", "o3")]
    assert len(await records.details(pool, orders, (1, 0), both, [], 1)) == 2
    assert await records.details(pool, other, (1, 0), ["paid"], [], 5) == []


async def test_details_are_found_however_large_they_are(
    pool: Pool, conn: Connection, tenant: int
) -> None:
    text = b85encode(Random(1).randbytes(160_000)).decode()  # does not compress
    await store(conn, *(a_record(tenant, f"r{n}", status="o1", name=text[n:]) for n in range(12)))
    chosen = RecordFilter(slot=0, low="o1", high="o1")
    assert len((await record_listing.page(pool, tenant, 1, chosen, None, 500)).items) < 12
    assert len(await records.details(pool, tenant, (1, 0), ["o1"], [], 500)) == 12


async def test_numbers_are_taken_once(pool: Pool, tenant: int, other: int) -> None:
    assert await records.lease_numbers(pool, tenant, 1, "number", 100) == 1
    assert await records.lease_numbers(pool, tenant, 1, "number", 1) == 101
    assert await records.lease_numbers(pool, tenant, 1, "number", 5) == 102
    assert await records.lease_numbers(pool, tenant, 1, "others", 5) == 1
    assert await records.lease_numbers(pool, other, 1, "number", 5) == 1
