"""Where several tenants send to one shard: who sends little does not wait for who sends much."""

import asyncio
from collections import Counter

import pytest

from actors.messaging import batcher as sender_module
from actors.messaging.batcher import (
    HANGS_AFTER,
    LIGHT_FIRST,
    LIGHT_QUEUED,
    MAX_CALLS_UNDER_WAY,
    MESSAGES_BESIDE_OTHERS,
    Batcher,
    SendRequest,
)
from actors.messaging.shard_messages import decode_messages, encode_batch
from core.shared.address import Address
from core.waits.messages import Offer, RefusalKind, RefusedReply, WaitMessage
from core.waits.spec import Source

MUCH, LITTLE, THIRD = 1, 2, 3


class Calls:
    """A shard that answers a call only when it is let."""

    def __init__(self) -> None:
        self.under_way: list[tuple[list[WaitMessage], asyncio.Future[None]]] = []

    async def __call__(self, batch: bytes) -> bytes:
        messages = decode_messages(batch)
        let: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        call = (messages, let)
        self.under_way.append(call)
        await let
        self.under_way.remove(call)
        return encode_batch([RefusedReply(kind=RefusalKind.UNKNOWN, detail="")] * len(messages))

    @property
    def tenants(self) -> list[dict[int, int]]:
        """How many messages of whom each call has."""
        return [
            dict(Counter(message.address.tenant for message in messages))
            for messages, _ in self.under_way
        ]

    async def answer(self, *tenants: int) -> None:
        """Answer the calls that have messages of these."""
        for messages, let in self.under_way:
            if messages[0].address.tenant in tenants and not let.done():
                let.set_result(None)
        await settled()


class Clock:
    """A time that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(sender_module, "time", clock)
    return clock


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def request(tenant: int, messages: int = 1, size: int = 0) -> SendRequest:
    return SendRequest(
        [
            Offer(
                address=Address(tenant, "run", "order"),
                turn_id="t",
                event_id=str(at),
                source=Source.API,
                label="one",
                payload=b"x" * size,
            )
            for at in range(messages)
        ]
    )


@pytest.mark.parametrize(("messages", "size"), [(128, 0), (1, 400_000)])
async def test_what_is_small_goes_past_what_is_large(messages: int, size: int) -> None:
    calls = Calls()
    sender = Batcher(calls, 10_000)
    for _ in range(MAX_CALLS_UNDER_WAY):
        sender.put(request(MUCH, 200))
        await settled()
    assert calls.tenants == [{MUCH: 200}] * MAX_CALLS_UNDER_WAY
    small = request(LITTLE)
    sender.put(small)
    for _ in range(10):
        sender.put(request(MUCH, messages, size))
    await settled()
    assert calls.tenants[-1] == {LITTLE: 1}
    await calls.answer(LITTLE)
    assert len(await small.future) == 1
    await sender.close()


async def test_beside_others_calls_of_those_who_send_much_are_short_and_by_turns() -> None:
    calls = Calls()
    sender = Batcher(calls, 100_000)
    sender.put(request(LITTLE))
    for tenant in (MUCH, MUCH, MUCH, THIRD, THIRD):
        sender.put(request(tenant, 100))
    seen: list[dict[int, int]] = []
    await settled()
    while calls.under_way:
        seen += [call for call in calls.tenants if LITTLE not in call]
        await calls.answer(MUCH, LITTLE, THIRD)
    assert seen == [{MUCH: 100}, {THIRD: 100}, {MUCH: 100}, {THIRD: 100}, {MUCH: 100}]
    assert sender.idle


async def test_alone_a_tenant_has_whole_calls() -> None:
    calls = Calls()
    sender = Batcher(calls, 100_000)
    sender.put(request(MUCH))
    await settled()
    for _ in range(300):
        sender.put(request(MUCH, 3))
    await settled()
    assert calls.tenants == [{MUCH: 1}, {MUCH: 900}]
    await sender.close()


async def test_only_beside_others_parcels_are_cut() -> None:
    sender = Batcher(Calls(), 100_000)
    sender.put(request(MUCH, 100))
    assert sender.max_messages > 100_000
    sender.put(request(LITTLE))
    assert sender.max_messages == MESSAGES_BESIDE_OTHERS
    await sender.close()


async def test_the_small_ones_of_one_tenant_gather_after_the_first_and_others_go_at_once() -> None:
    calls = Calls()
    sender = Batcher(calls, 10_000)
    sender.put(request(THIRD))
    await settled()
    for _ in range(LIGHT_FIRST + 10):
        sender.put(request(LITTLE))
        await settled()
    assert calls.tenants[1:] == [{LITTLE: 1}] * LIGHT_FIRST
    sender.put(request(THIRD))
    await settled()
    assert calls.tenants[-1] == {LITTLE: 10, THIRD: 1}
    await sender.close()


async def test_who_floods_with_small_ones_is_not_light_any_more() -> None:
    calls = Calls()
    sender = Batcher(calls, 10_000)
    sender.put(request(LITTLE))
    for _ in range(LIGHT_QUEUED + 1_000):
        sender.put(request(MUCH))
    await settled()
    shared = [call for call in calls.tenants if LITTLE in call]
    assert shared == [{LITTLE: 1}]
    assert sum(call.get(MUCH, 0) for call in calls.tenants) >= MESSAGES_BESIDE_OTHERS
    await sender.close()


async def test_given_up_small_ones_do_not_count_against_their_tenant() -> None:
    calls = Calls()
    sender = Batcher(calls, 10_000)
    sender.put(request(THIRD))
    given_up = [request(LITTLE) for _ in range(LIGHT_FIRST)]
    for one in given_up:
        sender.put(one)
        one.abandon()
    await settled()
    sender.put(request(LITTLE))
    await settled()
    assert calls.tenants[-1] == {LITTLE: 1}
    await calls.answer(LITTLE, THIRD)
    assert sender.idle


@pytest.mark.parametrize("is_contested", [True, False])
async def test_calls_that_hang_do_not_hold_up_the_next(clock: Clock, is_contested: bool) -> None:
    calls = Calls()
    sender = Batcher(calls, 10_000)
    if is_contested:
        sender.put(request(THIRD))
        await settled()
    for _ in range(LIGHT_FIRST):
        sender.put(request(LITTLE))
        await settled()
    hanging = len(calls.under_way)
    sender.put(request(LITTLE))
    await settled()
    assert len(calls.under_way) == hanging
    clock.now += HANGS_AFTER + 0.1
    last = request(LITTLE)
    sender.put(last)
    await settled()
    assert len(calls.under_way) == hanging + 1
    sender.put(request(LITTLE))
    await settled()
    assert len(calls.under_way) == hanging + 1  # one more at a time
    calls.under_way[-1][1].set_result(None)
    assert len(await last.future) == 1
    await sender.close()
