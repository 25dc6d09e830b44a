"""What waits in a shard: bounded in number and bytes, and shared by tenants."""

import pytest

from actors.messaging.batcher import MESSAGE_BYTES
from actors.waits.pending import BEHIND, SHARE_TAKEN, PendingMessages, loads_of
from core.shared.address import Address
from core.waits.messages import Cancel, Offer, Register, WaitMessage
from core.waits.spec import Source

NOW = 100.0


def _offers(tenant: int, count: int, payload: bytes = b"") -> list[WaitMessage]:
    where = Address(tenant, "run", "order")
    return [
        Offer(
            address=where,
            turn_id="t",
            event_id=str(at),
            source=Source.API,
            label="x",
            payload=payload,
        )
        for at in range(count)
    ]


def test_messages_weigh_what_they_carry() -> None:
    where = Address(2, "run", "order")
    register = Register(address=where, turn_id="t", node_id="n", spec=b"12345", asked=b"123")
    cancel = Cancel(address=where, turn_id="t")
    loads = loads_of([*_offers(1, 2, b"1234567890"), register, cancel])
    assert loads == {1: (2, 2 * MESSAGE_BYTES + 20), 2: (2, 2 * MESSAGE_BYTES + 8)}


def test_only_the_tenant_that_asks_for_too_much_is_refused() -> None:
    pending = PendingMessages(100, 10**9)
    pending.admit(_offers(2, 1), NOW)
    taken, refused = pending.admit(_offers(1, 40), NOW)
    assert (list(taken), refused) == ([1], {})
    mixed, told = pending.admit([*_offers(1, 20), *_offers(2, 5)], NOW)
    assert (mixed, told) == ({2: (5, 5 * MESSAGE_BYTES)}, {1: SHARE_TAKEN})
    assert len(pending) == 46
    pending.release(taken)
    pending.release(mixed)
    assert (len(pending), pending.size) == (1, MESSAGE_BYTES)


@pytest.mark.parametrize("count", [101, 1_000])
def test_a_batch_that_can_never_fit_is_refused(count: int) -> None:
    assert PendingMessages(100, 10**9).admit(_offers(1, count), NOW) == ({}, {1: BEHIND})


def test_alone_a_tenant_has_all_of_it_until_another_comes() -> None:
    pending = PendingMessages(100, 10**9)
    taken, _ = pending.admit(_offers(1, 60), NOW)
    assert pending.admit(_offers(1, 40), NOW)[1] == {}
    assert pending.admit(_offers(2, 1), NOW)[1] == {2: BEHIND}
    pending.release(taken)
    assert pending.admit(_offers(2, 1), NOW)[1] == {}
    assert pending.admit(_offers(1, 10), NOW)[1] == {1: SHARE_TAKEN}


def test_bytes_are_bounded_too() -> None:
    pending = PendingMessages(10_000, 100_000)
    pending.admit(_offers(2, 1), NOW)
    assert pending.admit(_offers(1, 4, b"x" * 10_000), NOW)[1] == {}
    assert pending.admit(_offers(1, 1, b"x" * 10_000), NOW)[1] == {1: SHARE_TAKEN}
    assert pending.admit(_offers(2, 1, b"x" * 10_000), NOW)[1] == {}
