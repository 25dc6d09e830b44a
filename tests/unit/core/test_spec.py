import hashlib

import pytest
from hypothesis import given

from core.spec import (
    Expected,
    Source,
    Strategy,
    WaitSpec,
    decode_spec,
    encode_spec,
    same_spec,
)
from tests.unit.core.generate import specs

EVENTS = (
    Expected(name="a", source=Source.API),
    Expected(name="b", source=Source.API, required=False),
    Expected(name="c", source=Source.KAFKA),
)


@pytest.mark.parametrize(
    ("strategy", "needed"),
    [
        (Strategy.ALL, (("a", "b", "c"), 3)),
        (Strategy.SETTLED, (("a", "b", "c"), 3)),
        (Strategy.ANY, (("a", "b", "c"), 1)),
        (Strategy.REQUIRED_ONLY, (("a", "c"), 2)),
        (Strategy.CUSTOM, (("b",), 1)),
        (Strategy.QUORUM, (("a", "b", "c"), 2)),
    ],
)
def test_what_a_strategy_looks_at(strategy: Strategy, needed: tuple[tuple[str, ...], int]) -> None:
    spec = WaitSpec(events=EVENTS, strategy=strategy, listed=("b",), quorum=2)
    assert (tuple(spec.needed_names), spec.needed[1]) == needed


def test_any_of_nothing_needs_nothing() -> None:
    assert WaitSpec(events=(), strategy=Strategy.ANY).needed == ((), 0)


@given(specs)
def test_a_spec_survives_its_row(spec: WaitSpec) -> None:
    raw = encode_spec(spec)
    assert decode_spec(raw) == decode_spec(raw.decode()) == spec


def test_a_small_spec_is_a_small_row() -> None:
    spec = WaitSpec(events=EVENTS[:1])
    assert encode_spec(spec).decode() == spec.text == '{"events":[{"name":"a","source":"api"}]}'


def test_a_digest_stands_for_the_text() -> None:
    one, other = WaitSpec(events=EVENTS), WaitSpec(events=EVENTS, timeout=1.0)
    assert one.digest == hashlib.sha256(one.text.encode()).digest()[:16]
    assert one.digest == decode_spec(one.text).digest != other.digest


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}, True),
        ({"x": {"a": 1, "b": 2}}, {"x": {"b": 2, "a": 1}}, True),
        ({"x": 1}, {"x": True}, False),
        ({"x": 1}, {"x": "1"}, False),
        ({"x": [1, 2]}, {"x": [2, 1]}, False),
    ],
)
def test_specs_are_the_same_if_they_mean_the_same(
    one: dict[str, object], other: dict[str, object], same: bool
) -> None:
    left, right = (
        WaitSpec(events=(Expected(name="k", source=Source.KAFKA, filter=filter_),))
        for filter_ in (one, other)
    )
    assert same_spec(left, right) is same
