"""The preview of idempotency keys on the running product."""

from typing import Any

import pytest

from tests.acceptance.triggers.idempotency_isolation import PREVIEW
from tests.support.problem import assert_problem
from tests.support.product import Product
from tests.support.tenants import client, create_key

# The settings of the three examples that the how-to has.
ENROLLMENT = {
    "strategy": "CONTEXT_BASED",
    "contextFields": ["userId", "sessionId"],
    "failOnMissingContext": True,
}
CREDENTIALS = {"strategy": "CONTEXT_TIME_WINDOW", "contextFields": ["userId"], "ttlMinutes": 1440}
BATCHES = {"strategy": "TIME_WINDOW", "ttlMinutes": 5}


def preview(product: Product, settings: dict[str, Any], *events: dict[str, Any]) -> Any:
    body = {"settings": settings, "triggerId": "t7", "events": list(events)}
    reply = product.http.post(PREVIEW, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()["items"]


def enrolled(**context: str) -> dict[str, Any]:
    return {"eventName": "LEARNER_BATCH_ENROLLMENT", "context": context}


def test_a_user_is_enrolled_once_in_each_session(product: Product) -> None:
    [found] = preview(
        product,
        ENROLLMENT,
        enrolled(userId="u1", sessionId="s1"),
        enrolled(userId="u1", sessionId="s2"),
        enrolled(userId="u1", sessionId="s1"),
        enrolled(userId="u1"),
    )
    assert (found["starts"], found["duplicates"], found["skipped"]) == (2, 1, 1)
    assert found["keys"][0]["key"] == "trigger_t7_userId_u1_sessionId_s1"
    assert [one.get("duplicateOf") for one in found["keys"]] == [None, None, 0, None]
    assert found["keys"][3] == {"skipped": "the context has no value for sessionId"}


def test_credentials_are_sent_once_a_day(product: Product) -> None:
    times = ("2026-03-01T23:59:59Z", "2026-03-02T00:00:00Z", "2026-03-02T23:59:59.999Z")
    events = [{"context": {"userId": "u1"}, "at": at} for at in times]
    [found] = preview(product, CREDENTIALS, *events)
    assert [one.get("duplicateOf") for one in found["keys"]] == [None, None, 1]
    [sliding] = preview(product, CREDENTIALS | {"window": "SLIDING"}, *events)
    assert [one.get("duplicateOf") for one in sliding["keys"]] == [None, 0, None]


def test_the_first_is_the_earliest_in_whatever_order_they_are_listed(product: Product) -> None:
    times = ("2026-03-01T09:04:00Z", "2026-03-01T09:01:00Z", "2026-03-01T09:05:00Z")
    [found] = preview(product, BATCHES, *({"at": at} for at in times))
    assert [one.get("duplicateOf") for one in found["keys"]] == [1, None, None]


def test_every_strategy_is_tried_where_none_is_named(product: Product) -> None:
    event = {"eventId": "e1", "context": {"userId": "u1"}}
    items = preview(product, {"ttlMinutes": 5, "contextFields": ["userId"]}, event, event)
    outcome = {one["strategy"]: one.get("error") or one["starts"] for one in items}
    assert outcome == {
        "NONE": 2,
        "UUID": 2,
        "TIME_WINDOW": 1,
        "CONTEXT_BASED": 1,
        "CONTEXT_TIME_WINDOW": 1,
        "EVENT_BASED": "settings: EVENT_BASED needs includeEventType or includeEventId",
        "CUSTOM_EXPRESSION": "settings: CUSTOM_EXPRESSION needs customExpression",
    }


@pytest.mark.parametrize(
    ("settings", "field", "says"),
    [
        ({"strategy": "TIME_WINDOW"}, "settings", "TIME_WINDOW needs ttlMinutes"),
        ({"strategy": "TIME_WINDOW", "ttlMinutes": -1}, "settings.ttlMinutes", "greater than 0"),
        ({"strategy": "X"}, "settings.strategy", "'NONE', 'UUID'"),
        (
            {"strategy": "CUSTOM_EXPRESSION", "customExpression": "#{now}"},
            "settings.customExpression",
            "now cannot be part of a key",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(
    product: Product, settings: dict[str, Any], field: str, says: str
) -> None:
    reply = product.http.post(PREVIEW, json={"settings": settings, "events": [{}]})
    [fault] = assert_problem(reply, 422, "invalid")["errors"]
    assert fault["field"] == field
    assert says in fault["expected"]


def test_the_preview_needs_its_permission(product: Product) -> None:
    body: dict[str, Any] = {"settings": {}, "events": [{}]}
    for permission, status in (("records:read", 403), ("workflows:read", 200)):
        with client(product, create_key(product, [permission])["key"]) as caller:
            assert caller.post(PREVIEW, json=body).status_code == status
