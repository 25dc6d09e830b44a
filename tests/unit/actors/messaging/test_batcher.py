"""What a message weighs on its way to a shard, and how much of it may wait there."""

import asyncio

import pytest

from actors.messaging.batcher import Batcher, SendRequest, weigh
from core.shared.address import Address
from core.shared.errors import OverloadedError
from core.waits.messages import Cancel, Offer, Register, WaitMessage
from core.waits.spec import Source

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
        (Register(address=ADDRESS, turn_id="t", node_id="n", spec=LONG), 100_000),
    ],
)
def test_a_message_weighs_what_it_carries(message: WaitMessage, least: int) -> None:
    assert least < weigh([message]) < least + 1_000


def _parcel(tenant: int, messages: int = 1, payload: bytes = b"") -> SendRequest:
    return SendRequest(
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


def _fill(sender: Batcher, tenant: int, payload: bytes = b"") -> int:
    count = 0
    try:
        while True:
            sender.put(_parcel(tenant, payload=payload))
            count += 1
    except OverloadedError:
        return count


def test_beside_another_a_tenant_has_half_of_the_queue() -> None:
    async def story() -> None:
        sender = Batcher(_hangs, 100)
        sender.put(_parcel(2))
        assert _fill(sender, 1) == 49
        sender.put(_parcel(2, 10))
        with pytest.raises(OverloadedError, match="of this tenant"):
            sender.put(_parcel(1))
        await sender.close()

    asyncio.run(story())


def test_alone_a_tenant_has_all_of_the_queue() -> None:
    async def story() -> None:
        sender = Batcher(_hangs, 100)
        assert _fill(sender, 1) == 100
        await sender.close()

    asyncio.run(story())


def test_the_queue_is_bounded_in_bytes() -> None:
    async def story() -> None:
        sender = Batcher(_hangs, 10_000, max_bytes=100_000)
        sender.put(_parcel(2))
        assert _fill(sender, 1, b"x" * 9_700) == 4
        await sender.close()

    asyncio.run(story())
