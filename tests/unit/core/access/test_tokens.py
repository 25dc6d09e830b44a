import base64
import hmac

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.access.tokens import CALLBACK, STREAM, sign, verify
from core.shared.address import Address

ADDRESS = Address(3, "exec-1", "corr-1")
OLD, NEW = b"o" * 32, b"n" * 32
END = 1_763_251_200.0
TOKEN = sign(ADDRESS, END, NEW)


def raw(token: str) -> bytes:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


def spelled(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def holder(token: str, now: float, secrets: list[bytes], purpose: str = CALLBACK) -> Address | None:
    claims = verify(token, now, secrets, purpose)
    return claims.address if claims is not None else None


def test_a_token_speaks_for_its_address() -> None:
    assert holder(TOKEN, END - 1, [NEW]) == ADDRESS


def test_a_token_fits_into_a_url() -> None:
    assert set(TOKEN) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(
    st.integers(1, 2**31),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=255),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=255),
)
def test_any_address_comes_back(tenant: int, execution: str, correlation: str) -> None:
    address = Address(tenant, execution, correlation)
    assert holder(sign(address, END, NEW), END - 1, [NEW]) == address


def test_a_token_may_be_one_source_s_only() -> None:
    for source in ("", "resource-1", "ключ"):
        claims = verify(sign(ADDRESS, END, NEW, source=source), END - 1, [NEW])
        assert claims is not None
        assert (claims.address, claims.source) == (ADDRESS, source)


def test_a_token_from_before_there_were_sources_is_anybody_s() -> None:
    named = [ADDRESS.tenant, ADDRESS.execution_id, ADDRESS.correlation_id]
    claims = msgspec.msgpack.encode([named, int(END)])
    signed = b"muster-callback\x00" + claims
    token = spelled(hmac.digest(NEW, signed, "sha256")[:16] + claims)
    found = verify(token, END - 1, [NEW])
    assert found is not None
    assert (found.address, found.source) == (ADDRESS, "")


# Rotation: sign with the newest secret, accept every live one.


def test_both_secrets_are_accepted_while_both_live() -> None:
    for token in (sign(ADDRESS, END, OLD), sign(ADDRESS, END, NEW)):
        assert holder(token, 0, [NEW, OLD]) == ADDRESS


def test_a_retired_secret_is_not_accepted() -> None:
    assert holder(sign(ADDRESS, END, OLD), 0, [NEW]) is None


def test_without_secrets_nothing_is_accepted() -> None:
    assert holder(TOKEN, 0, []) is None


# Purposes.


def test_a_token_serves_its_purpose_and_no_other() -> None:
    """Whoever may answer may not read, and whoever may read may not answer."""
    stream = sign(ADDRESS, END, NEW, STREAM)
    assert holder(stream, 0, [NEW], STREAM) == ADDRESS
    assert holder(stream, 0, [NEW], CALLBACK) is None
    assert holder(TOKEN, 0, [NEW], STREAM) is None


def test_a_token_is_for_callbacks_unless_it_says_otherwise() -> None:
    assert sign(ADDRESS, END, NEW) == sign(ADDRESS, END, NEW, CALLBACK)
    assert holder(sign(ADDRESS, END, NEW, CALLBACK), 0, [NEW]) == ADDRESS


# Expiry.


@pytest.mark.parametrize(("now", "alive"), [(END - 0.001, True), (END, False), (END + 1, False)])
def test_a_token_ends(now: float, alive: bool) -> None:
    assert (holder(TOKEN, now, [NEW]) is not None) is alive


def test_a_token_lives_at_least_as_long_as_its_wait() -> None:
    token = sign(ADDRESS, 100.4, NEW)
    assert holder(token, 100.39, [NEW]) == ADDRESS
    assert holder(token, 101.0, [NEW]) is None


# Forgery.


@given(st.integers(0, len(raw(TOKEN)) * 8 - 1))
def test_no_bit_can_be_changed(bit: int) -> None:
    data = bytearray(raw(TOKEN))
    data[bit // 8] ^= 1 << bit % 8
    assert holder(spelled(bytes(data)), 0, [NEW, OLD]) is None


@given(st.integers(0, len(raw(TOKEN)) - 1))
def test_no_byte_can_be_left_out(length: int) -> None:
    assert holder(spelled(raw(TOKEN)[:length]), 0, [NEW]) is None


def test_nothing_can_be_added() -> None:
    assert holder(spelled(raw(TOKEN) + b"\x00"), 0, [NEW]) is None


def test_the_signature_of_another_address_is_worth_nothing() -> None:
    other = raw(sign(Address(3, "exec-2", "corr-1"), END, NEW))
    assert holder(spelled(raw(TOKEN)[:16] + other[16:]), 0, [NEW]) is None


def test_a_longer_life_cannot_be_claimed() -> None:
    later = raw(sign(ADDRESS, END + 1000, OLD))
    assert holder(spelled(raw(TOKEN)[:16] + later[16:]), 0, [NEW]) is None


@pytest.mark.parametrize(
    "token",
    ["", "a", "=", "====", "?", "é", "\ud800", "a b", "\x00", "AAAA", "A" * 22, "A" * 10_001],
    ids=lambda token: repr(token[:12]),
)
def test_nonsense_is_no_token(token: str) -> None:
    assert holder(token, 0, [NEW]) is None


@given(st.text())
def test_no_text_breaks_the_check(token: str) -> None:
    assert holder(token, 0, [NEW]) is None


def test_nothing_is_read_before_the_signature_is_known() -> None:
    """Claims nested without end would break the reader's stack."""
    claims = b"\x93\x93\x01\xa1a\xa1b\x01" + b"\x91" * 60_000
    assert holder(spelled(b"0" * 16 + claims), 0, [NEW]) is None
