"""The Ray actor of a shard; the logic is in `Shard`."""

import asyncio
import os
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import ray
import structlog

from actors.entities.entity_host import EntityParts
from actors.messaging.shard_messages import decode_messages, encode_batch
from actors.messaging.shard_socket import BatchServer, ConnectionLostError, Endpoint
from actors.runtime.actor import Actor, ActorEnvironment
from actors.runtime.directory import find
from actors.runtime.names import DEDICATED, TIMER, call_pool_names
from actors.waits.shard import Shard
from core.access.usage_counter import UsageCounter
from core.shared.address import Address
from core.shared.config import Config
from core.shared.tsid import MAKERS, IdMaker
from services.access.usage_writer import FLUSH_INTERVAL as USAGE_INTERVAL
from services.access.usage_writer import UsageWriter
from services.records.record_transitions import record_transitions
from services.shared.change_listener import ChangeListener
from services.shared.ids import IdGenerator, IdLeases
from services.shared.process import SYNC_INTERVAL, owner_name, sync_until_done
from storage.access import usage
from storage.entities.entity_store import EntityStore
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Pool, PoolOptions
from storage.waits.shard_store import ShardStore

log = structlog.get_logger("shard")

# Limited, because a caller that dies cannot cancel its call.
LONG_POLL_SECONDS = 30.0


class _ShardEnvironment(ActorEnvironment):
    """Clocks, random numbers, and the actors that a shard calls: the timer and the call pools."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        self._timer: Any = None
        self._pools: list[Any] = []

    def arm_deadlines(self, due: list[tuple[Address, float]]) -> None:
        # Does not wait: if the timer is away, it reads these rows when it is back.
        if self._timer is not None:
            self._timer.arm.remote(due, self.now())

    def cancel_calls(self, gathers: list[bytes]) -> None:
        # Does not wait: a call that is not cancelled ends at its deadline.
        for pool in self._pools:
            pool.cancel_calls.remote(gathers)

    async def find_peers(self) -> None:
        """Look up the timer and the call pools in a thread, because Ray's look-up blocks."""
        if self._timer is None:
            self._timer = await asyncio.to_thread(find, TIMER, self._config.namespace)
        names = call_pool_names(self._config)
        if len(self._pools) < len(names):
            found = [await asyncio.to_thread(find, n, self._config.namespace) for n in names]
            self._pools = [pool for pool in found if pool is not None]


class ShardActor(Actor[Shard]):
    """Hosts many correlations, or with placement `dedicated` a single one."""

    kind = "shard"

    def __init__(self, name: str, config: Config) -> None:
        self._peers = _ShardEnvironment(config)
        super().__init__(name, config, self._peers)
        self._dedicated = name.startswith(DEDICATED)
        self._options = PoolOptions(
            dsn=config.dsn,
            name=name.partition(":")[0],
            max_size=1 if self._dedicated else 3,
            statement_timeout=10.0,
        )
        self._usage = UsageCounter()
        self._store = ShardStore(
            self._options, owner_name(name), config.early_ttl, self._environment.clock, self._usage
        )
        self._entities = EntityStore(self._options, self._environment.clock, self._store.reader)
        self._endpoint: Endpoint | None = None
        self._opening = asyncio.Lock()
        self._idle_since: float | None = None

    async def handle_batch(self, batch: bytes) -> bytes:
        """Handle one batch of messages; return the replies after the commit."""
        shard = self._hosted or await self._started()
        return encode_batch(await shard.handle(decode_messages(batch)))

    async def endpoint(self) -> Endpoint | None:
        """Return the address of the batch socket; None if Ray's traffic has to be encrypted."""
        self._begin()
        if self._endpoint is None and os.environ.get("RAY_USE_TLS", "0") == "0":
            async with self._opening:
                if self._endpoint is None:
                    self._endpoint = await self._listen()
        return self._endpoint

    async def _listen(self) -> Endpoint | None:
        try:
            return await BatchServer(self.handle_batch).listen(ray.util.get_node_ip_address())
        except OSError as error:
            log.warning("shard.no_socket", actor=self._name, error=str(error))
            return None

    async def long_poll(self, secret: bytes) -> None:
        """Return after a while; until then Ray tells the caller if this actor is gone.

        Raises:
            ConnectionLostError: The secret belongs to an earlier incarnation.
        """
        if self._endpoint is None or self._endpoint.secret != secret:
            raise ConnectionLostError("another incarnation")
        await asyncio.sleep(LONG_POLL_SECONDS)

    async def listen(
        self, feed: str, watch: list[bytes], unwatch: list[bytes], wait: float
    ) -> list[bytes]:
        """Wait for and return the correlations of this feed that changed since the last call."""
        shard = self._hosted or await self._started()
        return await shard.feeds.listen(feed, watch, unwatch, wait)

    async def report(self) -> dict[str, Any]:
        """Describe this shard without starting it; the first message does that."""
        return self._describe()

    def _stats(self) -> dict[str, Any]:
        return self._hosted.snapshot() if self._hosted else {"hot": 0, "pending": 0}

    async def _start(self) -> Shard:
        pool = await self._store.pool()
        await sync_until_done(self._environment.clock, pool)
        # Before the first turn, because near deadlines must reach the timer.
        await self._peers.find_peers()
        kafka = self._config.kafka
        transitions = record_transitions(kafka.change_topic if kafka is not None else None)
        parts = EntityParts(self._entities, transitions, await self._id_maker(pool))
        shard = Shard(self._config, self._store, self._peers, parts)
        self._store.on_lost = shard.forget
        self._environment.clock.on_moved = shard.decide_again
        self._spawn(shard.run_forever())
        if not self._dedicated:
            changes = ChangeListener()
            # Collections are read together with the subscriptions that follow them.
            for topic in (ChangeTopic.COLLECTIONS, ChangeTopic.SUBSCRIPTIONS):
                changes.on_tenant_change(topic, shard.forget_collections)
            self._spawn(changes.run_forever(self._config.dsn))
        self._every(1.0, partial(self._rest, shard))
        usage_writer = UsageWriter(self._usage, partial(usage.add, pool)).flush
        self._every(USAGE_INTERVAL, usage_writer)
        self._every(SYNC_INTERVAL, partial(self._environment.clock.sync, pool))
        self._every(2.0, self._peers.find_peers)
        self._measure("commit", lambda: shard.stalled_seconds)
        return shard

    async def _id_maker(self, pool: Pool) -> Callable[[], str]:
        """Return what makes ids of changes.

        There may be more actors of single correlations than numbers to lease. Such an actor makes
        few ids, with a number by chance.
        """
        now = self._environment.now
        if self._dedicated:
            return IdMaker(random.randrange(MAKERS), now, random.getrandbits)  # noqa: S311
        ids = IdGenerator(IdLeases(pool, self._name), now)
        await ids.start()
        return ids

    def _rest(self, shard: Shard) -> None:
        shard.passivate()
        if self._dedicated:
            self._leave_if_idle(shard)

    def _leave_if_idle(self, shard: Shard) -> None:
        """End a dedicated actor some time after its correlation has left memory."""
        now = time.monotonic()
        if not shard.idle:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        elif now - self._idle_since > min(5.0, self._config.idle_after):
            ray.kill(ray.get_runtime_context().current_actor, no_restart=True)
