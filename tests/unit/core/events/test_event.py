import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.events.event import (
    Event,
    context_entry,
    context_pair,
    deduplication_key,
    type_expression,
)
from core.shared.address import Address
from core.shared.media_types import is_json_type, media_type


def event(**more: str | None) -> Event:
    return Event(tenant=7, event_id="0HZXEQ5Y8JY5Z", type="t", source="s", time=1.0, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("execution", "correlation", "address"),
    [
        ("run", "order", Address(7, "run", "order")),
        ("run", None, None),
        (None, "order", None),
        (None, None, None),
    ],
)
def test_an_event_is_for_a_wait_if_it_names_both_ids(
    execution: str | None, correlation: str | None, address: Address | None
) -> None:
    assert event(execution_id=execution, correlation_id=correlation).address == address


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/vnd.order+json", True),
        ("text/json", True),
        ("text/plain", False),
        ("application/jsonl", False),
        ("application/xml", False),
    ],
)
def test_json_is_known_by_its_media_type(content_type: str, expected: bool) -> None:
    assert is_json_type(content_type) is expected
    assert event(content_type=content_type).is_json is expected


def test_no_data_is_no_json() -> None:
    assert not event().is_json


def test_a_media_type_has_no_parameters() -> None:
    assert media_type(" Text/XML ; charset=x") == "text/xml"


@given(st.tuples(st.text(), st.text()), st.tuples(st.text(), st.text()))
def test_two_senders_ids_are_the_same_only_if_source_and_id_are(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert (deduplication_key(*one) == deduplication_key(*other)) == (one == other)


@pytest.mark.parametrize(
    ("source", "own_id", "expected"),
    [
        ("/shop", "1", "/shop/1"),
        ("a/b", "c", "a/b/c"),
        ("a", "b/c", "a/b%2Fc"),
        ("a", "b%2Fc", "a/b%252Fc"),
    ],
)
def test_a_senders_id_stands_after_its_source(source: str, own_id: str, expected: str) -> None:
    assert deduplication_key(source, own_id) == expected


@given(st.text().filter(lambda key: "=" not in key), st.text())
def test_a_pair_of_context_comes_back_as_it_was(key: str, value: str) -> None:
    assert context_pair(context_entry(key, value)) == (key, value)


@pytest.mark.parametrize(
    ("pattern", "type_", "expected"),
    [
        ("*", "anything.at:all", True),
        ("order.created", "order.created", True),
        ("order.created", "orderXcreated", False),
        ("order.*", "order.created", True),
        ("order.*", "order.", False),
        ("shop:*:order:*", "shop:orders:order:created", True),
        ("shop:*:order:*", "shop:orders:line:created", False),
        ("shop:*", "shop:orders:order:created", False),
        ("shop:*:*:*", "shop:orders:order", False),
        ("*:*:*:created", "shop:orders:order:created", True),
        ("a+b", "aab", False),
    ],
)
def test_a_star_stands_for_a_part_of_one_segment(pattern: str, type_: str, expected: bool) -> None:
    assert bool(re.search(type_expression(pattern), type_)) is expected
