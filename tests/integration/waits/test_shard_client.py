"""The batching client: what gathers, what is tried again, what is refused."""

import asyncio

import pytest
from ray.exceptions import ActorUnavailableError

from actors.messaging.shard_client import ShardClient, _split_by_size
from actors.messaging.shard_messages import decode_messages, encode_batch
from core.shared.config import Config
from core.shared.errors import OverloadedError, UnavailableError
from core.waits.messages import (
    OfferReply,
    Reason,
    RefusalKind,
    RefusedReply,
    RegisterReply,
    Reply,
    Verdict,
)
from core.waits.strategy import Status
from tests.support.shards import address, api


def matched() -> Reply:
    return OfferReply(verdict=Verdict.MATCHED, reason=Reason.EXPECTED, status=Status.WAITING)


class Target:
    """An actor that can be slow, gone or full."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.failures = 0
        self.open = asyncio.Event()
        self.open.set()

    async def deliver(self, _: str, batch: bytes) -> bytes:
        await self.open.wait()
        if self.failures:
            self.failures -= 1
            raise ActorUnavailableError("gone", None)
        messages = decode_messages(batch)
        self.batches.append(len(messages))
        return encode_batch([matched() for _ in messages])


def router_to(target: Target, **config: float) -> ShardClient:
    settings = {"request_timeout": 2.0, **config}
    return ShardClient(Config(dsn="", shards=1, **settings), target.deliver)  # type: ignore[arg-type]


async def test_what_gathers_during_a_call_goes_together() -> None:
    target = Target()
    target.open.clear()
    router = router_to(target)
    waiting = [asyncio.create_task(router.send(api(address()))) for _ in range(50)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    target.open.set()
    assert len(await asyncio.gather(*waiting)) == 50
    assert sum(target.batches) == 50
    assert len(target.batches) <= 2


async def test_a_caller_that_sends_again_the_moment_it_is_answered_is_not_forgotten() -> None:
    router = router_to(Target(), request_timeout=0.5)
    for _ in range(20):
        assert isinstance(await router.send(api(address())), OfferReply)


async def test_what_is_too_heavy_for_one_parcel_goes_in_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.messaging.shard_client.MAX_REQUEST_BYTES", 1_000)
    target = Target()
    messages = [api(address()) for _ in range(20)]
    parts = _split_by_size(messages, list(range(20)))
    assert len(parts) > 1
    assert [index for part in parts for index in part] == list(range(20))
    replies = await router_to(target).send_many(messages)
    assert [type(reply) for reply in replies] == [OfferReply] * 20
    assert sum(target.batches) == 20


async def test_a_gone_actor_is_asked_again() -> None:
    target = Target()
    target.failures = 3
    assert isinstance(await router_to(target).send(api(address())), OfferReply)


async def test_an_actor_that_stays_away_is_unavailable_in_bounded_time() -> None:
    target = Target()
    target.failures = 10**6
    with pytest.raises(UnavailableError):
        await router_to(target, request_timeout=0.3).send(api(address()))


async def test_a_silent_actor_is_unavailable_and_what_was_never_sent_did_not_happen() -> None:
    target = Target()
    target.open.clear()
    router = router_to(target, request_timeout=0.2)
    results = await asyncio.gather(
        *(router.send(api(address())) for _ in range(5)), return_exceptions=True
    )
    assert all(isinstance(result, UnavailableError) for result in results)
    target.open.set()
    assert isinstance(await router.send(api(address())), OfferReply)
    # The first call was under way; those that waited behind it were dropped with their callers.
    assert sum(target.batches) <= 6


async def test_a_full_queue_refuses_at_once() -> None:
    target = Target()
    target.open.clear()
    router = router_to(target, pending_limit=3, request_timeout=0.2)
    first = [asyncio.create_task(router.send(api(address()))) for _ in range(1)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    queued = [asyncio.create_task(router.send(api(address()))) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError):
        await router.send(api(address()))
    many = await router.send_many([api(address()), api(address())])
    assert all(isinstance(r, RefusedReply) and r.kind is RefusalKind.OVERLOADED for r in many)
    await asyncio.gather(*first, *queued, return_exceptions=True)


async def test_answers_keep_the_order_of_the_messages() -> None:
    target = Target()
    replies = await router_to(target).send_many([api(address()) for _ in range(2_500)])
    assert len(replies) == 2_500
    assert not any(isinstance(reply, RegisterReply) for reply in replies)
    assert max(target.batches) <= 2_500
