"""Which events a subscription takes, and how it may be spelled."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.dispatch.job import ANCHOR, Mode
from core.dispatch.subscription import (
    Binding,
    Signature,
    Subscription,
    SubscriptionSource,
    SubscriptionStatus,
    binding_matches,
    candidate_patterns,
    is_binding_pattern,
    is_code,
    is_spec_version,
    same_delivery,
)
from core.events.event_type import CODE_LENGTH

CREATED = "shop:orders:order:created"

segments = st.sampled_from(["a", "b", "shop", "x-1"])
codes = st.tuples(segments, segments, segments, segments).map(":".join)
others = st.sampled_from(["order.created", "a:b", "a:b:c:d:e", "*", "A:b:c:d", "a:*:b:b"])
wild = st.one_of(segments, st.just("*"))
patterns = st.one_of(
    st.tuples(wild, wild, wild, wild).map(":".join), st.just("*"), codes, others
).filter(is_binding_pattern)


def subscription(**fields: Any) -> Subscription:
    usual = {
        "tenant": 1,
        "subscription_id": "sub_1",
        "code": "orders",
        "name": "Orders",
        "target": "https://example.org/",
        "pool_no": 1,
        "pool_code": "default",
        "bindings": (Binding(CREATED),),
    }
    return Subscription(**usual | fields)


def test_a_subscription_begins_with_the_usual_values() -> None:
    made = subscription()
    assert (made.max_age_seconds, made.delay_seconds, made.sequence) == (86_400, 0, 99)
    assert (made.timeout_seconds, made.max_retries, made.data_only) == (30, 3, True)
    assert (made.mode, made.status, made.source) == (
        Mode.IMMEDIATE,
        SubscriptionStatus.ACTIVE,
        SubscriptionSource.API,
    )
    assert (made.signature, made.version, made.headers) == (Signature.STANDARD, 1, {})


def test_the_anchors_subscriptions_take_the_events_of_every_tenant() -> None:
    assert subscription(tenant=ANCHOR).is_anchors
    assert not subscription().is_anchors


def test_secrets_are_not_printed() -> None:
    auth = {"type": "bearer", "token": "hush-2"}
    assert "hush" not in repr(subscription(headers={"X-Key": "hush-1"}, auth=auth))


@pytest.mark.parametrize(
    ("fields", "alike"),
    [
        ({}, True),
        ({"name": "Other", "description": "other", "queue": "other"}, True),
        ({"target": "https://example.org/other"}, False),
        ({"status": SubscriptionStatus.PAUSED}, False),
        ({"bindings": (Binding(CREATED, "1.0"),)}, False),
        ({"headers": {"X-Key": "other"}}, False),
        ({"auth": {"type": "bearer", "token": "other"}}, False),
    ],
)
def test_words_make_no_difference_to_deliveries(fields: dict[str, Any], alike: bool) -> None:
    assert same_delivery(subscription(), replace(subscription(), **fields)) is alike


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("ab", True),
        ("order-processor-2", True),
        ("a" * 100, True),
        ("a", False),
        ("a" * 101, False),
        ("2nd", False),
        ("-ab", False),
        ("Orders", False),
        ("a_b", False),
        ("ab\n", False),
        ("", False),
    ],
)
def test_codes_are_short_and_plain(text: str, fine: bool) -> None:
    assert is_code(text) is fine


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        (CREATED, True),
        ("shop:*:*:created", True),
        ("*:*:*:*", True),
        ("*", True),
        ("order.created", True),
        ("com.example.Order/Created", True),
        ("x" * CODE_LENGTH, True),
        ("x" * (CODE_LENGTH + 1), False),
        ("", False),
        ("order.*", False),
        ("shop:orders:*", False),
        ("shop:or*:order:created", False),
        ("**", False),
        ("a\nb", False),
    ],
)
def test_a_star_stands_for_one_whole_segment_or_for_everything(text: str, fine: bool) -> None:
    assert is_binding_pattern(text) is fine


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("1.0", True),
        ("1.*", True),
        ("12.34", True),
        ("1", False),
        ("*", False),
        ("*.1", False),
        ("1.0.0", False),
        ("1.0\n", False),
        ("v1.0", False),
    ],
)
def test_a_version_is_exact_or_of_a_major(text: str, fine: bool) -> None:
    assert is_spec_version(text) is fine


def test_a_code_has_seventeen_patterns() -> None:
    found = candidate_patterns(CREATED)
    assert len(found) == len(set(found)) == 17
    assert {CREATED, "*", "*:*:*:*", "shop:*:order:*"} <= set(found)


def test_other_types_are_named_as_they_are_or_by_the_star() -> None:
    assert candidate_patterns("order.created") == ["order.created", "*"]
    assert candidate_patterns("a:b:C:d") == ["a:b:C:d", "*"]
    assert candidate_patterns("*") == ["*"]


@given(pattern=patterns, type_=st.one_of(codes, others))
def test_a_binding_names_exactly_the_types_it_is_looked_for_under(pattern: str, type_: str) -> None:
    assert binding_matches(Binding(pattern), type_, None) == (pattern in candidate_patterns(type_))


@pytest.mark.parametrize(
    ("wanted", "given_version", "taken"),
    [
        (None, None, True),
        (None, "1.0", True),
        ("1.0", "1.0", True),
        ("1.0", "1.1", False),
        ("1.0", "1.00", False),
        ("1.0", None, False),
        ("1.*", "1.0", True),
        ("1.*", "1.17", True),
        ("1.*", "10.0", False),
        ("1.*", "2.0", False),
        ("1.*", None, False),
    ],
)
def test_versions_are_held_against_the_binding(
    wanted: str | None, given_version: str | None, taken: bool
) -> None:
    assert binding_matches(Binding(CREATED, wanted), CREATED, given_version) is taken
    assert not binding_matches(Binding("shop:orders:order:shipped", wanted), CREATED, given_version)


def test_a_segment_may_be_any() -> None:
    assert binding_matches(Binding("shop:*:order:*"), CREATED, None)
    assert not binding_matches(Binding("shop:*:parcel:*"), CREATED, None)
    assert not binding_matches(Binding("shop:*:order:*"), "order.created", None)
