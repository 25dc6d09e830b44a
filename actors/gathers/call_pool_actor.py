"""The Ray face of a pool: it begins what replicas hand over, and finds what they could not."""

import asyncio
import contextlib
import random
import secrets
import time
from functools import partial
from typing import Any

import structlog

from actors.gathers.admission import Bounds
from actors.gathers.call_pool import Pool
from actors.messaging.router import Router
from actors.runtime.actor import Process, mint, settle_memory, sync_until_done
from actors.runtime.directory import Directory
from actors.runtime.names import pool_of
from core.access.tokens import CALLBACK, sign
from core.gathers.gather import Errand, State, callback_url, decode_errand, errand_of
from core.shared.call_policy import Destinations
from core.shared.config import Config
from core.waits.state import PENDING
from handlers.http.client import Outbound
from storage.access import keys
from storage.encryption.cipher import ENCRYPTION_ERRORS
from storage.gathers import resources
from storage.gathers.resources import OpenGather
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import PoolOptions, open_pool

log = structlog.get_logger("pool")

LOOK_EVERY = 2.0
# Younger gathers are being handed over by the replica that took them.
OLDER_THAN = 2.0
MOST_AT_ONCE = 5_000
_AGREED = frozenset({State.ACCEPTED, State.OK})


class _World:
    """The real time and chance."""

    def __init__(self) -> None:
        self.clock = DatabaseClock(time.monotonic, time.time)
        self.now = self.clock.now
        self.monotonic = time.monotonic
        self.mint = mint
        self.chance = random.random


class PoolActor:
    """Makes the calls of its resources. Holds nothing that is not in Postgres."""

    def __init__(self, name: str, config: Config) -> None:
        self._process = Process(name, config)
        self._config = config
        self._world = _World()
        self._pool: Pool | None = None
        self._starting: asyncio.Task[Pool] | None = None
        self._secret: bytes | None = None

    async def begin(self, errand: bytes, patience: float) -> int | None:
        """Make these calls; how many resources have agreed after `patience` seconds at most.

        None if there are too many calls here already.
        """
        pool = self._pool or await self._started()
        answered = pool.begin(decode_errand(errand))
        if answered is None:
            return None
        if not answered or patience <= 0:
            return 0
        done, _ = await asyncio.wait(answered, timeout=patience)
        return sum(first.result() in _AGREED for first in done)

    async def call_off(self, gathers: list[bytes]) -> None:
        """Stop the calls of these gathers."""
        if self._pool is not None:
            self._pool.call_off(gathers)

    async def report(self) -> dict[str, Any]:
        """Where it runs and how its resources fare. The first question starts it."""
        self._begin()
        stats = self._pool.snapshot() if self._pool else {"under_way": 0, "resources": []}
        return {**self._process.describe(), "kind": "pool", "stats": stats}

    async def _started(self) -> Pool:
        return await asyncio.shield(self._begin())

    def _begin(self) -> "asyncio.Task[Pool]":
        if self._starting is None:
            self._starting = self._process.launch(self._start())
        return self._starting

    async def _start(self) -> Pool:
        config = self._config
        self._database = await open_pool(
            PoolOptions(dsn=config.dsn, name=self._process.name, max_size=2, plan_each_time=True),
            self._world.clock.measure,
        )
        await sync_until_done(self._world.clock, self._database)
        outbound = Outbound(Destinations(config.call_networks, config.call_ports), config.max_body)
        await contextlib.AsyncExitStack().enter_async_context(outbound)
        router = Router(config, Directory(config).take)
        bounds = Bounds(
            places=config.call_limit, queue=config.call_queue, budget=config.call_budget
        )
        pool = Pool(outbound.call, router.send, self._world, bounds)
        self._process.every(LOOK_EVERY, partial(self._look, pool), "look")
        self._process.every(5.0, partial(self._world.clock.sync, self._database))
        settle_memory()
        self._pool = pool
        return pool

    async def _look(self, pool: Pool) -> None:
        """Begin what no replica handed over: it died, or this pool was away."""
        pool.forget()
        found, self._secret = 0, None
        for gather in await resources.open_gathers(self._database, OLDER_THAN, MOST_AT_ONCE):
            # One gather after another: what there is no room for is not even read.
            if pool.has_room(gather.address.tenant):
                try:
                    errand = await self._missed(pool, gather)
                except ENCRYPTION_ERRORS as error:  # the others can be called
                    log.warning("pool.secrets_unreadable", error=str(error))
                    continue
                found += len(pool.begin(errand) or ()) if errand is not None else 0
        if found:
            log.warning("pool.calls_found", calls=found)

    async def _signing_secret(self) -> bytes:
        """Asked for once in a look, and only if there is something to sign."""
        if self._secret is None:
            fresh = secrets.token_bytes(32)
            self._secret = (await keys.signing_secrets(self._database, CALLBACK, fresh))[0]
        return self._secret

    async def _missed(self, pool: Pool, gather: OpenGather) -> Errand | None:
        address = gather.address
        missed = {
            name
            for name, mark in gather.marks.items()
            if mark == PENDING
            and not pool.is_known(address.key, name)
            and pool_of(address.tenant, name, self._config) == self._process.name
        }
        asked = await resources.read_asked(self._database, address) if missed else None
        if asked is None:
            return None
        names = [ask.name for ask in asked.asks]
        known = await resources.find(self._database, address.tenant, names)
        secret = await self._signing_secret()
        until = gather.expires_at + self._config.token_grace
        urls = [
            callback_url(
                self._config.public_url,
                name,
                sign(address, until, secret, source=name),
                journals=asked.journals,
            )
            for name in names
        ]
        whole = errand_of(asked, address, gather.expires_at, known, urls)
        return Errand(tuple(call for call in whole.calls if call.name in missed), whole.context)
