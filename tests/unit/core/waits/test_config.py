"""Every configuration a user may write, and what it asks for."""

from typing import Any

import msgspec
import pytest

from core.shared.errors import InvalidError
from core.shared.kafka_config import CompletionPolicy, KafkaConfig
from core.waits.config import MASK, WaitConfig
from core.waits.spec import (
    DEFAULT_IDS,
    NO_CALL,
    ExpectedEvent,
    IdFields,
    Source,
    Strategy,
    TimeoutPolicy,
    WaitSpec,
    decode_spec,
    encode_spec,
)
from tests.unit.core.waits.config_examples import API, KAFKA, OFF

API_EVENT = ExpectedEvent(name="api_response", source=Source.API)
KAFKA_EVENT = ExpectedEvent(name="kafka_event", source=Source.KAFKA, label="process.completed")


def call_of(document: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(document))


def spec_of(data: dict[str, Any]) -> WaitSpec:
    return WaitConfig.model_validate(data).to_spec()


# The five examples.


def test_example_1_wait_for_both_events() -> None:
    spec = spec_of(
        {
            "apiCall": {**API, "method": "POST", "required": True},
            "kafkaEvent": {**KAFKA, "required": True},
            "aggregationStrategy": "all",
            "timeout": 300,
        }
    )
    assert spec == WaitSpec(
        events=(API_EVENT, KAFKA_EVENT), timeout=300.0, call=call_of({"url": API["url"]})
    )
    assert (spec.needed_names, spec.needed_slots[1]) == (["api_response", "kafka_event"], 2)


def test_example_2_wait_for_any_event() -> None:
    spec = spec_of(
        {
            "apiCall": {**API, "required": False},
            "kafkaEvent": {**KAFKA, "required": False},
            "aggregationStrategy": "any",
            "timeout": 300,
        }
    )
    assert spec.strategy is Strategy.ANY
    assert (spec.needed_names, spec.needed_slots[1]) == (["api_response", "kafka_event"], 1)
    assert [event.required for event in spec.events] == [False, False]


def test_example_3_only_the_api_call() -> None:
    spec = spec_of(
        {
            "apiCall": {**API, "required": True},
            "kafkaEvent": OFF,
            "aggregationStrategy": "all",
            "timeout": 300,
        }
    )
    assert spec.events == (API_EVENT,)


def test_example_4_only_the_kafka_event() -> None:
    spec = spec_of(
        {
            "apiCall": OFF,
            "kafkaEvent": {**KAFKA, "required": True},
            "aggregationStrategy": "all",
            "timeout": 300,
        }
    )
    assert spec.events == (KAFKA_EVENT,)
    assert spec.call == NO_CALL


def test_example_5_custom_strategy() -> None:
    spec = spec_of(
        {
            "apiCall": {**API, "required": True},
            "kafkaEvent": {**KAFKA, "required": False},
            "aggregationStrategy": "custom",
            "requiredEvents": ["api_response"],
            "timeout": 300,
        }
    )
    assert spec.listed == ("api_response",)
    assert (spec.needed_names, spec.needed_slots[1]) == (["api_response"], 1)


def test_what_headers_of_the_call_say_is_kept_only_where_it_is_a_template() -> None:
    headers = {"Authorization": "Bearer hunter2", "X-Run": "@{_execution.id}"}
    spec = spec_of({"apiCall": {"url": "https://example.org", "headers": headers}})
    call = msgspec.json.decode(spec.call or b"{}")
    assert call["headers"] == {"Authorization": MASK, "X-Run": "@{_execution.id}"}
    assert "hunter2" not in spec.text


def test_the_whole_node_configuration() -> None:
    body = {"action": "@{_trigger.action}", "execution_id": "@{_execution.id}"}
    spec = spec_of(
        {
            "apiCall": {
                "enabled": True,
                "url": "https://external-service.com/api/action",
                "method": "PUT",
                "headers": {"Authorization": "Bearer @{_vars.token}"},
                "body": body,
                "correlationIdField": "meta.ref",
                "correlationIdHeader": "X-Ref",
                "executionIdField": "run",
                "executionIdHeader": "X-Run",
                "responseMode": "sync",
                "timeout": 100,
                "required": True,
            },
            "kafkaEvent": {
                "enabled": True,
                "topic": "external-service.events",
                "correlationIdField": "correlation_id",
                "executionIdField": "execution_id",
                "filter": {"event_type": "action.completed"},
                "timeout": 200.5,
                "required": False,
            },
            "aggregationStrategy": "all",
            "requiredEvents": ["api_response", "kafka_event"],
            "timeout": 300,
            "onTimeout": "continue_with_partial",
            "outputMapping": {"apiResponse": "api_response", "kafkaEvent": "kafka_event.data[0]"},
        }
    )
    assert spec == WaitSpec(
        events=(
            ExpectedEvent(
                name="api_response",
                source=Source.API,
                timeout=100.0,
                ids=IdFields("meta.ref", "run", "X-Ref", "X-Run"),
            ),
            ExpectedEvent(
                name="kafka_event",
                source=Source.KAFKA,
                label="external-service.events",
                required=False,
                timeout=200.5,
                filter={"event_type": "action.completed"},
            ),
        ),
        timeout=300.0,
        on_timeout=TimeoutPolicy.CONTINUE_WITH_PARTIAL,
        output={"apiResponse": "api_response", "kafkaEvent": "kafka_event.data[0]"},
        call=call_of(
            {
                "url": "https://external-service.com/api/action",
                "method": "PUT",
                "headers": {"Authorization": "Bearer @{_vars.token}"},
                "body": body,
                "responseMode": "sync",
            }
        ),
    )
    assert decode_spec(encode_spec(spec)) == spec


