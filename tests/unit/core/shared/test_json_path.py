import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.shared.json_path import (
    MISSING,
    document_of,
    equal_json,
    find,
    parse_path,
    without,
    without_path,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ("a[0].b", ("a", 0, "b")),
        ("[2]", (2,)),
        ("a[0][1]", ("a", 0, 1)),
        ("größe.日本", ("größe", "日本")),
        ("with space.x-y", ("with space", "x-y")),
        ("a[999999999]", ("a", 999_999_999)),
    ],
)
def test_a_path_has_steps(path: str, steps: tuple[str | int, ...]) -> None:
    assert parse_path(path) == steps


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        ".a",
        "a.",
        "a..b",
        "a[",
        "a]",
        "a[]",
        "a[-1]",
        "a[x]",
        "a[1",
        "[",
        "]",
        "a[1.5]",
        "a[٣]",
    ],
)
def test_what_is_not_a_path(path: str) -> None:
    assert parse_path(path) is None
    assert find({"a": [1, 2]}, path) is MISSING


def test_an_index_longer_than_python_reads_is_no_path() -> None:
    assert parse_path(f"a[{'1' * 5000}]") is None


@given(st.text(alphabet="ab.[]01-\\\n", max_size=30), json_values)
def test_no_path_and_no_document_breaks_the_search(path: str, document: Any) -> None:
    find(document, path)
    without_path(document, path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("plain", 1),
        ("nested.key", "v"),
        ("list[1].id", "second"),
        ("nothing", None),
        ("a.b", "the key itself"),
        ("a.c", "the path"),
        ("odd..key", "odd"),
    ],
)
def test_a_value_is_found(path: str, value: object) -> None:
    document = {
        "plain": 1,
        "nested": {"key": "v"},
        "list": [{"id": "first"}, {"id": "second"}],
        "nothing": None,
        "a.b": "the key itself",
        "a": {"b": "shadowed", "c": "the path"},
        "odd..key": "odd",
    }
    assert find(document, path) == value


@pytest.mark.parametrize(
    "path",
    ["absent", "nested.absent", "nested.key.deeper", "list.id", "list[2]", "nested[0]", "plain[0]"],
)
def test_a_value_is_missing(path: str) -> None:
    document = {"plain": 1, "nested": {"key": "text"}, "list": [1, 2]}
    assert find(document, path) is MISSING
    assert repr(MISSING) == "MISSING"


@pytest.mark.parametrize("document", [None, 1, "text", [], True])
def test_a_document_that_is_no_map_has_no_names(document: object) -> None:
    assert find(document, "a") is MISSING


def test_a_path_through_a_list_at_the_root() -> None:
    assert find([{"id": 1}], "[0].id") == 1


def test_depth_costs_no_stack() -> None:
    depth = sys.getrecursionlimit() * 3
    document: Any = "end"
    for _ in range(depth):
        document = {"a": document}
    assert find(document, ".".join("a" * depth)) == "end"


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"nonsense",
        b'"\xff"',
        b'"\\ud800"',
        b"NaN",
        b"1e999",
        b"1" * 5000,
        b"[" * 100_000,
        b"[" * 5000 + b"]" * 5000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
    ],
    ids=lambda payload: repr(payload[:12]),
)
def test_bytes_that_are_no_readable_json(payload: bytes) -> None:
    assert document_of(payload) is MISSING


def test_null_is_a_document() -> None:
    assert document_of(b"null") is None
    assert document_of(b' {"a": [1, true]} ') == {"a": [1, True]}


def test_names_are_left_out_through_nested_maps() -> None:
    document = {"id": 1, "keep": {"id": 2, "x": 3}, "list": [{"id": 4}]}
    assert without(document, {"id"}) == {"keep": {"x": 3}, "list": [{"id": 4}]}


def test_names_below_the_depth_stay() -> None:
    document: Any = {"id": 0}
    for _ in range(1000):
        document = {"in": document, "id": 1}
    cleaned = without(document, {"id"}, depth=2)
    assert "id" not in cleaned
    assert "id" not in cleaned["in"]
    assert cleaned["in"]["in"]["id"] == 1


@pytest.mark.parametrize("document", [None, 1, "text", [{"id": 1}]])
def test_only_maps_lose_names(document: object) -> None:
    assert without(document, {"id"}) == document


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("id", {"data": {"id": 2, "rows": [{"id": 3}, {"id": 4}]}}),
        ("data.id", {"id": 1, "data": {"rows": [{"id": 3}, {"id": 4}]}}),
        ("data.rows[1].id", {"id": 1, "data": {"id": 2, "rows": [{"id": 3}, {}]}}),
    ],
)
def test_one_key_is_cut_out_and_no_other(path: str, rest: object) -> None:
    document = {"id": 1, "data": {"id": 2, "rows": [{"id": 3}, {"id": 4}]}}
    assert without_path(document, path) == rest
    assert document == {"id": 1, "data": {"id": 2, "rows": [{"id": 3}, {"id": 4}]}}


@pytest.mark.parametrize(
    "path", ["absent", "data.absent", "data[0].id", "rows[0]", "rows[7].x", "a..b"]
)
def test_nothing_is_cut_where_nothing_is(path: str) -> None:
    document = {"data": {"id": 2}, "rows": [1, 2]}
    assert without_path(document, path) == document


@pytest.mark.parametrize(
    ("expected", "actual", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (True, 1, False),
        (0, False, False),
        (True, True, True),
        ("1", 1, False),
        (None, None, True),
        (None, False, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": [1, {"b": 0}]}, {"a": [1.0, {"b": 0}]}, True),
        ({"a": [1, {"b": 0}]}, {"a": [1, {"b": False}]}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ([], {}, False),
    ],
)
def test_equality_as_json_sees_it(expected: object, actual: object, equal: bool) -> None:
    assert equal_json(expected, actual) is equal
    assert equal_json(actual, expected) is equal


@given(json_values)
def test_everything_equals_itself(value: Any) -> None:
    assert equal_json(value, value)
