from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.dispatch.headers import (
    authorization_header,
    custom_headers,
    encode_header_value,
    is_settable,
    merge_headers,
    plain_header_value,
    settable_headers,
)


@pytest.mark.parametrize("name", ["X-Own", "x-own", "Authorization", "User-Agent", "Accept", "a"])
def test_what_may_be_set(name: str) -> None:
    assert is_settable(name)


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "content-length",
        "Content-Type",
        "Content-Encoding",
        "Transfer-Encoding",
        "Connection",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "Proxy-Authorization",
        "Idempotency-Key",
        "webhook-id",
        "Webhook-Signature",
        "WEBHOOK-ANYTHING",
        "X-Muster-Job-Id",
        "x-flowcatalyst-signature",
        "ce-id",
        "",
        "two words",
        "X-A\r\nX-B",
        "X:Y",
        "Ünicode",
        "x" * 201,
    ],
)
def test_what_is_ours_or_of_the_connection_or_no_name_may_not(name: str) -> None:
    assert not is_settable(name)
    assert settable_headers({name: "1"}) == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("order/4711", "order/4711"),
        ("", ""),
        ("Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
        ('100 % "sure"', "100%20%25%20%22sure%22"),
        ("a\r\nX-B: b", "a%0D%0AX-B:%20b"),
        ("\0\x7f", "%00%7F"),
        ("\ud800", "%3F"),
    ],
)
def test_a_fact_is_written_as_cloud_events_has_it(text: str, value: str) -> None:
    assert encode_header_value(text) == value


@given(st.text())
def test_every_fact_is_safe_and_can_be_read(text: str) -> None:
    value = encode_header_value(text)
    assert all("\x21" <= letter <= "\x7e" for letter in value)
    assert unquote(value) == text.encode(errors="replace").decode()


@given(st.text())
def test_every_value_is_safe_and_what_is_safe_stays(text: str) -> None:
    value = plain_header_value(text)
    assert all("\x20" <= letter <= "\x7e" for letter in value)
    assert plain_header_value(value) == value


def test_of_two_spellings_the_last_is_kept() -> None:
    assert settable_headers({"X-A": "1", "x-a": "2", "X-B": "ä\n"}) == {
        "x-a": "2",
        "X-B": "%C3%A4%0A",
    }
    assert merge_headers({"X-A": "1", "x-b": "1"}, {"X-B": "2"}) == {"X-A": "1", "X-B": "2"}


@pytest.mark.parametrize(
    ("auth", "value"),
    [
        (None, None),
        ({"type": "bearer", "token": "t0ken"}, "Bearer t0ken"),
        ({"type": "bearer", "token": "t\r\nX: y"}, "Bearer t%0D%0AX: y"),
        ({"type": "basic", "username": "Ann", "password": "pä:ss"}, "Basic QW5uOnDDpDpzcw=="),
        ({"type": "basic", "username": "Ann"}, None),
        ({"type": "digest"}, None),
        ({}, None),
    ],
)
def test_who_calls_is_shown(auth: dict[str, str] | None, value: str | None) -> None:
    assert authorization_header(auth) == value


def test_who_calls_stands_above_a_header_of_that_name() -> None:
    auth = {"type": "bearer", "token": "t"}
    assert custom_headers({"authorization": "mine", "X-A": "1"}, auth) == {
        "X-A": "1",
        "Authorization": "Bearer t",
    }
    assert custom_headers({"authorization": "mine"}, None) == {"authorization": "mine"}
    assert custom_headers({}, None) == {}
    assert custom_headers({}, auth) == {"Authorization": "Bearer t"}
