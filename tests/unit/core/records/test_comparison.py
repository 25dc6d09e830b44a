"""How values compare in columns and changes."""

from itertools import pairwise
from typing import Any

import pytest

from core.records.comparison import INDEXED_CHARS, difference, indexed_text, unique_hash
from core.records.field import FieldDefinition, FieldType


def test_a_difference_has_the_former_values() -> None:
    before = {"same": [1, {"a": True}], "gone": 1, "other": {"a": 1}, "flag": 1, "list": [1, 2]}
    after = {"same": [1.0, {"a": True}], "new": 2, "other": {"a": 2}, "flag": True, "list": [1]}
    assert difference(before, after) == {
        "flag": 1,
        "gone": 1,
        "list": [1, 2],
        "new": None,
        "other": {"a": 1},
    }


def test_equal_values_have_one_hash() -> None:
    assert unique_hash(1) == unique_hash(1.0)
    assert unique_hash({"a": 1, "b": 2}) == unique_hash({"b": 2, "a": 1})
    hashes = {unique_hash(value) for value in (1, "1", True, [1], {"1": 1}, 1.5, None)}
    assert len(hashes) == 7


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (FieldType.LONG, [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
        (FieldType.DOUBLE, [-1e300, -2, -1.5, -1e-300, 0, 1e-300, 1, 1.5, 2**53, 1e300]),
        (FieldType.STRING, ["", "A", "a", "aa", "ä"]),
        (FieldType.BOOLEAN, [False, True]),
        (FieldType.AUTO_NUMBER, ["INV-0001", "INV-0002"]),
    ],
)
def test_indexed_texts_sort_as_their_values(type_: FieldType, values: list[Any]) -> None:
    field = FieldDefinition(name="f", type=type_)
    texts = [indexed_text(field, value) for value in values]
    assert all(isinstance(text, str) for text in texts)
    assert all(str(low).encode() < str(high).encode() for low, high in pairwise(texts))


def test_what_has_no_order_is_not_indexed() -> None:
    field = FieldDefinition(name="f", type=FieldType.STRING)
    assert [indexed_text(field, value) for value in (None, [1], {"a": 1})] == [None, None, None]
    assert indexed_text(field, "x" * 10_000) == "x" * INDEXED_CHARS
    zero = FieldDefinition(name="f", type=FieldType.DOUBLE)
    assert indexed_text(zero, -0.0) == indexed_text(zero, 0)
