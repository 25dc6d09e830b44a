"""The tree of fields that data paths can read: as deep as asked, and bounded."""

import pytest

from core.records import field_tree
from core.records.field import FieldType
from core.records.field_tree import FieldNode, FieldTree, build_field_tree
from tests.unit.core.records.definitions import SHOP, collection


def names(nodes: list[FieldNode]) -> list[str]:
    return [node.name for node in nodes]


def test_depth_counts_the_levels() -> None:
    flat = build_field_tree(SHOP["order_lines"], SHOP, 1)
    assert flat == FieldTree(
        [
            FieldNode("order_id", FieldType.LOOKUP, "orders"),
            FieldNode("product", FieldType.STRING),
            FieldNode("seller_id", FieldType.LOOKUP, "sellers"),
        ],
        is_truncated=False,
    )
    order, _, seller = build_field_tree(SHOP["order_lines"], SHOP, 3).fields
    assert order.children is not None
    assert names(order.children) == ["customer_id", "total", "name"]
    customer = order.children[0]
    assert customer.children is not None
    assert names(customer.children) == ["email", "name", "referrer_id"]
    assert customer.children[2].children is None
    assert seller.children is None, "that collection is gone"


def test_a_collection_that_leads_to_itself_is_as_deep_as_asked() -> None:
    (node,) = build_field_tree(
        collection("a", parent="a"), {"a": collection("a", parent="a")}, 5
    ).fields
    depth = 1
    while node.children:
        (node,), depth = node.children, depth + 1
    assert depth == 5


def test_the_number_of_fields_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_tree, "MAX_TREE_FIELDS", 8)
    found = build_field_tree(SHOP["order_lines"], SHOP, 5)
    assert found.is_truncated
    order = found.fields[0]
    assert order.children is not None
    assert order.children[0].children is None
