"""Keys as the strategies make them: the format, the windows, and what never collides."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.triggers.idempotency_key import (
    DAY_MS,
    MAX_KEY_CHARS,
    IdempotencyKey,
    NoIdempotencyKeyError,
    TriggerEvent,
    make_key,
)
from core.triggers.idempotency_settings import IdempotencySettings
from core.triggers.key_expression import compile_key_expression
from handlers.filters.expressions import compile_expression

TENANT = 5
UUID = "0b1c2d3e-0000-4000-8000-000000000000"
MINUTE = 60_000
# 2026-01-05 09:07 UTC.
AT_9_07 = 1_767_604_020_000
AT_9_00 = AT_9_07 - 7 * MINUTE
CONTEXT = {"userId": "u1", "packageId": "p2", "nested": {"id": 7}, "roleId": "r", "n": None}
EVENT = TriggerEvent("7", "ENROLLED", "e9", CONTEXT)


def key(
    settings: dict[str, Any],
    event: TriggerEvent = EVENT,
    now_ms: int = AT_9_07,
    tenant: int = TENANT,
) -> IdempotencyKey:
    read = IdempotencySettings.model_validate(settings)
    text = read.custom_expression
    expression = None if text is None else compile_key_expression(text, compile_expression)
    return make_key(tenant, read, event, now_ms, UUID, expression)


def context_key(value: Any) -> IdempotencyKey:
    settings = {"strategy": "CONTEXT_BASED", "contextFields": ["a", "b"]}
    return key(settings, TriggerEvent("7", context=value))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"strategy": "NONE"}, UUID),
        ({"strategy": "UUID"}, UUID),
        ({}, UUID),
        ({"strategy": "TIME_WINDOW", "ttlMinutes": 15}, f"trigger_7_{AT_9_00}"),
        (
            {"strategy": "TIME_WINDOW", "ttlMinutes": 15, "includeTriggerId": False},
            f"{AT_9_00}",
        ),
        ({"strategy": "CONTEXT_BASED", "contextFields": ["userId"]}, "trigger_7_userId_u1"),
        (
            {"strategy": "CONTEXT_BASED", "contextFields": ["userId", "packageId", "nested.id"]},
            "trigger_7_userId_u1_packageId_p2_nested.id_7",
        ),
        (
            {
                "strategy": "CONTEXT_BASED",
                "contextFields": ["userId", "gone", "n"],
                "includeTriggerId": False,
            },
            "userId_u1_gone_null_n_null",
        ),
        (
            {"strategy": "CONTEXT_TIME_WINDOW", "contextFields": ["userId"], "ttlMinutes": 60},
            f"trigger_7_userId_u1_{AT_9_00}",
        ),
        (
            {
                "strategy": "CONTEXT_TIME_WINDOW",
                "contextFields": ["userId"],
                "ttlMinutes": 60,
                "window": "SLIDING",
            },
            "trigger_7_userId_u1",
        ),
        (
            {"strategy": "EVENT_BASED", "includeEventType": True, "includeEventId": True},
            "trigger_7_eventType_ENROLLED_eventId_e9",
        ),
        ({"strategy": "EVENT_BASED", "includeEventId": True}, "trigger_7_eventId_e9"),
        ({"strategy": "EVENT_BASED", "includeEventType": True}, "trigger_7_eventType_ENROLLED"),
        (
            {
                "strategy": "CUSTOM_EXPRESSION",
                "customExpression": "#{triggerId}_#{ctx['roleId']}_#{ctx['organizationId']}",
            },
            "7_r_null",
        ),
        (
            {"strategy": "CUSTOM_EXPRESSION", "customExpression": "#ctx['roleId'] + '#' + userId"},
            "r#u1",
        ),
        (
            {
                "strategy": "CUSTOM_EXPRESSION",
                "customExpression": "#{eventName}.#{eventId}}",
                "ttlMinutes": 0.5,
            },
            f"ENROLLED.e9}}_{AT_9_07}",
        ),
    ],
)
def test_the_key_that_people_read(settings: dict[str, Any], text: str) -> None:
    assert key(settings).text == text


@pytest.mark.parametrize("strategy", ["NONE", "UUID"])
def test_without_duplicates_nothing_is_kept(strategy: str) -> None:
    assert key({"strategy": strategy}) == IdempotencyKey(UUID, None, None)


def test_missing_parts_of_an_event_are_null() -> None:
    settings = {"strategy": "EVENT_BASED", "includeEventType": True, "includeEventId": True}
    assert key(settings, TriggerEvent("7")).text == "trigger_7_eventType_null_eventId_null"


def test_an_underscore_at_the_end_is_left_out_of_the_text_only() -> None:
    settings = {"strategy": "CONTEXT_BASED", "contextFields": ["userId"]}
    ends, plain = (key(settings, TriggerEvent("7", context={"userId": one})) for one in ("a_", "a"))
    assert ends.text == plain.text == "trigger_7_userId_a"
    assert ends.digest != plain.digest


@pytest.mark.parametrize(
    ("minutes", "begin", "same"),
    [
        (14, AT_9_00, True),
        (15, AT_9_00, False),
        (23, AT_9_00, False),
        (-1, AT_9_00, False),
    ],
)
def test_windows_begin_at_multiples_of_their_length(minutes: int, begin: int, same: bool) -> None:
    settings = {"strategy": "TIME_WINDOW", "ttlMinutes": 15}
    first, second = key(settings, now_ms=begin), key(settings, now_ms=begin + minutes * MINUTE)
    assert (first.digest == second.digest) is same


@pytest.mark.parametrize(
    ("settings", "expires_at"),
    [
        ({"strategy": "TIME_WINDOW", "ttlMinutes": 15}, AT_9_00 + 15 * MINUTE + DAY_MS),
        (
            {"strategy": "TIME_WINDOW", "ttlMinutes": 15, "window": "SLIDING"},
            AT_9_07 + 15 * MINUTE,
        ),
        ({"strategy": "CONTEXT_BASED", "contextFields": ["userId"]}, AT_9_07 + 90 * DAY_MS),
        (
            {"strategy": "CONTEXT_BASED", "contextFields": ["userId"], "keepDays": 1},
            AT_9_07 + DAY_MS,
        ),
        ({"strategy": "CONTEXT_BASED", "contextFields": ["x"], "keepDays": "forever"}, None),
    ],
)
def test_when_a_key_can_go(settings: dict[str, Any], expires_at: int | None) -> None:
    assert key(settings).expires_at_ms == expires_at


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "x_b_y", "b": "z"}, {"a": "x", "b": "y_b_z"}),
        ({"a": 1}, {"a": "1"}),
        ({"a": None}, {"a": "null"}),
        ({"a": True}, {"a": 1}),
        ({"a": {"x": 1}}, {"a": '{"x":1}'}),
    ],
)
def test_values_that_differ_have_different_digests(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert context_key(one).digest != context_key(other).digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1.0}, {"a": 1}),
        ({"a": [{"x": 2.0, "y": 1.5}]}, {"a": [{"y": 1.5, "x": 2}]}),
        ({"a": None}, {}),
    ],
)
def test_values_that_are_equal_have_one_key(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert context_key(one) == context_key(other)


json_values = st.none() | st.booleans() | st.integers(-5, 5) | st.text("a_1b", max_size=4)


@given(json_values, json_values, json_values, json_values)
def test_digests_are_equal_for_equal_values_only(a: Any, b: Any, c: Any, d: Any) -> None:
    same = (a, b) == (c, d) and (type(a), type(b)) == (type(c), type(d))
    first, second = context_key({"a": a, "b": b}), context_key({"a": c, "b": d})
    assert (first.digest == second.digest) is same


def test_triggers_strategies_and_tenants_have_keys_of_their_own() -> None:
    settings = {"strategy": "EVENT_BASED", "includeEventId": True}
    shared = settings | {"includeTriggerId": False}
    other = EVENT._replace(trigger_id="8")
    assert key(settings).digest != key(settings, other).digest
    assert key(shared).digest == key(shared, other).digest
    assert key(shared).digest != key(shared, tenant=6).digest


def test_a_long_key_is_cut_and_ends_with_its_digest() -> None:
    settings = {"strategy": "CONTEXT_BASED", "contextFields": ["a"]}
    made = [key(settings, TriggerEvent("7", context={"a": "x" * 300 + end})) for end in "yz"]
    assert [len(one.text) for one in made] == [MAX_KEY_CHARS, MAX_KEY_CHARS]
    assert made[0].digest is not None
    assert made[0].text.endswith(f"…{made[0].digest.hex()}")
    assert made[0].text != made[1].text


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {
                "strategy": "CONTEXT_BASED",
                "contextFields": ["userId", "gone"],
                "failOnMissingContext": True,
            },
            "the context has no value for gone",
        ),
        (
            {"strategy": "CUSTOM_EXPRESSION", "customExpression": "ctx['gone']"},
            "the custom expression is null for this event",
        ),
        (
            {
                "strategy": "CUSTOM_EXPRESSION",
                "customExpression": "#{ctx['gone']}!",
                "failOnMissingContext": True,
            },
            "the custom expression is null for this event",
        ),
        (
            {"strategy": "CUSTOM_EXPRESSION", "customExpression": "1 / 0"},
            "the custom expression has no value: character 3: division by zero",
        ),
    ],
)
def test_events_without_a_key_say_why(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(NoIdempotencyKeyError) as caught:
        key(settings)
    assert str(caught.value) == says


@pytest.mark.parametrize("value", ["\ud800", [{"a": "\udfff"}]])
def test_values_that_no_document_can_hold_make_no_key(value: Any) -> None:
    with pytest.raises(NoIdempotencyKeyError, match="a value cannot be part of a key"):
        context_key({"a": value})


def test_a_custom_expression_has_to_be_compiled() -> None:
    settings = IdempotencySettings.model_validate(
        {"strategy": "CUSTOM_EXPRESSION", "customExpression": "userId"}
    )
    with pytest.raises(NoIdempotencyKeyError, match="the custom expression cannot be used"):
        make_key(TENANT, settings, EVENT, AT_9_07, UUID)
