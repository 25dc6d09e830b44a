"""A process's lines: real sockets, and handles that answer as Ray's do."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from ray.exceptions import ActorUnavailableError

from actors.messaging import shard_client as module
from actors.messaging.shard_client import ShardConnections
from actors.messaging.shard_socket import BatchServer, ConnectionLostError, Endpoint

NAME = "shard-0"


class Method:
    """`handle.method` as Ray has it."""

    def __init__(self, call: Callable[..., Awaitable[Any]]) -> None:
        self.remote = call


class Actor:
    """Stands for an actor, with all the ways it can answer."""

    def __init__(self) -> None:
        self.by_line = self.by_ray = self.asked = 0
        self.busy, self.gone = asyncio.Event(), asyncio.Event()
        self.told: Endpoint | None = None
        self.exchange = BatchServer(self._take_by_line)
        self.endpoint = Method(self._endpoint)
        self.long_poll = Method(self._hold)
        self.handle_batch = Method(self._take_by_ray)

    async def open(self) -> "Actor":
        self.told = await self.exchange.listen("127.0.0.1")
        return self

    async def _take_by_line(self, batch: bytes) -> bytes:
        self.by_line += 1
        if batch == b"slow":
            self.busy.set()
            await asyncio.Event().wait()
        return batch

    async def _take_by_ray(self, batch: bytes) -> bytes:
        self.by_ray += 1
        return batch

    async def _endpoint(self) -> Endpoint | None:
        self.asked += 1
        await asyncio.sleep(0.01)
        return self.told

    async def _hold(self, secret: bytes) -> None:
        assert self.told is not None
        assert secret == self.told.secret
        await self.gone.wait()
        raise ActorUnavailableError("gone", None)


class Ray:
    """Where the actor of the name is now."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.forgotten = 0
        self.lines = ShardConnections(self._find, self._forget)

    async def _find(self, name: str) -> Actor:
        assert name == NAME
        return self.actor

    def _forget(self, name: str) -> None:
        assert name == NAME
        self.forgotten += 1

    async def close(self) -> None:
        self.lines.close()
        self.actor.exchange.close()
        await asyncio.sleep(0)


async def test_many_askers_share_one_line() -> None:
    ray = Ray(await Actor().open())
    answers = await asyncio.gather(*(ray.lines.handle_batch(NAME, b"%d" % n) for n in range(50)))
    assert answers == [b"%d" % n for n in range(50)]
    assert (ray.actor.asked, ray.actor.by_line, ray.actor.by_ray) == (1, 50, 0)
    await ray.close()


async def test_when_ray_says_it_is_gone_callers_are_told_and_the_next_one_finds_the_new_one() -> (
    None
):
    ray = Ray(await Actor().open())
    old = ray.actor
    waiting = asyncio.create_task(ray.lines.handle_batch(NAME, b"slow"))
    await asyncio.wait_for(old.busy.wait(), 5)
    ray.actor = await Actor().open()
    old.gone.set()  # its socket is still open, as behind a frozen node
    with pytest.raises(ConnectionLostError):
        await waiting
    assert await ray.lines.handle_batch(NAME, b"x") == b"x"
    assert (ray.actor.by_line, ray.forgotten) == (1, 1)
    old.exchange.close()
    await ray.close()


async def test_without_an_endpoint_batches_go_by_ray() -> None:
    ray = Ray(Actor())
    assert [await ray.lines.handle_batch(NAME, b"x") for _ in range(3)] == [b"x"] * 3
    assert (ray.actor.asked, ray.actor.by_ray) == (1, 3)
    await ray.close()


async def test_an_actor_that_cannot_say_is_reached_by_ray() -> None:
    ray = Ray(Actor())
    del ray.actor.endpoint
    assert await ray.lines.handle_batch(NAME, b"x") == b"x"
    assert ray.actor.by_ray == 1
    await ray.close()


async def test_who_refuses_once_has_died_and_who_refuses_twice_is_reached_by_ray() -> None:
    ray = Ray(await Actor().open())
    assert ray.actor.told is not None
    ray.actor.told = Endpoint("127.0.0.1", 1, ray.actor.told.secret)
    with pytest.raises(ConnectionLostError):
        await ray.lines.handle_batch(NAME, b"x")
    assert ray.forgotten == 1
    assert await ray.lines.handle_batch(NAME, b"x") == b"x"
    assert ray.actor.by_ray == 1
    await ray.close()


async def test_the_line_is_tried_again_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RAY_FOR", 0.0)
    ray = Ray(Actor())
    await ray.lines.handle_batch(NAME, b"x")
    await ray.actor.open()
    await ray.lines.handle_batch(NAME, b"x")  # starts the attempt and does not wait for it
    assert ray.actor.by_ray == 2
    async with asyncio.timeout(5):
        while not ray.actor.by_line:
            await ray.lines.handle_batch(NAME, b"x")
            await asyncio.sleep(0.01)
    await ray.close()


async def test_after_the_end_nothing_is_opened_anew() -> None:
    ray = Ray(await Actor().open())
    await ray.lines.handle_batch(NAME, b"x")
    await ray.close()
    with pytest.raises(ConnectionLostError):
        await ray.lines.handle_batch(NAME, b"x")
