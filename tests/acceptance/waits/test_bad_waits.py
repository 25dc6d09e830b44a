"""Configurations of waits that could never work: one problem document each, never a 500."""

import json
from typing import Any

import pytest

from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import BOTH, Product

pytestmark = pytest.mark.usefixtures("never_a_500")

WAITS = "/api/wait-states"
JSON = {"Content-Type": "application/json"}
THREE: list[dict[str, Any]] = [{"name": name} for name in ("a", "b", "c")]
CALL: dict[str, Any] = {"url": "http://127.0.0.1:9/"}


@pytest.mark.parametrize(
    ("request_body", "fields"),
    [
        ({}, {"data"}),
        ({"data": None}, {"data"}),
        ({"data": [BOTH]}, {"data"}),
        ({"data": BOTH, "typ": "wait_events"}, {"typ"}),
        ({"data": BOTH, "type": "sleep"}, {"type"}),
        ({"data": BOTH | {"timeOut": 3, "retries": 1}}, {"data.timeOut", "data.retries"}),
        ({"data": {"apiCall": CALL | {"urll": "x"}}}, {"data.apiCall.urll"}),
        ({"data": {"kafkaEvent": {"topic": "t", "group": "g"}}}, {"data.kafkaEvent.group"}),
        ({"data": {"events": [{"name": "a", "topik": "t"}]}}, {"data.events[0].topik"}),
    ],
    ids=str,
)
def test_missing_and_unknown_fields_are_named(
    product: Product, request_body: dict[str, Any], fields: set[str]
) -> None:
    reply = product.http.post(WAITS, json=request_body)
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == fields


@pytest.mark.parametrize("timeout", [0, -1, -0.5, "300", True, None, [], 90 * 86_400 + 1, 1e308])
@pytest.mark.parametrize("place", ["timeout", "apiCall.timeout"])
def test_a_bad_timeout_is_422(product: Product, place: str, timeout: Any) -> None:
    if place == "timeout":
        config = BOTH | {"timeout": timeout}
    else:
        config = BOTH | {"apiCall": CALL | {"timeout": timeout}}
    reply = product.http.post(WAITS, json={"data": config})
    if (place, timeout) == ("apiCall.timeout", None):
        assert reply.status_code == 201  # none of its own
        return
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {f"data.{place}"}


@pytest.mark.parametrize("timeout", [b"Infinity", b"-Infinity", b"NaN", b"1e999"])
def test_a_timeout_that_is_no_number_is_422(product: Product, timeout: bytes) -> None:
    body = b'{"data": {"apiCall": {"url": "http://127.0.0.1:9/"}, "timeout": %s}}' % timeout
    reply = product.http.post(WAITS, content=body, headers=JSON)
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {"data.timeout"}


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (BOTH | {"aggregationStrategy": "sometimes"}, "required_only"),
        (BOTH | {"aggregationStrategy": "ALL"}, "required_only"),
        (BOTH | {"onTimeout": "shrug"}, "continue_with_partial"),
        (BOTH | {"aggregationStrategy": "custom"}, "at least one"),
        (BOTH | {"aggregationStrategy": "custom", "requiredEvents": []}, "at least one"),
        (BOTH | {"aggregationStrategy": "custom", "requiredEvents": ["nobody"]}, "nobody"),
        (
            {
                "apiCall": CALL,
                "kafkaEvent": {"enabled": False, "topic": "t"},
                "aggregationStrategy": "custom",
                "requiredEvents": ["api_response", "kafka_event"],
            },
            "kafka_event",
        ),
        (
            BOTH | {"aggregationStrategy": "custom", "requiredEvents": ["api_response"] * 2},
            "repeat",
        ),
        (
            {"apiCall": CALL | {"required": False}, "aggregationStrategy": "required_only"},
            "required: true",
        ),
        ({"events": THREE, "aggregationStrategy": "quorum"}, "between 1 and the 3"),
        ({"events": THREE, "aggregationStrategy": "quorum", "quorum": 4}, "between 1 and the 3"),
        ({"events": THREE, "aggregationStrategy": "quorum", "quorum": 0}, "quorum"),
        ({"events": THREE, "aggregationStrategy": "quorum", "quorum": 1.5}, "quorum"),
        ({"events": THREE, "quorum": 2}, "quorum"),
        ({"events": [THREE[0], THREE[0]]}, "different names"),
        ({"events": [{"name": "api_response"}]}, "apiCall"),
        ({"events": [{"name": "a", "service": "s", "topic": "t"}]}, "not both"),
        ({"events": [{"name": "two words"}]}, "letters, digits"),
        ({"events": [{"name": f"e{i}"} for i in range(101)]}, "100"),
        ({"apiCall": {}}, "url"),
        ({"apiCall": CALL | {"method": "BREW"}}, "method"),
        ({"apiCall": CALL | {"headers": {"a b": "c"}}}, "headers"),
        ({"apiCall": CALL | {"correlationIdField": "a..b"}}, "path"),
        ({"kafkaEvent": {}}, "topic"),
        ({"kafkaEvent": {"topic": "no spaces"}}, "topic"),
        ({"kafkaEvent": {"topic": "t" * 250}}, "249"),
    ],
    ids=lambda value: json.dumps(value)[-40:] if isinstance(value, dict) else value,
)
def test_a_configuration_that_cannot_work_is_422(
    product: Product, config: dict[str, Any], told: str
) -> None:
    problem = assert_problem(product.http.post(WAITS, json={"data": config}), 422, "invalid")
    assert told in json.dumps(problem)


def test_a_registration_that_shards_would_have_to_hold_is_413(product: Product) -> None:
    large = {"data": {"apiCall": CALL | {"body": {"x": [[]] * 30_000}}}}
    reply = product.http.post(WAITS, json=large)
    assert "MUSTER_SPEC_LIMIT" in assert_problem(reply, 413, "too_large")["detail"]
    batch = product.http.post(f"{WAITS}/batch", json={"items": [large, {"data": BOTH}]})
    assert [one["status"] for one in batch.json()["results"]] == [413, 201]
