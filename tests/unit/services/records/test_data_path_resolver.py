"""Resolving data paths: hops, nulls, shared prefixes, and what is refused."""

from typing import Any

import msgspec
import pytest

from core.records.data_path import DataPath, InvalidDataPathError, parse_data_path
from core.records.field import FieldType
from core.records.path_tree import PathStep
from core.shared.errors import NotFoundError
from services.records.data_path_resolver import DataPathResolver
from tests.unit.core.records.definitions import LINE, RECORDS, SHOP, collection
from tests.unit.services.records.shop_reader import TENANT, ShopReader

EMAIL = "order_id.customer_id.email"


def paths(*expressions: str) -> list[DataPath]:
    return [parse_data_path(one) for one in expressions]


async def resolve(expression: str, record: Any = LINE) -> Any:
    (path,) = paths(expression)
    return await ShopReader().resolver.resolve(TENANT, "order_lines", path, record)


@pytest.mark.parametrize("record", [LINE, "l1"])
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("product", "pen"),
        ("order_id.total", 12.5),
        (EMAIL, "jo@example.com"),
        ("order_id.customer_id.referrer_id.referrer_id.email", "jo@example.com"),
        ("seller_id", None),
    ],
)
async def test_one_hop_and_many_hops(expression: str, value: Any, record: Any) -> None:
    assert await resolve(expression, record) == value


@pytest.mark.parametrize("key", [None, "gone", 7])
async def test_a_null_key_and_a_missing_record_are_none(key: Any) -> None:
    assert await resolve(EMAIL, {**LINE, "order_id": key}) is None
    assert await resolve(EMAIL, "no such line") is None


async def test_all_paths_are_one_query_that_shares_prefixes() -> None:
    reader = ShopReader()
    wanted = paths(EMAIL, "order_id.customer_id.name", "order_id.total")
    assert await reader.resolver.resolve_all(TENANT, "order_lines", wanted, LINE) == {
        EMAIL: "jo@example.com",
        "order_id.customer_id.name": None,
        "order_id.total": 12.5,
    }
    assert len(reader.queries) == 1
    assert len(reader.records_read) == 2, "the order once, the customer once"
    assert reader.reads == [["orders"], ["customers"]]


async def test_many_records_are_one_query() -> None:
    reader = ShopReader()
    plan = await reader.resolver.plan(TENANT, "order_lines", paths(EMAIL))
    found = await reader.resolver.resolve_many(plan, [LINE, {**LINE, "order_id": None}, "l1"])
    assert [one[EMAIL] for one in found] == ["jo@example.com", None, "jo@example.com"]
    assert len(reader.queries) == 1


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("order_id.nmae", "order_id.nmae: collection orders has no field nmae; did you mean name?"),
        ("product.name", "product of collection order_lines is of type STRING and cannot be"),
        ("seller_id.name", "leads to sellers, which is gone"),
    ],
)
async def test_a_path_that_leads_nowhere_is_refused(expression: str, says: str) -> None:
    with pytest.raises(InvalidDataPathError, match=says.replace("?", r"\?")):
        await resolve(expression)


def test_a_path_has_ten_hops_at_most() -> None:
    with pytest.raises(InvalidDataPathError, match="10 hops at most; this one has 50"):
        parse_data_path("referrer_id." * 50 + "email")


async def test_another_tenant_has_no_such_collection() -> None:
    with pytest.raises(NotFoundError, match="collection order_lines does not exist"):
        await ShopReader().resolver.resolve_all(TENANT + 1, "order_lines", paths(EMAIL), LINE)


async def test_a_collection_is_known_by_its_id_too() -> None:
    found = await ShopReader().resolver.resolve_all(TENANT, "col_orders", paths("total"), "o1")
    assert found == {"total": 12.5}


async def test_a_trace_names_every_record() -> None:
    trace = ShopReader().resolver.trace
    found = await trace(TENANT, "order_lines", paths(EMAIL, "id"), "l1")
    line, order = PathStep("order_lines", "l1", 3), PathStep("orders", "o1", 3)
    assert found.steps == {EMAIL: (line, order, PathStep("customers", "c1", 3)), "id": (line,)}
    assert found.values == {EMAIL: "jo@example.com", "id": "l1"}
    assert found.is_root_found
    assert not (await trace(TENANT, "order_lines", paths(EMAIL), "gone")).is_root_found
    assert (await trace(TENANT, "order_lines", paths("id"), LINE)).is_root_found


async def test_a_script_is_given_the_record_before_it() -> None:
    value = await resolve("order_id.customer_id.SCRIPT[credit-check].score")
    assert value == RECORDS["customers", "c1"]


@pytest.mark.parametrize("is_before", [False, True])
async def test_encrypted_values_are_masked_where_they_are_shown(is_before: bool) -> None:
    """Where a field was ENCRYPTED before, too."""
    lines = collection("order_lines", product=FieldType.ENCRYPTED)
    if is_before:
        now = collection("order_lines", product=FieldType.STRING)
        lines = msgspec.structs.replace(now, masked=("product",))
    shop = dict(SHOP) | {"order_lines": lines}
    reader = ShopReader(shop)
    wanted = paths("product", "id")
    shown = DataPathResolver(reader.collections, reader.follow, "***")
    for found in (
        await shown.resolve_all(TENANT, "order_lines", wanted, "l1"),
        (await shown.trace(TENANT, "order_lines", wanted, "l1")).values,
    ):
        assert found == {"product": "***", "id": "l1"}
    assert (await shown.resolve_all(TENANT, "order_lines", wanted, {}))["product"] is None
    assert (await reader.resolver.resolve_all(TENANT, "order_lines", wanted, "l1"))[
        "product"
    ] == "pen"
