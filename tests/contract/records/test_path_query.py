"""Data paths on a real Postgres: one statement for all roots, paths and tenants."""

import re
from typing import Any

import pytest

from core.records.data_path import MAX_HOPS, parse_data_path
from core.records.path_batch import PathBatch, PathPlan
from core.records.path_tree import PathStep, build_tree
from core.shared.errors import InvalidError, UnavailableError
from storage.postgres.pool import Pool
from storage.postgres.queries import Q
from storage.records import path_query
from storage.records.path_query import follow_paths
from tests.support.shop_records import ShopRecords
from tests.unit.core.records.definitions import SHOP


@pytest.fixture
async def shop(pool: Pool, tenant: int) -> ShopRecords:
    return await filled(ShopRecords(pool, tenant), "jo")


@pytest.fixture
async def neighbour(pool: Pool, other: int) -> ShopRecords:
    return await filled(ShopRecords(pool, other), "eve")


async def filled(shop: ShopRecords, who: str) -> ShopRecords:
    """The same ids in every shop."""
    await shop.define(*SHOP.values())
    await shop.put("order_lines", {"l1": {"order_id": "o1", "product": "pen"}}, version=4)
    await shop.put("orders", {"o1": {"customer_id": "c1", "total": 12.5, "name": None}}, version=2)
    await shop.put("customers", {"c1": {"email": f"{who}@example.com", "referrer_id": "c1"}})
    return shop


def plan(shop: ShopRecords, *expressions: str, root: str = "order_lines") -> PathPlan:
    tree = build_tree(map(parse_data_path, expressions), root, SHOP)
    return PathPlan(shop.tenant, root, tree, shop.numbers)


async def resolve(pool: Pool, plan: PathPlan, *roots: Any) -> list[dict[str, Any]]:
    batch = PathBatch()
    batch.add(plan, roots)
    return batch.values(await follow_paths(pool, batch))


async def test_paths_are_followed_over_relationships(pool: Pool, shop: ShopRecords) -> None:
    wanted = plan(shop, "product", "order_id.total", "order_id.customer_id.email")
    expected = {
        "product": "pen",
        "order_id.total": 12.5,
        "order_id.customer_id.email": "jo@example.com",
    }
    line = {"product": "pen", "order_id": "o1"}
    assert await resolve(pool, wanted, line, "l1") == [expected, expected]


async def test_a_path_may_end_where_another_goes_on(pool: Pool, shop: ShopRecords) -> None:
    wanted = plan(shop, "order_id", "order_id.customer_id", "order_id.customer_id.email")
    assert await resolve(pool, wanted, "l1") == [
        {
            "order_id": "o1",
            "order_id.customer_id": "c1",
            "order_id.customer_id.email": "jo@example.com",
        }
    ]


async def test_null_missing_and_deleted_are_none(pool: Pool, shop: ShopRecords) -> None:
    await shop.put("orders", {"o2": {"customer_id": "c1", "total": 1}}, deleted=True)
    await shop.put("orders", {"o3": {"customer_id": None}, "o4": {"customer_id": 5}, "o5": {}})
    wanted = plan(shop, "order_id.customer_id.email")
    roots = [{"order_id": key} for key in ("o2", "o3", "o4", "o5", "gone", None, 7)]
    found = await resolve(pool, wanted, *roots, {}, "no such line")
    assert found == [{"order_id.customer_id.email": None}] * 9
    assert await resolve(pool, plan(shop, "order_id.name"), "l1") == [{"order_id.name": None}]


async def test_a_circle_is_as_long_as_its_path(pool: Pool, shop: ShopRecords) -> None:
    path = "referrer_id." * MAX_HOPS + "email"
    found = await resolve(pool, plan(shop, path, root="customers"), "c1")
    assert found == [{path: "jo@example.com"}]


async def test_system_fields_are_those_of_the_record(pool: Pool, shop: ShopRecords) -> None:
    names = ("id", "version", "createdAt", "updatedAt", "createdBy", "updatedBy")
    (found,) = await resolve(pool, plan(shop, *(f"order_id.{name}" for name in names)), "l1")
    assert [found[f"order_id.{name}"] for name in names] == [
        "o1", 2, "2026-01-02T03:04:05.600000Z", "2026-01-03T00:00:00.000000Z", "jo", None,
    ]  # fmt: skip


async def test_a_script_is_given_the_record_before_it(pool: Pool, shop: ShopRecords) -> None:
    path = "order_id.customer_id.SCRIPT[check].score"
    record = {"id": "c1", "email": "jo@example.com", "referrer_id": "c1"}
    assert await resolve(pool, plan(shop, path), "l1") == [{path: record}]


