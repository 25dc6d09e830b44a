"""Many paths at once: what they share is followed once."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.records.data_path import parse_data_path
from core.records.path_tree import PathEdge, PathTerminal, PathTree, build_tree, resolve_paths
from tests.unit.core.records.definitions import LINE, RECORDS, SHOP


def tree_of(*expressions: str) -> PathTree:
    return build_tree(map(parse_data_path, expressions), "order_lines", SHOP)


class Finder:
    """Counts the records that were looked up."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def __call__(self, collection: str, record_id: str) -> dict[str, Any] | None:
        self.found.append((collection, record_id))
        return RECORDS.get((collection, record_id))


def test_shared_prefixes_are_one_edge() -> None:
    tree = tree_of("order_id.customer_id.email", "order_id.customer_id.name", "order_id.total")
    assert tree == PathTree(
        edges=(PathEdge(0, 1, "order_id", "orders"), PathEdge(1, 2, "customer_id", "customers")),
        terminals=(
            PathTerminal(2, "email", "order_id.customer_id.email"),
            PathTerminal(2, "name", "order_id.customer_id.name"),
            PathTerminal(1, "total", "order_id.total"),
        ),
    )


def test_each_record_is_looked_up_once() -> None:
    find = Finder()
    tree = tree_of("order_id.customer_id.email", "order_id.customer_id.name", "order_id.total")
    assert resolve_paths(tree, LINE, find) == {
        "order_id.customer_id.email": "jo@example.com",
        "order_id.customer_id.name": None,
        "order_id.total": 12.5,
    }
    assert find.found == [("orders", "o1"), ("customers", "c1")]


def test_a_path_may_end_where_another_goes_on() -> None:
    values = resolve_paths(tree_of("order_id", "order_id.name"), LINE, Finder())
    assert values == {"order_id": "o1", "order_id.name": "first"}


def test_the_same_path_twice_is_one() -> None:
    assert len(tree_of("order_id.name", "order_id.name").terminals) == 1


def test_a_null_key_a_missing_record_and_a_key_that_is_no_text_end_the_way() -> None:
    tree = tree_of("order_id.customer_id.name")
    find = Finder()
    for key in (None, "gone", 7, {}):
        line = {**LINE, "order_id": key}
        assert resolve_paths(tree, line, find) == {"order_id.customer_id.name": None}
    assert find.found == [("orders", "gone")]


def test_a_circle_is_as_long_as_its_path() -> None:
    path = "order_id.customer_id.referrer_id.referrer_id.referrer_id.email"
    find = Finder()
    assert resolve_paths(tree_of(path), LINE, find) == {path: "jo@example.com"}
    assert len(find.found) == 5


def test_a_script_is_given_the_record_before_it() -> None:
    path = "order_id.customer_id.SCRIPT[credit-check].score"
    values = resolve_paths(tree_of(path), LINE, Finder())
    assert values == {path: RECORDS["customers", "c1"]}
    assert resolve_paths(tree_of("SCRIPT[x].y"), LINE, Finder()) == {"SCRIPT[x].y": LINE}


PATHS = [
    "product",
    "order_id",
    "order_id.total",
    "order_id.customer_id",
    "order_id.customer_id.email",
    "order_id.customer_id.referrer_id.email",
    "order_id.SCRIPT[tax].amount",
]


@given(st.lists(st.sampled_from(PATHS)), st.sampled_from(["o1", "gone", None]))
def test_all_at_once_is_the_same_as_one_by_one(paths: list[str], order: str | None) -> None:
    line = {**LINE, "order_id": order}
    tree = tree_of(*paths)
    one_by_one = [resolve_paths(tree_of(path), line, Finder()) for path in paths]
    merged = {name: value for found in one_by_one for name, value in found.items()}
    assert resolve_paths(tree, line, Finder()) == merged
    assert len(tree.terminals) == len(set(paths))
