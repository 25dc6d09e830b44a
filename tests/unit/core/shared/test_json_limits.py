import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.shared.json_limits import MAX_NESTING, check_plain, is_deeper


def nested(levels: int, leaf: Any = 1) -> Any:
    for index in range(levels):
        leaf = {"a": leaf} if index % 2 else [leaf]
    return leaf


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"text": "früh 😀 \x00", "number": 1.5, "none": None, "flag": True},
        {"low": -(2**63), "high": 2**64 - 1},
        {"list": [1, [2, {"deep": "x"}]]},
        {"a": nested(MAX_NESTING - 1)},
    ],
    ids=lambda document: repr(document)[:30],
)
def test_plain_json_passes_unchanged(document: dict[str, Any]) -> None:
    assert check_plain(document) is document


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"a": nested(MAX_NESTING)}, "is nested deeper than 32 levels"),
        ({"a": nested(5000)}, "is nested deeper than 32 levels"),
        ({"a": {"b": ["x", "\ud800"]}}, "a.b[1]' holds half of a surrogate pair"),
        ({"\udfff": 1}, "the name of .\\udfff' holds half of a surrogate pair"),
        ({"a": float("nan")}, "a is not a finite number"),
        ({"a": [float("-inf")]}, "a[0] is not a finite number"),
        ({"a": 2**64}, "a is a number of more than 64 bits"),
        ({"a": {"b": -(2**63) - 1}}, "a.b is a number of more than 64 bits"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_plain_is_named(document: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)) as caught:
        check_plain(document)
    assert str(caught.value).encode(), "the complaint itself can be sent"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(json_values, st.integers(min_value=0, max_value=8))
def test_depth_is_what_it_says(document: Any, levels: int) -> None:
    def depth(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value
        is_container = isinstance(value, dict | list)
        return 1 + max(map(depth, inner), default=0) if is_container else 0

    assert is_deeper(document, levels) == (depth(document) > levels)
