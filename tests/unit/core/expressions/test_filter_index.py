"""The index of filters leaves out only what cannot be true."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.expressions.filter_index import Equality, FilterIndex, leading_equalities
from handlers.filters.expressions import compile_expression
from handlers.filters.parser import parse_expression


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("status == 'open'", [("status", (False, "open"))]),
        (
            "record.status = 'open' && total == 5",
            [("status", (False, "open")), ("total", (False, 5))],
        ),
        ("AND(paid == true, a == 1.5)", [("paid", (True, True)), ("a", (False, 1.5))]),
        ("a != 3 && b == 'x'", [("b", (False, "x"))]),
        ("total > 5 && status == 'open'", []),
        ("1 / n == 2 && status == 'open'", []),
        ("status == 'open' || a == 1", []),
        ("status == null", []),
        ("status == other", []),
        ("user == 'jo'", []),
        ("previous.status == 'open'", []),
        ("previous.status != 'open' && a == 1", []),
        ("!(a == 1)", []),
    ],
)
def test_which_comparisons_a_filter_needs(text: str, found: list[Any]) -> None:
    assert leading_equalities(parse_expression(text)) == [Equality(*one) for one in found]


def index_of(*texts: str | None) -> FilterIndex[str]:
    return FilterIndex(
        (str(text), None if text is None else parse_expression(text)) for text in texts
    )


def test_candidates_keep_their_order() -> None:
    index = index_of("a == 1", None, "b == 'x'", "a == 2", "a == 1 && b == 'y'")
    assert index.candidates({"a": 1, "b": "x"}.get) == ["a == 1", "None", "b == 'x'"]
    assert index.candidates({"a": 1.0, "b": "y"}.get) == ["a == 1", "None", "a == 1 && b == 'y'"]
    assert index.candidates({}.get) == ["None"]
    assert index_of("a == 1").candidates({"a": True}.get) == []


def test_a_filter_is_kept_by_the_comparison_that_the_fewest_share() -> None:
    texts = [f"kind == 'order' && status == 's{n}'" for n in range(100)]
    index = index_of(*texts)
    assert index.candidates({"kind": "order", "status": "s7"}.get) == [texts[7]]


def test_values_that_cannot_be_compared_find_nothing() -> None:
    assert index_of("a == 1").candidates({"a": [1]}.get) == []


conjuncts = st.sampled_from(
    ["a == 1", "a == true", "b == 'x'", "b == 'y'", "a != 2", "c > 1", "c == 1.0", "c == 2", "true"]
)
filters = st.lists(st.lists(conjuncts, min_size=1, max_size=3).map(" && ".join), max_size=6)
records = st.fixed_dictionaries(
    {},
    optional={
        "a": st.sampled_from([1, 1.0, 2, True, None, "x", [1]]),
        "b": st.sampled_from(["x", "y", None, {}]),
        "c": st.sampled_from([0, 1, 2, 2.0]),
    },
)


@given(filters, records)
def test_by_the_index_it_is_as_if_all_were_evaluated(
    texts: list[str], record: dict[str, Any]
) -> None:
    def passes(text: str) -> bool:
        return compile_expression(text).evaluate(record.get, {}) is True

    found = [text for text in index_of(*texts).candidates(record.get) if passes(text)]
    assert found == [text for text in texts if passes(text)]
