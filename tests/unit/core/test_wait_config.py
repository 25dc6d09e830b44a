"""Every configuration a user may write, and every one that is refused when it is saved."""

from typing import Any

import pytest
from pydantic import ValidationError

from core.errors import InvalidError
from core.kafka_config import Completions, KafkaConfig
from core.spec import (
    DEFAULT_IDS,
    Expected,
    IdFields,
    Source,
    Strategy,
    TimeoutPolicy,
    WaitSpec,
    decode_spec,
    encode_spec,
)
from core.wait_config import WaitConfig

API: dict[str, Any] = {"enabled": True, "url": "https://api.example.com/process"}
KAFKA: dict[str, Any] = {"enabled": True, "topic": "process.completed"}
OFF: dict[str, Any] = {"enabled": False}
API_EVENT = Expected(name="api_response", source=Source.API)
KAFKA_EVENT = Expected(name="kafka_event", source=Source.KAFKA, label="process.completed")


def spec_of(data: dict[str, Any]) -> WaitSpec:
    return WaitConfig.model_validate(data).to_spec()


def complaints(data: dict[str, Any]) -> dict[str, str]:
    """Where and what is wrong, as an answer to the user would tell it."""
    with pytest.raises(ValidationError) as caught:
        WaitConfig.model_validate(data)
    return {".".join(map(str, error["loc"])): error["msg"] for error in caught.value.errors()}


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
        events=(API_EVENT, KAFKA_EVENT), timeout=300.0, call={"url": API["url"]}
    )
    assert (spec.needed_names, spec.needed[1]) == (["api_response", "kafka_event"], 2)


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
    assert (spec.needed_names, spec.needed[1]) == (["api_response", "kafka_event"], 1)
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
    assert spec.call is None


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
    assert (spec.needed_names, spec.needed[1]) == (["api_response"], 1)


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
            Expected(
                name="api_response",
                source=Source.API,
                timeout=100.0,
                ids=IdFields("meta.ref", "run", "X-Ref", "X-Run"),
            ),
            Expected(
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
        call={
            "url": "https://external-service.com/api/action",
            "method": "PUT",
            "headers": {"Authorization": "Bearer @{_vars.token}"},
            "body": body,
            "responseMode": "sync",
        },
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
    assert spec.call == {"url": "https://x", "body": "<xml/>"}
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
        Expected(name="credit", source=Source.API, label="credit"),
        Expected(name="fraud", source=Source.API, label="risk", filter={"ok": True}),
        Expected(name="paid", source=Source.KAFKA, label="payments", required=False, timeout=5.0),
    )
    assert (spec.strategy, spec.quorum) == (Strategy.QUORUM, 2)


@pytest.mark.parametrize("seconds", [0.001, 1, 2.5, 90 * 86_400])
def test_timeouts_within_the_bounds(seconds: float) -> None:
    assert spec_of({"timeout": seconds}).timeout == seconds


# What is refused.


@pytest.mark.parametrize(
    ("data", "where"),
    [
        ({"aggregationStratgy": "all"}, "aggregationStratgy"),
        ({"apiCall": {**API, "uri": "x"}}, "apiCall.uri"),
        ({"kafkaEvent": {**KAFKA, "partition": 1}}, "kafkaEvent.partition"),
        ({"kafkaEvent": {**KAFKA, "url": "x"}}, "kafkaEvent.url"),
        ({"events": [{"name": "a"}, {"name": "b", "Filter": {}}]}, "events.1.Filter"),
    ],
)
def test_an_unknown_field_is_named(data: dict[str, Any], where: str) -> None:
    assert complaints(data) == {where: "Extra inputs are not permitted"}


def test_several_mistakes_are_all_named() -> None:
    found = complaints({"timeout": 0, "onTimeout": "explode", "apiCall": {"bogus": 1, "url": 5}})
    assert found.keys() == {"timeout", "onTimeout", "apiCall.bogus", "apiCall.url"}


@pytest.mark.parametrize(
    "timeout",
    [0, -1, 90 * 86_400 + 1, float("inf"), float("nan"), "300", "soon", True, None, [], 10**400],
    ids=lambda value: str(value)[:12],
)
@pytest.mark.parametrize("where", ["timeout", "apiCall.timeout", "kafkaEvent.timeout"])
def test_bad_timeouts(timeout: object, where: str) -> None:
    if where == "timeout":
        assert complaints({"timeout": timeout}).keys() == {where}
    elif timeout is not None:
        block = where.partition(".")[0]
        data = {"apiCall": API, "kafkaEvent": KAFKA}
        data[block] = {**data[block], "timeout": timeout}
        assert complaints(data).keys() == {where}


@pytest.mark.parametrize("strategy", ["some", "ALL", "", None, 1])
def test_unknown_strategies(strategy: object) -> None:
    found = complaints({"aggregationStrategy": strategy})
    assert "'all', 'any', 'required_only', 'custom'" in found["aggregationStrategy"]


@pytest.mark.parametrize("policy", ["abort", "", None])
def test_unknown_policies(policy: object) -> None:
    assert complaints({"onTimeout": policy}).keys() == {"onTimeout"}


BOTH = {"apiCall": API, "kafkaEvent": KAFKA}


