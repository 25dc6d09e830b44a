"""Paths of many roots in one query: what is asked, and whose the answers are."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.records.data_path import parse_data_path
from core.records.path_batch import NumberedEdge, PathBatch, PathPlan, PathRow, PathStart
from core.records.path_tree import PathStep, build_tree, resolve_paths
from tests.unit.core.records.definitions import LINE, RECORDS, SHOP

NUMBERS = {"order_lines": 10, "orders": 20, "customers": 30}
NAMES = {number: name for name, number in NUMBERS.items()}
STORED = {**RECORDS, ("order_lines", "l1"): LINE}


def plan_of(*expressions: str, root: str = "order_lines", tenant: int = 1) -> PathPlan:
    tree = build_tree(map(parse_data_path, expressions), root, SHOP)
    return PathPlan(tenant, root, tree, NUMBERS)


def follow(
    batch: PathBatch, stored: Mapping[tuple[str, str], Mapping[str, Any]] = STORED
) -> list[PathRow]:
    """Does what the query does, on records in memory; every record has version 3."""
    rows = []
    at = [
        (start, one.node, one.collection_no, one.record_id)
        for start, one in enumerate(batch.starts)
    ]
    while at:
        start, node, number, record_id = at.pop()
        record = stored.get((NAMES[number], record_id))
        if record is None:
            continue
        rows.append(PathRow(start, node, record_id, 3, None, None))
        rows += [
            PathRow(start, node, record_id, 3, field, record.get(field) if field else record)
            for end, field in batch.terminals
            if end == node
        ]
        at += [
            (start, edge.child, edge.collection_no, record[edge.field])
            for edge in batch.edges
            if edge.node == node and isinstance(record.get(edge.field), str)
        ]
    return rows


def test_a_record_in_memory_is_not_asked_for() -> None:
    batch = PathBatch()
    batch.add(plan_of("product", "order_id.total"), [LINE])
    assert batch.starts == [PathStart(1, 1, 20, "o1")]
    assert batch.edges == [NumberedEdge(1, 0, 1, "order_id", 20)]
    assert batch.terminals == [(0, "product"), (1, "total")]
    assert batch.values(follow(batch)) == [{"product": "pen", "order_id.total": 12.5}]


def test_paths_of_the_record_alone_need_no_query() -> None:
    batch = PathBatch()
    batch.add(plan_of("product", "SCRIPT[x].y"), [LINE])
    assert batch.starts == []
    assert batch.values([]) == [{"product": "pen", "SCRIPT[x].y": LINE}]


def test_an_id_is_read_first() -> None:
    batch = PathBatch()
    batch.add(plan_of("product", "order_id.total", "order_id.SCRIPT[x].y"), ["l1", "gone"])
    assert batch.starts == [PathStart(0, 1, 10, "l1"), PathStart(0, 1, 10, "gone")]
    found, missing = batch.values(follow(batch))
    order = RECORDS["orders", "o1"]
    assert found == {"product": "pen", "order_id.total": 12.5, "order_id.SCRIPT[x].y": order}
    assert set(missing.values()) == {None}


def test_roots_that_lead_to_the_same_record_share_it() -> None:
    batch = PathBatch()
    plan = plan_of("order_id.total")
    batch.add(plan, [LINE, LINE, {**LINE, "order_id": "o2"}, {**LINE, "order_id": 7}])
    assert [one.record_id for one in batch.starts] == ["o1", "o2"]
    values = batch.values(follow(batch))
    assert [one["order_id.total"] for one in values] == [12.5, 12.5, None, None]


def test_trees_and_tenants_are_kept_apart() -> None:
    batch = PathBatch()
    batch.add(plan_of("order_id.total"), [LINE])
    batch.add(plan_of("customer_id.email", root="orders", tenant=2), ["o1"])
    batch.add(plan_of("order_id.total", tenant=2), [LINE])
    assert [(edge.tenant, edge.node, edge.child) for edge in batch.edges] == [
        (1, 0, 1), (2, 2, 3), (2, 4, 5),
    ]  # fmt: skip
    assert [(one.tenant, one.node) for one in batch.starts] == [(1, 1), (2, 2), (2, 5)]
    assert batch.values(follow(batch)) == [
        {"order_id.total": 12.5},
        {"customer_id.email": "jo@example.com"},
        {"order_id.total": 12.5},
    ]


def test_steps_say_how_far_a_path_came() -> None:
    batch = PathBatch()
    paths = ("product", "order_id.customer_id.email", "seller_id.name")
    shop = {**SHOP, "sellers": SHOP["customers"]}
    tree = build_tree(map(parse_data_path, paths), "order_lines", shop)
    plan = PathPlan(1, "order_lines", tree, {**NUMBERS, "sellers": 40})
    batch.add(plan, [LINE, "l1", {**LINE, "order_id": "gone"}])
    order, customer = PathStep("orders", "o1", 3), PathStep("customers", "c1", 3)
    line = PathStep("order_lines", "l1", 3)
    assert batch.steps(follow(batch)) == [
        {"product": (), "order_id.customer_id.email": (order, customer), "seller_id.name": ()},
        {
            "product": (line,),
            "order_id.customer_id.email": (line, order, customer),
            "seller_id.name": (line,),
        },
        {"product": (), "order_id.customer_id.email": (), "seller_id.name": ()},
    ]


PATHS = [
    "product", "id", "order_id", "order_id.total", "order_id.customer_id",
    "order_id.customer_id.email", "order_id.customer_id.referrer_id.referrer_id.email",
    "order_id.SCRIPT[tax].amount",
]  # fmt: skip
lines = st.sampled_from([LINE, {**LINE, "order_id": "gone"}, {**LINE, "order_id": None}, "l1"])


@given(
    st.lists(st.tuples(st.lists(st.sampled_from(PATHS)), st.lists(lines, max_size=4)), max_size=3)
)
def test_one_query_answers_what_each_record_alone_would(
    given: list[tuple[list[str], list[dict[str, Any] | str]]],
) -> None:
    batch, expected = PathBatch(), []
    for paths, roots in given:
        plan = plan_of(*paths)
        batch.add(plan, roots)
        for root in roots:
            record = LINE if isinstance(root, str) else root
            find = lambda collection, record_id: STORED.get((collection, record_id))  # noqa: E731
            expected.append(resolve_paths(plan.tree, record, find))
    assert batch.values(follow(batch)) == expected
    assert len(set(batch.starts)) == len(batch.starts)
