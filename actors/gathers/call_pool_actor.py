"""The Ray face of a pool: it begins what replicas hand over, and finds what they could not."""

import asyncio
import contextlib
import random
import secrets
import time
from functools import partial
from typing import Any

import structlog

from actors.gathers.admission import CallPoolLimits
from actors.gathers.call_pool import CallPool
from actors.messaging.shard_client import ShardClient
from actors.runtime.actor import Process
from actors.runtime.directory import Directory
from actors.runtime.names import call_pool_name
from core.access.tokens import CALLBACK, sign
from core.gathers.gather import CallBatch, build_call_batch, callback_url, decode_call_batch
from core.shared.call_outcome import CallState
from core.shared.call_policy import CallPolicy
from core.shared.config import Config
from core.waits.state import PENDING
from handlers.http.client import HttpClient
from services.shared.process import freeze_gc, new_turn_id, sync_until_done
from storage.access import keys
from storage.encryption.cipher import ENCRYPTION_ERRORS
from storage.gathers import resources
from storage.gathers.resources import OpenGather
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import PoolOptions, open_pool

log = structlog.get_logger("pool")

SCAN_INTERVAL = 2.0
# Younger gathers are being handed over by the replica that took them.
MIN_GATHER_AGE = 2.0
MAX_GATHERS_PER_SCAN = 5_000
_AGREED = frozenset({CallState.ACCEPTED, CallState.OK})


class _RealEnvironment:
    """The real time and chance."""

    def __init__(self) -> None:
        self.clock = DatabaseClock(time.monotonic, time.time)
        self.now = self.clock.now
        self.monotonic = time.monotonic
        self.new_turn_id = new_turn_id
        self.chance = random.random


class PoolActor:
    """Makes the calls of its resources. Holds nothing that is not in Postgres."""

    def __init__(self, name: str, config: Config) -> None:
        self._process = Process(name, config)
        self._config = config
        self._environment = _RealEnvironment()
        self._pool: CallPool | None = None
        self._starting: asyncio.Task[CallPool] | None = None
        self._secret: bytes | None = None

    async def begin(self, call_batch: bytes, max_wait: float) -> int | None:
        """Make these calls; how many resources have agreed after `patience` seconds at most.

        None if there are too many calls here already.
        """
        pool = self._pool or await self._started()
        answered = pool.begin(decode_call_batch(call_batch))
        if answered is None:
            return None
        if not answered or max_wait <= 0:
            return 0
        done, _ = await asyncio.wait(answered, timeout=max_wait)
        return sum(first.result() in _AGREED for first in done)

    async def cancel_calls(self, gathers: list[bytes]) -> None:
        """Stop the calls of these gathers."""
        if self._pool is not None:
            self._pool.cancel_calls(gathers)

    async def report(self) -> dict[str, Any]:
        """Where it runs and how its resources fare. The first question starts it."""
        self._begin()
        stats = self._pool.snapshot() if self._pool else {"under_way": 0, "resources": []}
        return {**self._process.describe(), "kind": "pool", "stats": stats}

    async def _started(self) -> CallPool:
        return await asyncio.shield(self._begin())

    def _begin(self) -> "asyncio.Task[CallPool]":
        if self._starting is None:
            self._starting = self._process.launch(self._start())
        return self._starting

    async def _start(self) -> CallPool:
        config = self._config
        self._database = await open_pool(
            PoolOptions(dsn=config.dsn, name=self._process.name, max_size=2, plan_each_time=True),
            self._environment.clock.measure,
        )
        await sync_until_done(self._environment.clock, self._database)
        outbound = HttpClient(CallPolicy(config.call_networks, config.call_ports), config.max_body)
        await contextlib.AsyncExitStack().enter_async_context(outbound)
        router = ShardClient.open(config, Directory(config))
        bounds = CallPoolLimits(
            places=config.call_limit, queue=config.call_queue, budget=config.call_budget
        )
        pool = CallPool(outbound.call, router.send, self._environment, bounds)
        self._process.every(SCAN_INTERVAL, partial(self._look, pool), "look")
        self._process.every(5.0, partial(self._environment.clock.sync, self._database))
        freeze_gc()
        self._pool = pool
        return pool

    async def _look(self, pool: CallPool) -> None:
        """Begin what no replica handed over: it died, or this pool was away."""
        pool.forget()
        found, self._secret = 0, None
        for gather in await resources.open_gathers(
            self._database, MIN_GATHER_AGE, MAX_GATHERS_PER_SCAN
        ):
            # One gather after another: what there is no room for is not even read.
            if pool.has_room(gather.address.tenant):
                try:
                    call_batch = await self._missed(pool, gather)
                except ENCRYPTION_ERRORS as error:  # the others can be called
                    log.warning("pool.secrets_unreadable", error=str(error))
                    continue
                found += len(pool.begin(call_batch) or ()) if call_batch is not None else 0
        if found:
            log.warning("pool.calls_found", calls=found)

    async def _signing_secret(self) -> bytes:
        """Asked for once in a look, and only if there is something to sign."""
        if self._secret is None:
            fresh = secrets.token_bytes(32)
            self._secret = (await keys.signing_secrets(self._database, CALLBACK, fresh))[0]
        return self._secret

    async def _missed(self, pool: CallPool, gather: OpenGather) -> CallBatch | None:
        address = gather.address
        missed = {
            name
            for name, mark in gather.marks.items()
            if mark == PENDING
            and not pool.is_known(address.key, name)
            and call_pool_name(address.tenant, name, self._config) == self._process.name
        }
        asked = await resources.read_gather_spec(self._database, address) if missed else None
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
        whole = build_call_batch(asked, address, gather.expires_at, known, urls)
        return CallBatch(tuple(call for call in whole.calls if call.name in missed), whole.context)