@pytest.mark.parametrize(
    ("data", "where", "what"),
    [
        ({"apiCall": {}}, "apiCall", "url is required while apiCall is enabled"),
        ({"apiCall": {"url": ""}}, "apiCall", "url is required while apiCall is enabled"),
        ({"kafkaEvent": {}}, "kafkaEvent", "topic is required while kafkaEvent is enabled"),
        (
            {**BOTH, "aggregationStrategy": "custom"},
            "",
            "requiredEvents must list at least one event",
        ),
        (
            {**BOTH, "aggregationStrategy": "custom", "requiredEvents": []},
            "",
            "requiredEvents must list at least one event",
        ),
        (
            {**BOTH, "aggregationStrategy": "custom", "requiredEvents": ["sms", "api_response"]},
            "",
            "requiredEvents names sms, which is not enabled",
        ),
        (
            {
                "apiCall": API,
                "kafkaEvent": OFF,
                "aggregationStrategy": "custom",
                "requiredEvents": ["kafka_event"],
            },
            "",
            "requiredEvents names kafka_event, which is not enabled",
        ),
        (
            {
                **BOTH,
                "aggregationStrategy": "custom",
                "requiredEvents": ["api_response", "api_response"],
            },
            "",
            "requiredEvents must not repeat a name",
        ),
        ({"requiredEvents": ["\ud800"]}, "requiredEvents.0", "unicode"),
        (
            {"apiCall": {**API, "required": False}, "aggregationStrategy": "required_only"},
            "",
            "strategy required_only needs an event with required: true",
        ),
        ({**BOTH, "aggregationStrategy": "quorum"}, "", "between 1 and the 2 enabled events"),
        (
            {**BOTH, "aggregationStrategy": "quorum", "quorum": 3},
            "",
            "between 1 and the 2 enabled events",
        ),
        ({**BOTH, "aggregationStrategy": "quorum", "quorum": 0}, "quorum", "greater than"),
        ({**BOTH, "aggregationStrategy": "quorum", "quorum": True}, "quorum", "valid integer"),
        ({**BOTH, "quorum": 1}, "", "quorum goes with aggregationStrategy quorum only"),
        ({"events": [{"name": "a"}, {"name": "a"}]}, "", "events must have different names"),
        (
            {"events": [{"name": "a", "service": "s", "topic": "t"}]},
            "events.0",
            "give service or topic, not both",
        ),
        (
            {"events": [{"name": "api_response"}]},
            "events.0",
            "api_response is configured by apiCall or kafkaEvent",
        ),
        (
            {"events": [{"name": "received_events"}]},
            "events.0",
            "received_events has a meaning of its own in the output",
        ),
        ({"events": [{"name": "a b"}]}, "events.0.name", "pattern"),
        ({"events": [{"service": "s"}]}, "events.0.name", "required"),
        ({"events": [{"name": f"n{n}"} for n in range(101)]}, "events", "at most 100"),
        ({"kafkaEvent": {"topic": "no spaces"}}, "kafkaEvent.topic", "pattern"),
        ({"completionTopic": "a:b:c:d"}, "completionTopic", "pattern"),
        ({"kafkaEvent": {"topic": "t" * 250}}, "kafkaEvent.topic", "at most 249"),
        ({"apiCall": {**API, "method": "PATCH"}}, "apiCall.method", "'GET'"),
        ({"apiCall": {**API, "responseMode": "later"}}, "apiCall.responseMode", "'callback'"),
        (
            {"apiCall": {**API, "headers": {"bad name": "x"}}},
            "apiCall.headers.bad name.[key]",
            "pattern",
        ),
        (
            {"apiCall": {**API, "correlationIdField": "a..b"}},
            "apiCall.correlationIdField",
            "must be a field name or a path",
        ),
        (
            {"kafkaEvent": {**KAFKA, "executionIdField": "a["}},
            "kafkaEvent.executionIdField",
            "must be a field name or a path",
        ),
        (
            {"apiCall": {**API, "correlationIdHeader": "X Ref"}},
            "apiCall.correlationIdHeader",
            "pattern",
        ),
        ({"outputMapping": {"x": ""}}, "outputMapping.x", "at least 1"),
        (
            {"kafkaEvent": {**KAFKA, "filter": {"a": "\ud800"}}},
            "kafkaEvent.filter",
            "surrogate",
        ),
        (
            {"kafkaEvent": {**KAFKA, "filter": {"a": 2**70}}},
            "kafkaEvent.filter",
            "more than 64 bits",
        ),
        ({"kafkaEvent": {**KAFKA, "filter": ["a"]}}, "kafkaEvent.filter", "dictionary"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refused_when_saved(data: dict[str, Any], where: str, what: str) -> None:
    found = complaints(data)
    assert where in found, found
    assert what in found[where]


def test_a_body_nested_without_end_is_refused() -> None:
    """It would pass here and break the stack of whoever reads it back."""
    body: dict[str, Any] = {}
    for _ in range(3000):
        body = {"a": body}
    found = complaints({"apiCall": {**API, "body": body}})
    assert any("nested deeper than 32 levels" in what for what in found.values())


KAFKA_ON = KafkaConfig(bootstrap="k:1")
FOR_ALL = KafkaConfig(bootstrap="k:1", completions=Completions.ALL, completion_topic="ends")


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
