"""Signatures, held against the receivers' own library and against a hash made by hand."""

import hashlib
import hmac
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from core.dispatch.signature import format_secret, parse_secret, sign_classic, sign_standard

OLD, NEW = b"o" * 32, b"n" * 32


@given(st.text(), st.binary(min_size=1, max_size=200))
def test_what_is_signed_is_believed(body: str, secret: bytes) -> None:
    headers = sign_standard([secret], "0JOB", int(time.time()), body.encode())
    Webhook(format_secret(secret)).verify(body.encode(), headers, json_parse=False)
    assert Webhook(secret).sign("0JOB", _at(headers), body) == headers["webhook-signature"]


def _at(headers: dict[str, str]) -> datetime:
    return datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)


def test_while_a_secret_is_replaced_the_old_and_the_new_are_believed() -> None:
    headers = sign_standard([NEW, OLD], "0JOB", int(time.time()), b"{}")
    assert [part[:3] for part in headers["webhook-signature"].split(" ")] == ["v1,", "v1,"]
    for secret in (OLD, NEW):
        assert Webhook(format_secret(secret)).verify(b"{}", headers) == {}
    with pytest.raises(WebhookVerificationError):
        Webhook(format_secret(b"x" * 32)).verify(b"{}", headers)


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "0JOC"},
        {"webhook-timestamp": str(int(time.time()) - 1)},
    ],
)
def test_nothing_that_is_signed_can_be_changed(change: dict[str, str]) -> None:
    headers = sign_standard([NEW], "0JOB", int(time.time()), b"{}")
    Webhook(format_secret(NEW)).verify(b"{}", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(format_secret(NEW)).verify(b"{}", headers | change)
    with pytest.raises(WebhookVerificationError):
        Webhook(format_secret(NEW)).verify(b"{ }", headers)


def test_without_a_secret_nothing_is_signed() -> None:
    assert sign_standard([], "0JOB", 7, b"") == {"webhook-id": "0JOB", "webhook-timestamp": "7"}
    assert sign_classic([], 0.0, b"") == {"X-FLOWCATALYST-TIMESTAMP": "1970-01-01T00:00:00.000Z"}


def test_the_classic_form_is_one_hash_over_time_and_body() -> None:
    headers = sign_classic([NEW, OLD], 1_772_366_400.2509, b'{"n":1}')
    signed = b'2026-03-01T12:00:00.250Z{"n":1}'
    assert headers == {
        "X-FLOWCATALYST-TIMESTAMP": "2026-03-01T12:00:00.250Z",
        "X-FLOWCATALYST-SIGNATURE": hmac.new(OLD, signed, hashlib.sha256).hexdigest(),
    }


def test_a_secret_can_be_shown_and_read() -> None:
    assert format_secret(b"\0" * 24) == "whsec_" + "A" * 32
    assert parse_secret(format_secret(NEW)) == NEW


@pytest.mark.parametrize("text", ["", "AAAA", "whsec_?", "whsec_A", "whsec_ä"])
def test_what_is_no_secret_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a secret"):
        parse_secret(text)
