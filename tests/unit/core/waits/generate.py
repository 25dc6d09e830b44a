"""Configurations and events for property tests: all that users may write, in a small world."""

import json
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from core.waits.config import API_RESPONSE, KAFKA_EVENT, WaitConfig
from core.waits.messages import Offer
from core.waits.spec import ExpectedEvent, Source, WaitSpec
from core.waits.strategy import Outcome
from tests.unit.core.waits.builders import offer

BLOCKS = {"apiCall": API_RESPONSE, "kafkaEvent": KAFKA_EVENT}
TOPICS = ("orders", "payments")
SERVICES = ("ext", "risk")
# Overall and per event; the shortest is longer than any test without deadlines takes.
TIMEOUTS = (1.5, 3.0, 4.25, 10.0)

filters = st.sampled_from(
    (
        {},
        {},
        {},
        {"kind": "done"},
        {"kind": "done"},
        {"kind": "failed"},
        {"meta.ok": True},
        {"kind": "done", "meta.ok": True},
        {"items[0].sku": 7},
    )
)


def _event(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"required": st.booleans(), **more}, optional={"timeout": st.sampled_from(TIMEOUTS)}
    )


# Built once: a strategy is dear to make and cheap to draw from.
_timeouts = st.sampled_from(TIMEOUTS)
_policies = st.sampled_from(("fail", "continue", "continue_with_partial"))
_api_calls = st.none() | _event(url=st.just("https://ext.example/do"))
_kafka_events = st.none() | _event(topic=st.sampled_from(TOPICS), filter=filters)
_named_events = _event(filter=filters)
# Mostly where the other events come from as well, so that several fit.
_origins = st.sampled_from((None, "orders", "orders", "ext", *TOPICS, *SERVICES))
_counts = st.integers(0, 2)
_coins = st.booleans()


@st.composite
def configs(draw: st.DrawFn) -> WaitConfig:
    """Every decidable configuration of up to four events."""
    data: dict[str, Any] = {"timeout": draw(_timeouts), "onTimeout": draw(_policies), "events": []}
    for block, strategy in (("apiCall", _api_calls), ("kafkaEvent", _kafka_events)):
        event = draw(strategy)
        if event is not None:
            data[block] = event
    for name in ("first", "second")[: draw(_counts)]:
        event = {"name": name, **draw(_named_events)}
        origin = draw(_origins)
        if origin is not None:
            event["topic" if origin in TOPICS else "service"] = origin
        data["events"].append(event)
    names = [name for block, name in BLOCKS.items() if block in data]
    names += [event["name"] for event in data["events"]]
    data |= draw(_strategies(tuple(names), any(_required(data))))
    if draw(_coins):
        data["outputMapping"] = {"ids": "correlation_id", **{f"{n}_copy": n for n in names}}
    return WaitConfig.model_validate(data)


@lru_cache
def _strategies(names: tuple[str, ...], has_required: bool) -> st.SearchStrategy[dict[str, Any]]:
    possible: list[st.SearchStrategy[dict[str, Any]]] = [
        st.just({"aggregationStrategy": strategy}) for strategy in ("all", "any", "settled")
    ]
    if has_required or not names:
        possible.append(st.just({"aggregationStrategy": "required_only"}))
    if names:
        listed = st.lists(st.sampled_from(names), min_size=1, unique=True)
        possible.append(
            listed.map(lambda some: {"aggregationStrategy": "custom", "requiredEvents": some})
        )
        quorum = st.integers(1, len(names))
        possible.append(quorum.map(lambda n: {"aggregationStrategy": "quorum", "quorum": n}))
    return st.one_of(possible)


def _required(data: dict[str, Any]) -> list[bool]:
    blocks = [data.get("apiCall"), data.get("kafkaEvent"), *data["events"]]
    return [block["required"] for block in blocks if block]


specs = configs().map(WaitConfig.to_spec)

outcomes = st.sampled_from(
    (Outcome.RECEIVED, Outcome.RECEIVED, Outcome.RECEIVED, Outcome.FAILED, Outcome.REJECTED)
)


def fitting(event: ExpectedEvent, event_id: str, outcome: Outcome = Outcome.RECEIVED) -> Offer:
    """An event that passes every clause of `event`."""
    document: dict[str, Any] = {"n": event_id}
    if "kind" in event.filter:
        document["kind"] = event.filter["kind"]
    if "meta.ok" in event.filter:
        document["meta"] = {"ok": True}
    if "items[0].sku" in event.filter:
        document["items"] = [{"sku": 7}]
    label = event.label or SERVICES[0]
    return offer(event_id, event.source, label, json.dumps(document).encode(), outcome)


_dice = st.integers(0, 3)
_places = [st.integers(0, count) for count in range(4)]
_strays = st.builds(
    lambda origin, payload: (*origin, payload),
    st.sampled_from(
        [(Source.KAFKA, topic) for topic in TOPICS] + [(Source.API, name) for name in SERVICES]
    ),
    st.sampled_from((b"{}", b'{"kind":"done"}', b'{"meta":{"ok":1}}', b"\xff", b"")),
)


@st.composite
def offers(draw: st.DrawFn, spec: WaitSpec, event_id: str) -> Offer:
    """An event that was meant for `spec`, or strays into it."""
    outcome = draw(outcomes)
    stray = draw(_dice) == 0
    if spec.events and not stray:
        place = draw(_places[len(spec.events) - 1])
        return fitting(spec.events[place], event_id, outcome)
    source, label, payload = draw(_strays)
    return offer(event_id, source, label, payload, outcome)


@st.composite
def crowds(draw: st.DrawFn, spec: WaitSpec, most: int = 5) -> list[Offer]:
    """Several different events for one wait, in the order they were sent."""
    count = draw(st.integers(0, most))
    return [draw(offers(spec, f"event-{index}")) for index in range(count)]