async def test_a_neighbours_record_with_the_same_id_is_not_found(
    pool: Pool, shop: ShopRecords, neighbour: ShopRecords
) -> None:
    await shop.put("order_lines", {"l2": {"order_id": "o9"}})
    await neighbour.put("orders", {"o9": {"total": 1}})
    batch = PathBatch()
    paths = ("order_id.customer_id.email", "order_id.total")
    batch.add(plan(shop, *paths), ["l1", "l2"])
    batch.add(plan(neighbour, *paths), ["l1", {"order_id": "o9"}])
    mine, empty, theirs, direct = batch.values(await follow_paths(pool, batch))
    assert mine["order_id.customer_id.email"] == "jo@example.com"
    assert set(empty.values()) == {None}
    assert theirs["order_id.customer_id.email"] == "eve@example.com"
    assert direct["order_id.total"] == 1


async def test_a_collection_of_a_neighbour_is_empty_for_others(
    pool: Pool, shop: ShopRecords, neighbour: ShopRecords
) -> None:
    forged = PathPlan(
        shop.tenant, "order_lines", plan(shop, "order_id.total").tree, neighbour.numbers
    )
    assert await resolve(pool, forged, "l1", {"order_id": "o1"}) == [{"order_id.total": None}] * 2


async def test_steps_are_the_records_and_their_versions(pool: Pool, shop: ShopRecords) -> None:
    batch = PathBatch()
    batch.add(plan(shop, "order_id.customer_id.email", "product"), ["l1"])
    (steps,) = batch.steps(await follow_paths(pool, batch, every_record=True))
    line = PathStep("order_lines", "l1", 4)
    assert steps == {
        "order_id.customer_id.email": (
            line, PathStep("orders", "o1", 2), PathStep("customers", "c1", 1),
        ),
        "product": (line,),
    }  # fmt: skip


async def test_many_roots_are_one_statement(
    pool: Pool, shop: ShopRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Beside other tests it may take longer than a caller would wait.
    monkeypatch.setattr(path_query, "PATH_QUERY_SECONDS", 60.0)
    lines = {f"m{n}": {"order_id": f"p{n}", "product": str(n)} for n in range(2_000)}
    await shop.put("order_lines", lines)
    await shop.put("orders", {f"p{n}": {"customer_id": "c1", "total": n} for n in range(2_000)})
    wanted = plan(shop, "product", "order_id.total", "order_id.customer_id.email")
    found = await resolve(pool, wanted, *lines, *lines.values())
    expected = [
        {"product": str(n), "order_id.total": n, "order_id.customer_id.email": "jo@example.com"}
        for n in range(2_000)
    ]
    assert found == expected * 2


@pytest.mark.parametrize(
    "value", [2**53 + 1, 0.1, "", "é\u2028", [1, [None]], {"a": {"b": True}}, False]
)
async def test_values_come_back_as_they_were(pool: Pool, shop: ShopRecords, value: Any) -> None:
    await shop.put("orders", {"x": {"name": value}})
    assert await resolve(pool, plan(shop, "order_id.name"), {"order_id": "x"}) == [
        {"order_id.name": value}
    ]


async def test_values_are_limited_together(pool: Pool, shop: ShopRecords) -> None:
    await shop.put("customers", {"large": {"name": "x" * 100_000, "referrer_id": "large"}})
    hops = [f"{'referrer_id.' * n}name" for n in range(11)]
    few, many = (plan(shop, *hops[:n], root="customers") for n in (10, 11))
    (found,) = await resolve(pool, few, "large")
    assert {len(value) for value in found.values()} == {100_000}
    with pytest.raises(InvalidError, match="fewer or shorter values: these have more than 1,048,5"):
        await resolve(pool, many, "large")


async def test_what_takes_too_long_is_stopped(
    pool: Pool, shop: ShopRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_query, "PATH_QUERY_SECONDS", 0.2)
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute("lock table records in access exclusive mode")
        with pytest.raises(UnavailableError, match=r"took longer than 0\.2 s: ask for fewer"):
            await resolve(pool, plan(shop, "product"), "l1")
        active = await conn.fetch("select query from pg_stat_activity where state = 'active'")
    assert not [query for (query,) in active if query.startswith("/* follow_paths */")]


async def test_records_are_looked_up_by_key(api_pool: Pool, tenant: int) -> None:
    """Of a large table, as the API plans it: with hash joins and sequential scans allowed."""
    shop = await filled(ShopRecords(api_pool, tenant), "jo")
    await shop.put("orders", {f"p{n}": {"customer_id": "c1"} for n in range(20_000)})
    await api_pool.execute("analyze records")
    nodes = [[1], [1], [shop.tenant], [shop.numbers["orders"]], ["p7"]]
    edges = [[shop.tenant], [1], [2], ["customer_id"], [shop.numbers["customers"]]]
    plan = await api_pool.fetch(
        f"explain {Q['follow_paths']}",
        *nodes,
        *edges,
        [2],
        ["email"],
        False,
        path_query.MAX_VALUE_BYTES,
    )
    text = "\n".join(row[0] for row in plan)
    assert len(re.findall("Index Scan using records_pkey on records", text)) == 2, text
    assert "Seq Scan on records" not in text
    assert len(re.findall(r"Index Cond: .*tenant_id.*collection_no.*record_id", text)) == 2, text
