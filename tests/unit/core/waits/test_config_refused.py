"""Every configuration that is refused when it is saved, with what is wrong and where."""

from typing import Any

import pytest
from pydantic import ValidationError

from core.waits.config import WaitConfig
from tests.unit.core.waits.config_examples import API, KAFKA, OFF


def complaints(data: dict[str, Any]) -> dict[str, str]:
    """Where and what is wrong, as an answer to the user would tell it."""
    with pytest.raises(ValidationError) as caught:
        WaitConfig.model_validate(data)
    return {".".join(map(str, error["loc"])): error["msg"] for error in caught.value.errors()}


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
            "received_events is a reserved key of the output",
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
            {"apiCall": {**API, "correlationIdField": "a\x00b"}},
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
