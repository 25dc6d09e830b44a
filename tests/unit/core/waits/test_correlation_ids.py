from typing import Any

import pytest

from core.waits.incoming_event import CorrelationIds, MissingId, MissingIds, find_ids, without_ids
from core.waits.spec import DEFAULT_IDS, IdFields

OWN = IdFields("meta.ref", "meta.runs[0]", "X-Ref", "X-Run")


def pairs(found: list[CorrelationIds] | MissingIds) -> list[tuple[str, str]]:
    assert isinstance(found, list), found
    return [(ids.execution_id, ids.correlation_id) for ids in found]


def test_ids_in_the_body() -> None:
    assert pairs(find_ids({}, {"execution_id": "e", "correlation_id": "c"})) == [("e", "c")]


def test_headers_come_before_the_body() -> None:
    headers = {"x-execution-id": "he", "x-correlation-id": "hc"}
    body = {"execution_id": "be", "correlation_id": "bc"}
    assert pairs(find_ids(headers, body)) == [("he", "hc")]


def test_each_id_may_come_by_its_own_way() -> None:
    assert pairs(find_ids({"x-execution-id": "e"}, {"correlation_id": 12})) == [("e", "12")]


def test_own_names_are_looked_for_as_well() -> None:
    body = {"meta": {"ref": "c", "runs": ["e"]}}
    found = find_ids({}, body, [OWN])
    assert found == [CorrelationIds("e", "c", OWN)]
    assert pairs(find_ids({"x-ref": "hc", "x-run": "he"}, None, [OWN])) == [("he", "hc")]


def test_two_kinds_of_names_give_two_pairs_the_default_first() -> None:
    body = {"execution_id": "e", "correlation_id": "c", "meta": {"ref": "c2", "runs": ["e2"]}}
    found = find_ids({}, body, [OWN, DEFAULT_IDS, OWN])
    assert pairs(found) == [("e", "c"), ("e2", "c2")]


def test_the_same_pair_under_two_names_counts_once() -> None:
    body = {"execution_id": "e", "correlation_id": "c", "meta": {"ref": "c", "runs": ["e"]}}
    assert find_ids({}, body, [OWN]) == [CorrelationIds("e", "c", DEFAULT_IDS)]


BOTH = ["correlation_id", "execution_id"]
HEADERS = {"correlation_id": "X-Correlation-Id", "execution_id": "X-Execution-Id"}


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        ({}, BOTH),
        ({"execution_id": "e"}, ["correlation_id"]),
        ({"correlation_id": "c"}, ["execution_id"]),
        ({"correlation_id": "c", "execution_id": None}, ["execution_id"]),
        (None, BOTH),
        ("text", BOTH),
        ([{"correlation_id": "c"}], BOTH),
    ],
)
def test_a_missing_id_is_named(body: Any, missing: list[str]) -> None:
    expected = [MissingId(name, f"header {HEADERS[name]} or body field {name}") for name in missing]
    assert find_ids({}, body) == MissingIds(tuple(expected))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "is empty"),
        (" x", "has a space at an end or an unprintable character"),
        ("x\n", "has a space at an end or an unprintable character"),
        ("x" * 256, "is longer than 255 characters"),
        (10**255, "is longer than 255 characters"),
        (True, "is neither a text nor a whole number"),
        ({}, "is neither a text nor a whole number"),
        (1.5, "is neither a text nor a whole number"),
    ],
)
def test_what_stands_there_and_is_no_id_is_named(value: object, problem: str) -> None:
    found = find_ids({}, {"correlation_id": value, "execution_id": "e"})
    assert isinstance(found, MissingIds)
    assert list(map(str, found.ids)) == [
        f"correlation_id {problem}: send it in header X-Correlation-Id or body field correlation_id"
    ]


def test_a_bad_header_is_not_overruled_by_the_body() -> None:
    found = find_ids({"x-correlation-id": ""}, {"correlation_id": "c", "execution_id": "e"})
    assert isinstance(found, MissingIds)


def test_what_is_missing_is_told_in_the_words_of_the_default() -> None:
    found = find_ids({}, {"meta": {"ref": "c"}}, [OWN])
    assert isinstance(found, MissingIds)
    assert [one.name for one in found.ids] == BOTH


def test_the_ids_are_stripped_through_nested_maps() -> None:
    body = {
        "execution_id": "e",
        "data": {"correlation_id": "c", "keep": 1},
        "rows": [{"execution_id": "kept"}],
    }
    assert without_ids(body, DEFAULT_IDS) == {
        "data": {"keep": 1},
        "rows": [{"execution_id": "kept"}],
    }


def test_an_id_at_a_path_is_stripped_there_and_only_there() -> None:
    """A path like `order.id` says nothing about the `id` of anything else."""
    fields = IdFields("order.id", "order.lines[0].id")
    body = {
        "order": {"id": "c", "lines": [{"id": "e", "sku": 1}, {"id": 2}]},
        "customer": {"id": 77},
    }
    assert without_ids(body, fields) == {
        "order": {"lines": [{"sku": 1}, {"id": 2}]},
        "customer": {"id": 77},
    }


def test_a_key_spelled_like_the_path_is_stripped_too() -> None:
    assert without_ids({"a.b": "c", "x": 1}, IdFields("a.b", "run")) == {"x": 1}


@pytest.mark.parametrize("body", [None, "text", 5, ["execution_id"]])
def test_a_body_that_is_no_map_stays_as_it_came(body: object) -> None:
    assert without_ids(body, DEFAULT_IDS) == body
