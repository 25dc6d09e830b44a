"""A tenant whose webhooks all hang, or whose names nobody resolves: others are delivered as ever.

Both take what tenants share in the anchor's pool: its places, and the threads that ask for names.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest

from actors.dispatch.pool_actor import DispatchActor
from core.dispatch.job import ANCHOR
from handlers.http.dns import MAX_CONCURRENT
from storage.access import keys
from storage.dispatch import pools
from storage.dispatch.pools import PoolRow
from storage.postgres.pool import Pool, PoolOptions, open_pool
from tests.support.dispatch import DEFAULT_POOL, JobFactory
from tests.support.loopback_resolver import (
    PATIENCE,
    QUICK,
    SILENT,
    LoopbackResolver,
    loopback_resolver,
)
from tests.support.pool_at_work import PoolTenant, WebhookReceiver, running_pool, webhook_receiver
from tools.chaos.latency import MAX_SLOWDOWN, LatencyWindow

DELIVERIES = 120
FLOOD = 400
TARGETS = 40
ALWAYS_ALLOWED = 0.25
"""Seconds, however fast it is alone: some rounds of a busy loop. Waiting for what another holds
takes until its time-out, which is seconds."""


class Scene:
    """Two tenants in one pool: the one who is measured, and the other."""

    def __init__(self, actor: DispatchActor, quiet: PoolTenant, noisy: PoolTenant) -> None:
        self.actor, self.quiet, self.noisy = actor, quiet, noisy
        self._numbers = 0

    async def timed(self, host: Callable[[], str]) -> LatencyWindow:
        """Deliver one after another, and how long each took to arrive."""
        window = LatencyWindow()
        for _ in range(DELIVERIES):
            number, self._numbers = self._numbers, self._numbers + 1
            url = self.quiet.hooks.url(self.quiet.path, host())
            began = time.monotonic()
            await self.quiet.post([number], self.actor, target_url=url)
            await self.quiet.until(partial(self._has_come, number), within=10)
            window.latencies.append(self.quiet.came[number].at - began)
        return window

    def _has_come(self, number: int) -> bool:
        return len(self.quiet.came) > number

    async def compare(
        self, noise: AbstractAsyncContextManager[None], host: Callable[[], str]
    ) -> None:
        """Alone, beside the noise, and alone again; nobody may feel it."""
        before = await self.timed(host)
        async with noise:
            beside = await self.timed(host)
        after = await self.timed(host)
        alone = max(before.p99, after.p99)
        told = f"p99 is {beside.p99:.3f} s beside it, {alone:.3f} s alone"
        assert beside.p99 <= max(ALWAYS_ALLOWED, MAX_SLOWDOWN * alone), told


async def a_shop(
    dsn: str, database: Pool, hooks: WebhookReceiver, name: str, row: PoolRow
) -> PoolTenant:
    """A tenant whose deliveries go by the anchor's pool."""
    shop = PoolTenant(dsn, database, hooks, row)
    shop.tenant = await keys.create_tenant(database, name)
    shop.path = name
    shop.jobs = JobFactory(database, shop.tenant, row.pool_no)
    return shop


@contextlib.asynccontextmanager
async def two_tenants(dsn: str, concurrency: int) -> AsyncIterator[Scene]:
    """The anchor's pool at work, with so many places."""
    database = await open_pool(PoolOptions(dsn=dsn, name="test"))
    await database.execute(
        "update dispatch_pools set concurrency = $1 where pool_no = $2", concurrency, DEFAULT_POOL
    )
    row = await pools.read_no(database, DEFAULT_POOL)
    assert row is not None
    assert row.tenant == ANCHOR
    async with webhook_receiver() as hooks:
        quiet, noisy = [
            await a_shop(dsn, database, hooks, name, row) for name in ("quiet", "noisy")
        ]
        async with running_pool(dsn, DEFAULT_POOL, dispatch_poll=0.5) as actor:
            yield Scene(actor, quiet, noisy)
    database.terminate()


@contextlib.asynccontextmanager
async def silent_servers(count: int) -> AsyncIterator[list[int]]:
    """Servers that take a request and never answer it; their ports."""
    held: set[asyncio.StreamWriter] = set()

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.add(writer)

    servers = [await asyncio.start_server(hold, "127.0.0.1", 0) for _ in range(count)]
    try:
        yield [server.sockets[0].getsockname()[1] for server in servers]
    finally:
        for server in servers:
            server.close()
        for writer in held:
            writer.transport.abort()


async def test_webhooks_that_hang_take_half_of_the_places_at_most(database: str) -> None:
    @contextlib.asynccontextmanager
    async def hanging(scene: Scene) -> AsyncIterator[None]:
        async with silent_servers(TARGETS) as ports:
            for port in ports:
                url = f"http://127.0.0.1:{port}/"
                numbers = range(FLOOD // TARGETS)
                await scene.noisy.post(numbers, scene.actor, target_url=url)
            await scene.noisy.until(lambda: under_way(scene) >= 8)
            yield
            assert under_way(scene) >= 8, "the noise was over too soon"

    async with two_tenants(database, concurrency=20) as scene:
        await scene.compare(hanging(scene), lambda: "127.0.0.1")


async def test_names_that_nobody_resolves_take_half_of_the_lookups_at_most(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.asynccontextmanager
    async def unresolved(scene: Scene, resolver: LoopbackResolver) -> AsyncIterator[None]:
        flood = asyncio.create_task(make_names_up(scene))
        await scene.noisy.until(lambda: silent(resolver) >= MAX_CONCURRENT // 2)
        yield
        flood.cancel()
        asked = silent(resolver)
        assert asked >= MAX_CONCURRENT // 2, asked

    async with loopback_resolver() as resolver, two_tenants(database, concurrency=200) as scene:
        monkeypatch.setattr("handlers.http.dns._addresses", resolver.addresses)
        # A new name each time: what is known is not asked for.
        await scene.compare(unresolved(scene, resolver), lambda: f"q{secrets.token_hex(4)}.{QUICK}")
        assert resolver.asked


async def make_names_up(scene: Scene) -> None:
    """New names all the time, each of another domain."""
    while True:
        for _ in range(FLOOD // 4):
            host = f"n{secrets.token_hex(4)}.{secrets.token_hex(4)}-{SILENT}"
            url = scene.noisy.hooks.url("noisy", host)
            await scene.noisy.post([0], scene.actor, target_url=url)
        await asyncio.sleep(PATIENCE)


def under_way(scene: Scene) -> int:
    """How many deliveries of the noisy tenant have a place now."""
    return len(scene.actor._dispatcher.in_flight(scene.noisy.tenant, 1_000))


def silent(resolver: LoopbackResolver) -> int:
    """How many names were asked for that have no answer."""
    return sum(name.endswith(SILENT) for name in resolver.asked)
