import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.shared.address import (
    ID_LENGTH,
    Address,
    check_id,
    correlation_id_for_node,
    correlation_prefix,
    shard_of,
)

ids = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20)
addresses = st.builds(Address, st.integers(1, 2**31), ids, ids)


def test_the_scoped_id_names_both_ids() -> None:
    assert Address(1, "exec-1", "corr-1").scoped_id == "exec-1:corr-1"


@given(addresses)
def test_a_key_is_sixteen_bytes_and_always_the_same(address: Address) -> None:
    assert len(address.key) == 16
    assert address.key == Address(address.tenant, address.execution_id, address.correlation_id).key


@given(addresses, addresses)
def test_different_addresses_have_different_keys(one: Address, other: Address) -> None:
    assert (one.key == other.key) is (one == other)


def test_parts_cannot_be_shifted_into_one_another() -> None:
    assert Address(1, "ab", "c").key != Address(1, "b", "ca").key
    assert Address(1, "a", "bc").key != Address(1, "ab", "c").key


def test_executions_of_one_correlation_id_share_the_prefix_of_one_tenant() -> None:
    one, other = Address(1, "exec-1", "corr"), Address(1, "exec-2", "corr")
    assert one.key[:8] == other.key[:8] == correlation_prefix(1, "corr")
    assert one.key[8:] != other.key[8:]
    assert correlation_prefix(2, "corr") != correlation_prefix(1, "corr")


@given(ids)
def test_ids_of_letters_digits_and_signs_can_serve(value: str) -> None:
    assert check_id(value) == value


def test_a_key_never_changes_between_releases() -> None:
    """Rows are found by it: another hash would lose every stored wait."""
    assert Address(1, "exec-1", "corr-1").key.hex() == "8091b46d99a9e2a2e4f5a95e6af5cf19"
    assert correlation_id_for_node(1, "exec-1", "node-1") == "e951ccfb-6b09-5f07-80e7-8642f17b51d8"


@given(addresses, st.integers(1, 64))
def test_every_key_has_a_shard(address: Address, shards: int) -> None:
    assert 0 <= shard_of(address.key, shards) < shards


def test_keys_spread_over_the_shards_even_for_one_correlation_id() -> None:
    shards = [shard_of(Address(1, f"exec-{n}", "corr").key, 4) for n in range(400)]
    assert all(60 < shards.count(shard) < 140 for shard in range(4))


def test_a_node_has_one_correlation_id_for_all_retries() -> None:
    first = correlation_id_for_node(1, "exec-1", "node-1")
    assert first == correlation_id_for_node(1, "exec-1", "node-1")
    assert uuid.UUID(first).version == 5
    others = {
        correlation_id_for_node(2, "exec-1", "node-1"),
        correlation_id_for_node(1, "exec-2", "node-1"),
        correlation_id_for_node(1, "exec-1", "node-2"),
    }
    assert len(others | {first}) == 4


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("abc", "abc"),
        ("with space inside", "with space inside"),
        ("früh-日本", "früh-日本"),
        ("x" * ID_LENGTH, "x" * ID_LENGTH),
        (42, "42"),
        (-1, "-1"),
        (10 ** (ID_LENGTH - 1) - 1, "9" * (ID_LENGTH - 1)),
    ],
    ids=repr,
)
def test_an_id_that_can_serve(value: object, text: str) -> None:
    assert check_id(value) == text


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        " abc",
        "abc ",
        "a\nb",
        "a\x00b",
        "a\u200bb",
        "\ud800",
        "x" * (ID_LENGTH + 1),
        True,
        False,
        None,
        1.5,
        [],
        {"id": 1},
        b"abc",
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_cannot_be_an_id(value: object) -> None:
    assert check_id(value) is None


@pytest.mark.parametrize("digits", [ID_LENGTH, 300, 5000])
def test_a_number_as_long_as_a_novel_is_no_id(digits: int) -> None:
    """Python itself refuses to print numbers past 4300 digits; that must not reach a sender."""
    assert check_id(10**digits) is None
    assert check_id(-(10**digits)) is None
