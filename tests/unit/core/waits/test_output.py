from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from core.waits.output import RESERVED, aggregate
from core.waits.spec import ExpectedEvent, Source, Strategy, TimeoutPolicy, WaitSpec
from core.waits.state import Wait
from core.waits.strategy import Outcome
from tests.unit.core.waits.builders import START, SingleCorrelation, expire, offer, register

EVENTS = (
    ExpectedEvent(name="api_response", source=Source.API),
    ExpectedEvent(name="kafka_event", source=Source.KAFKA, label="orders"),
)
BOTH = WaitSpec(events=EVENTS)
LENIENT = replace(BOTH, on_timeout=TimeoutPolicy.CONTINUE_WITH_PARTIAL)


def finished(
    spec: WaitSpec = BOTH, api: bytes = b'{"a":{"id":1}}', kafka: bytes = b"[2]"
) -> SingleCorrelation:
    world = SingleCorrelation()
    world.say(register(spec), START)
    world.say(offer("e-api", payload=api), START + 1)
    world.say(offer("e-kafka", Source.KAFKA, "orders", kafka), START + 2)
    return world


def test_data_by_name_with_the_ids_beside_it() -> None:
    assert finished().output == {
        "api_response": {"a": {"id": 1}},
        "kafka_event": [2],
        "correlation_id": "corr-1",
        "received_events": ["api_response", "kafka_event"],
    }


def test_received_events_follow_the_configuration_not_the_arrival() -> None:
    world = SingleCorrelation()
    world.say(register(BOTH), START)
    world.say(offer("e-kafka", Source.KAFKA, "orders"), START + 1)
    world.say(offer("e-api"), START + 2)
    assert world.output["received_events"] == ["api_response", "kafka_event"]


def test_a_timeout_that_goes_on_says_so() -> None:
    world = SingleCorrelation()
    world.say(register(LENIENT), START)
    world.say(offer("e-api", payload=b"1"), START + 1)
    world.say(expire(START + 400), START + 400)
    assert world.output == {
        "api_response": 1,
        "correlation_id": "corr-1",
        "received_events": ["api_response"],
        "execution_id": "exec-1",
        "timeout": True,
        "partial": True,
        "enabled_events": ["api_response", "kafka_event"],
        "aggregation_strategy": "all",
    }


def test_a_failure_that_goes_on_is_partial_but_no_timeout() -> None:
    world = SingleCorrelation()
    world.say(register(LENIENT), START)
    world.say(offer("e-api", outcome=Outcome.FAILED), START + 1)
    assert (world.output["partial"], world.output["timeout"]) == (True, False)
    assert "api_response" not in world.output


def test_settled_without_everyone_is_marked_too() -> None:
    world = SingleCorrelation()
    world.say(register(replace(BOTH, strategy=Strategy.SETTLED)), START)
    world.say(expire(START + 400), START + 400)
    assert (world.output["partial"], world.output["timeout"]) == (True, True)


@pytest.mark.parametrize(
    ("mapping", "mapped"),
    [
        ({"x": "api_response"}, {"x": {"a": {"id": 1}}}),
        ({"x": "api_response.a.id", "y": "kafka_event[0]"}, {"x": 1, "y": 2}),
        (
            {"who": "correlation_id", "which": "received_events[1]"},
            {"who": "corr-1", "which": "kafka_event"},
        ),
        ({"x": "api_response.a.id", "y": "api_response.a"}, {"x": 1, "y": {"id": 1}}),
        ({"x": "api_response.absent", "y": "kafka_event"}, {"y": [2]}),
        ({"x": "no..path"}, {}),
    ],
)
def test_the_output_mapping_is_applied(mapping: dict[str, str], mapped: dict[str, Any]) -> None:
    assert finished(replace(BOTH, output=mapping)).output == mapped


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (b"plain text", "plain text"),
        (b"", ""),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'"\xff"', '"\ufffd"'),
        (b"null", None),
        (b"[" * 5000 + b"]" * 5000, "[" * 5000 + "]" * 5000),
    ],
    ids=["text", "empty", "binary", "bad utf-8 in json", "null", "deep"],
)
def test_bytes_that_are_no_json_come_out_as_text(payload: bytes, value: object) -> None:
    assert finished(api=payload).output["api_response"] == value


def test_a_payload_that_is_gone_is_null() -> None:
    wait: Wait = finished().waiting_or_ended
    assert aggregate(wait, {})["api_response"] == msgspec.Raw(b"null")


def test_every_key_of_our_own_is_reserved() -> None:
    world = SingleCorrelation()
    world.say(register(LENIENT), START)
    world.say(expire(START + 400), START + 400)
    assert world.output.keys() == RESERVED
