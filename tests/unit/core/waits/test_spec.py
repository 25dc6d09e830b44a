import hashlib
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given

from core.waits.config import WaitConfig
from core.waits.spec import (
    ExpectedEvent,
    Source,
    SpecCache,
    Strategy,
    WaitSpec,
    decode_spec,
    encode_spec,
    same_spec,
)
from tests.unit.core.waits.generate import specs

EVENTS = (
    ExpectedEvent(name="a", source=Source.API),
    ExpectedEvent(name="b", source=Source.API, required=False),
    ExpectedEvent(name="c", source=Source.KAFKA),
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
    assert (tuple(spec.needed_names), spec.needed_slots[1]) == needed


def test_any_of_nothing_needs_nothing() -> None:
    assert WaitSpec(events=(), strategy=Strategy.ANY).needed_slots == ((), 0)


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
        WaitSpec(events=(ExpectedEvent(name="k", source=Source.KAFKA, filter=filter_),))
        for filter_ in (one, other)
    )
    assert same_spec(left, right) is same


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b'{"url":"u","body":{"a":1,"b":2}}', b'{"body":{"b":2,"a":1},"url":"u"}', True),
        (b'{"url":"u"}', b'{"url":"v"}', False),
        (b'{"url":"u"}', b"", False),
        (b"", b"", True),
    ],
)
def test_a_call_is_the_same_in_whatever_order_it_was_written(
    one: bytes, other: bytes, same: bool
) -> None:
    left, right = (WaitSpec(events=EVENTS, call=msgspec.Raw(call)) for call in (one, other))
    assert same_spec(left, right) is same


MANY = [[]] * 20_000


def held_by(value: Any, seen: set[int]) -> int:
    """The bytes of an object and of all that it holds, as CPython counts them."""
    if id(value) in seen or isinstance(value, type):
        return 0
    seen.add(id(value))
    parts: list[Any] = []
    if isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple):
        parts = list(value)
    elif isinstance(value, msgspec.Struct):
        parts = [getattr(value, name) for name in value.__struct_fields__]
        parts.append(getattr(value, "__dict__", None))
    elif isinstance(value, msgspec.Raw):
        return 64  # a part of the text; its own size it tells wrongly
    return sys.getsizeof(value) + sum(held_by(part, seen) for part in parts)


def raw_of(config: dict[str, Any]) -> bytes:
    return encode_spec(WaitConfig.model_validate(config).to_spec())


@pytest.mark.parametrize(
    "config",
    [
        {"apiCall": {"url": "u"}},
        {"events": [{"name": f"event-{n}", "topic": f"topic-{n}"} for n in range(100)]},
        {"kafkaEvent": {"topic": "t", "filter": {"x": MANY}}},
        {"kafkaEvent": {"topic": "t", "filter": {f"k{n}": {} for n in range(5_000)}}},
        {"kafkaEvent": {"topic": "t", "filter": {f"k{n}": {"a": n / 7} for n in range(5_000)}}},
        {"kafkaEvent": {"topic": "t", "filter": {"x": list(range(1_000, 20_000))}}},
        {"kafkaEvent": {"topic": "t"}, "outputMapping": {f"n{n}": "a" for n in range(2_000)}},
        {"apiCall": {"url": "u", "body": {"x": MANY}}},
    ],
)
def test_the_weight_of_a_spec_is_what_it_holds(config: dict[str, Any]) -> None:
    raw = raw_of(config)
    spec = SpecCache(1, 10**9).decode(raw)
    held = len(raw) + held_by(spec, set())
    assert 0.9 * held <= spec.weight <= 4 * held + 5_000


def test_what_a_call_sends_is_not_decoded() -> None:
    """A megabyte of empty lists is twenty-five as objects, and no shard looks into it."""
    raw = raw_of({"apiCall": {"url": "u", "body": {"x": MANY}}})
    spec = SpecCache(1, 10**9).decode(raw)
    assert held_by(spec, set()) < 20_000 < len(raw)
    assert encode_spec(spec) == raw


def test_the_specs_in_memory_are_bounded_in_bytes_and_number() -> None:
    large = [raw_of({"kafkaEvent": {"topic": f"t{n}", "filter": {"x": MANY}}}) for n in range(3)]
    cache = SpecCache(2, 5_000_000)
    first = cache.decode(large[0])
    assert first.weight < 5_000_000 < 2 * first.weight
    cache.decode(large[1])
    assert len(cache) == 1
    assert cache.weight == first.weight
    small = [raw_of({"kafkaEvent": {"topic": f"t{n}"}}) for n in range(3)]
    specs_ = [cache.decode(raw) for raw in small]
    assert len(cache) == 2
    assert cache.weight == sum(spec.weight for spec in specs_[1:])
    assert cache.decode(small[1]) is specs_[1]
    cache.decode(small[0])  # the longest unused goes
    assert cache.decode(small[1]) is specs_[1]


def test_a_spec_that_fits_nowhere_is_decoded_all_the_same() -> None:
    cache = SpecCache(2, 1_000)
    assert cache.decode(raw_of({"kafkaEvent": {"topic": "t"}})).names == ("kafka_event",)
    assert (len(cache), cache.weight) == (0, 0)


def test_a_spec_tells_its_names_and_no_secret() -> None:
    call = msgspec.Raw(b'{"headers":{"Authorization":"Bearer s3cr3t"}}')
    spec = WaitSpec(events=EVENTS, call=call)
    assert repr(spec) == f"WaitSpec(a, b, c; {spec.digest.hex()})"