# What else is accepted.


def test_defaults() -> None:
    spec = spec_of({"apiCall": {"url": "https://x"}, "kafkaEvent": {"topic": "t"}})
    assert (spec.strategy, spec.timeout, spec.on_timeout) == ("all", 300.0, "fail")
    assert all(event.required and event.ids == DEFAULT_IDS for event in spec.events)
    assert all(event.timeout is None for event in spec.events)


def test_an_event_that_is_posted_is_awaited_by_its_type() -> None:
    label = "shop:orders:order:paid"
    spec = spec_of({"kafkaEvent": {"topic": label}, "events": [{"name": "x", "topic": label}]})
    assert {event.label for event in spec.events} == {label}


@pytest.mark.parametrize("data", [{}, {"apiCall": OFF, "kafkaEvent": OFF}])
@pytest.mark.parametrize("strategy", ["all", "any", "required_only", "settled"])
def test_nothing_to_wait_for_is_allowed(data: dict[str, Any], strategy: str) -> None:
    assert spec_of({**data, "aggregationStrategy": strategy}).events == ()


def test_a_string_body_and_names_in_snake_case() -> None:
    spec = spec_of({"api_call": {"url": "https://x", "body": "<xml/>"}, "on_timeout": "continue"})
    assert spec.call == call_of({"url": "https://x", "body": "<xml/>"})
    assert spec.on_timeout is TimeoutPolicy.CONTINUE


def test_named_events_and_where_they_come_from() -> None:
    spec = spec_of(
        {
            "events": [
                {"name": "credit"},
                {"name": "fraud", "service": "risk", "filter": {"ok": True}},
                {"name": "paid", "topic": "payments", "required": False, "timeout": 5},
                {"name": "later", "enabled": False},
            ],
            "aggregationStrategy": "quorum",
            "quorum": 2,
        }
    )
    assert spec.events == (
        ExpectedEvent(name="credit", source=Source.API, label="credit"),
        ExpectedEvent(name="fraud", source=Source.API, label="risk", filter={"ok": True}),
        ExpectedEvent(
            name="paid", source=Source.KAFKA, label="payments", required=False, timeout=5.0
        ),
    )
    assert (spec.strategy, spec.quorum) == (Strategy.QUORUM, 2)


@pytest.mark.parametrize("seconds", [0.001, 1, 2.5, 90 * 86_400])
def test_timeouts_within_the_bounds(seconds: float) -> None:
    assert spec_of({"timeout": seconds}).timeout == seconds


# Who is told of the end.

KAFKA_ON = KafkaConfig(bootstrap="k:1")
FOR_ALL = KafkaConfig(bootstrap="k:1", completions=CompletionPolicy.ALL, completion_topic="ends")


@pytest.mark.parametrize(
    ("wish", "kafka", "topic"),
    [
        ({}, None, None),
        ({}, KAFKA_ON, None),
        ({}, FOR_ALL, "ends"),
        ({"publishCompletion": False}, FOR_ALL, None),
        ({"publishCompletion": False}, None, None),
        ({"publishCompletion": True}, KAFKA_ON, "muster.correlation.completed"),
        ({"completionTopic": "mine"}, KAFKA_ON, "mine"),
        ({"completionTopic": "mine"}, FOR_ALL, "mine"),
    ],
)
def test_who_is_told_of_the_end(
    wish: dict[str, Any], kafka: KafkaConfig | None, topic: str | None
) -> None:
    assert WaitConfig.model_validate({"apiCall": API, **wish}).published_to(kafka) == topic


def test_telling_kafka_needs_kafka() -> None:
    config = WaitConfig.model_validate({"apiCall": API, "publishCompletion": True})
    with pytest.raises(InvalidError, match="MUSTER_KAFKA_BOOTSTRAP"):
        config.published_to(None)
