"""What a message weighs on its way to a shard, and how much of it may wait there."""

import asyncio

import pytest

from actors.sender import Parcel, Sender, weight_of
from core.address import Address
from core.errors import OverloadedError
from core.messages import (
    Cancel,
    Message,
    Offer,
    RefusalKind,
    Refused,
    Register,
    decode_messages,
    encode,
)
from core.spec import Source

ADDRESS = Address(1, "g-1", "g-1")
LONG = b"x" * 100_000


@pytest.mark.parametrize(
    ("message", "least"),
    [
        (Cancel(address=ADDRESS, turn_id="t"), 0),
        (
            Offer(
                address=ADDRESS,
                turn_id="t",
                event_id="e",
                source=Source.API,
                label="one",
                payload=LONG,
            ),
            100_000,
        ),
        (Register(address=ADDRESS, turn_id="t", node_id="n", spec=b"", asked=LONG), 100_000),
    ],
)
def test_a_message_weighs_what_it_carries(message: Message, least: int) -> None:
    assert least < weight_of(message) < least + 1_000


def _parcel(tenant: int, messages: int = 1, payload: bytes = b"") -> Parcel:
    return Parcel(
        [
            Offer(
                address=Address(tenant, "run", "order"),
                turn_id="t",
                event_id=str(at),
                source=Source.API,
                label="one",
                payload=payload,
            )
            for at in range(messages)
        ]
    )


async def _hangs(_batch: bytes) -> bytes:
    await asyncio.Event().wait()
    raise AssertionError


def _fill(sender: Sender, tenant: int, payload: bytes = b"") -> int:
    count = 0
    try:
        while True:
            sender.put(_parcel(tenant, payload=payload))
            count += 1
    except OverloadedError:
        return count


def test_beside_another_a_tenant_has_half_of_the_queue() -> None:
    async def story() -> None:
        sender = Sender(_hangs, 100)
        sender.put(_parcel(2))
        assert _fill(sender, 1) == 49
        sender.put(_parcel(2, 10))
        with pytest.raises(OverloadedError, match="of this tenant"):
            sender.put(_parcel(1))
        await sender.close()

    asyncio.run(story())


def test_alone_a_tenant_has_all_of_the_queue() -> None:
    async def story() -> None:
        sender = Sender(_hangs, 100)
        assert _fill(sender, 1) == 100
        await sender.close()

    asyncio.run(story())


def test_the_queue_is_bounded_in_bytes() -> None:
    async def story() -> None:
        sender = Sender(_hangs, 10_000, most_bytes=100_000)
        sender.put(_parcel(2))
        assert _fill(sender, 1, b"x" * 9_700) == 4
        await sender.close()

    asyncio.run(story())


class Calls:
    """A shard that answers a call only when it is let."""

    def __init__(self) -> None:
        self.under_way: list[tuple[int, asyncio.Future[None]]] = []

    async def __call__(self, batch: bytes) -> bytes:
        messages = decode_messages(batch)
        let: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.under_way.append((messages[0].address.tenant, let))
        await let
        return encode([Refused(kind=RefusalKind.UNKNOWN, detail="")] * len(messages))

    @property
    def tenants(self) -> list[int]:
        return [tenant for tenant, let in self.under_way if not let.done()]


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_whoever_sends_little_does_not_stand_behind_one_who_sends_much() -> None:
    async def story() -> None:
        calls = Calls()
        sender = Sender(calls, 10_000)
        for _ in range(10):
            sender.put(_parcel(1, 500))
        await _settled()
        assert calls.tenants == [1, 1]  # and as many as there may be
        small = _parcel(2)
        sender.put(small)
        sender.put(_parcel(1, 500))
        await _settled()
        assert calls.tenants == [1, 1, 2]
        calls.under_way[-1][1].set_result(None)
        assert len(await small.future) == 1
        assert not sender.idle
        await sender.close()

    asyncio.run(story())


def test_what_was_answered_or_given_up_does_not_count_against_a_tenant() -> None:
    async def story() -> None:
        calls = Calls()
        sender = Sender(calls, 10_000)
        sender.put(_parcel(2))
        first, given_up = _parcel(1, 64), _parcel(1, 64)
        sender.put(first)  # light: there is another, and it has no more than that
        sender.put(given_up)
        given_up.future.cancel()
        await _settled()
        for _, let in calls.under_way:
            let.set_result(None)
        await first.future
        await _settled()
        assert sender.idle
        again = _parcel(1, 64)
        sender.put(_parcel(2, 500))  # much, and under way
        sender.put(again)
        await _settled()
        assert calls.tenants == [2, 1]
        await sender.close()

    asyncio.run(story())
