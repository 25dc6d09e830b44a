"""Credentials of a subscription stay with the origin that they were given for."""

from typing import Any

import pytest

from core.dispatch.subscription import Subscription
from handlers.http.target_check import origin_of
from serve_app.dispatch.subscription_service import check_credentials
from serve_app.http.problems import ProblemError
from tests.support.subscriptions import subscription

KEPT: dict[str, Any] = {"auth": {"type": "bearer", "token": "t"}, "headers": {"X-Key": "k"}}


def at(target: str, **more: Any) -> Subscription:
    return subscription(1, target=target, **more)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.example/x", "https://a.example:443/y?z"),
        ("http://A.example", "http://a.example:80/"),
        ("https://u:p@a.example", "https://a.example/"),
    ],
)
def test_the_same_origin_keeps_them(one: str, other: str) -> None:
    assert origin_of(one) == origin_of(other)
    check_credentials(at(one, **KEPT), at(other, **KEPT), {})


@pytest.mark.parametrize(
    "other",
    [
        "http://a.example/x",
        "https://b.example/x",
        "https://a.example:8443/x",
        "https://a.example@b.example/x",
        "https://a.example.b.example/x",
    ],
)
def test_another_origin_asks_for_all_that_are_not_given(other: str) -> None:
    held = at("https://a.example/x", **KEPT)
    with pytest.raises(ProblemError) as raised:
        check_credentials(held, at(other, **KEPT), {"target": other})
    assert [fault.field for fault in raised.value.problem.field_errors] == ["auth", "headers"]
    with pytest.raises(ProblemError) as raised:
        check_credentials(held, at(other, **KEPT), {"auth": None})
    assert [fault.field for fault in raised.value.problem.field_errors] == ["headers"]
    check_credentials(held, at(other), {"auth": None, "headers": {}})


def test_without_any_there_is_nothing_to_ask_for() -> None:
    check_credentials(at("https://a.example"), at("https://b.example"), {})
