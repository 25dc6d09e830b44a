"""The Ray actor of a call pool: makes calls from replicas, and finds missed ones in Postgres."""

import asyncio
import contextlib
import secrets
from functools import partial
from typing import Any

import structlog

from actors.gathers.admission import CallPoolLimits
from actors.gathers.call_pool import CallPool
from actors.messaging.shard_client import ShardClient
from actors.runtime.actor import Actor
from actors.runtime.names import call_pool_name
from core.access.tokens import CALLBACK, sign
from core.gathers.gather import CallBatch, build_call_batch, callback_url, decode_call_batch
from core.shared.call_outcome import CallState
from core.shared.call_policy import CallPolicy
from core.shared.config import Config
from core.waits.state import PENDING
from handlers.http.client import HttpClient
from storage.access import keys
from storage.encryption.cipher import ENCRYPTION_ERRORS
from storage.gathers import resources
from storage.gathers.resources import OpenGather

log = structlog.get_logger("pool")

SCAN_INTERVAL = 2.0
# Younger gathers are still being handed over by the replica that accepted them.
MIN_GATHER_AGE = 2.0
MAX_GATHERS_PER_SCAN = 5_000
_AGREED = frozenset({CallState.ACCEPTED, CallState.OK})


class PoolActor(Actor[CallPool]):
    """Calls its resources. All its state is in Postgres."""

    kind = "pool"

    def __init__(self, name: str, config: Config) -> None:
        super().__init__(name, config)
        self._secret: bytes | None = None

    async def begin(self, call_batch: bytes, max_wait: float) -> int | None:
        """Make these calls; return how many resources agreed within `max_wait` seconds.

        Return None if there is no room for them.
        """
        pool = await self._started()
        answered = pool.begin(decode_call_batch(call_batch))
        if answered is None:
            return None
        if not answered or max_wait <= 0:
            return 0
        done, _ = await asyncio.wait(answered, timeout=max_wait)
        return sum(first.result() in _AGREED for first in done)

    async def cancel_calls(self, gathers: list[bytes]) -> None:
        if self._hosted is not None:
            self._hosted.cancel_calls(gathers)

    def _stats(self) -> dict[str, Any]:
        return self._hosted.snapshot() if self._hosted else {"under_way": 0, "resources": []}

    async def _start(self) -> CallPool:
        config = self._config
        await self._open_database(2, plan_each_time=True)
        outbound = HttpClient(CallPolicy(config.call_networks, config.call_ports), config.max_body)
        await contextlib.AsyncExitStack().enter_async_context(outbound)
        limits = CallPoolLimits(
            places=config.call_limit, queue=config.call_queue, budget=config.call_budget
        )
        pool = CallPool(outbound.call, ShardClient.open(config).send, self._environment, limits)
        self._every(SCAN_INTERVAL, partial(self._look, pool), "look")
        return pool

    async def _look(self, pool: CallPool) -> None:
        """Start calls that no replica handed over because it died or this pool was away."""
        pool.forget()
        found, self._secret = 0, None
        for gather in await resources.open_gathers(
            self._database, MIN_GATHER_AGE, MAX_GATHERS_PER_SCAN
        ):
            # One gather after another: a gather without room is not even read.
            if pool.has_room(gather.address.tenant):
                try:
                    call_batch = await self._missed(pool, gather)
                except ENCRYPTION_ERRORS as error:  # other gathers are not affected
                    log.warning("pool.secrets_unreadable", error=str(error))
                    continue
                found += len(pool.begin(call_batch) or ()) if call_batch is not None else 0
        if found:
            log.warning("pool.calls_found", calls=found)

    async def _signing_secret(self) -> bytes:
        """Read the secret at most once per scan, and only if there is something to sign."""
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
            and call_pool_name(address.tenant, name, self._config) == self._name
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
                self._config.public_url, asked, name, sign(address, until, secret, source=name)
            )
            for name in names
        ]
        whole = build_call_batch(asked, address, gather.expires_at, known, urls)
        return CallBatch(tuple(call for call in whole.calls if call.name in missed), whole.context)
