"""A real shard on a real Postgres, without Ray: what integration tests of the mind need."""

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from actors.entities.entity_host import EntityParts
from actors.waits.shard import Shard
from core.shared.address import Address
from core.shared.config import Config
from core.shared.tsid import MAKERS, IdMaker
from core.waits.config import WaitConfig
from core.waits.messages import Offer, Register, Reply, WaitMessage
from core.waits.spec import Source, encode_spec
from services.records.record_transitions import record_transitions
from storage.entities.entity_store import EntityStore
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import Pool, PoolOptions
from storage.waits.shard_store import ShardStore

BOTH: dict[str, Any] = {
    "apiCall": {"url": "http://127.0.0.1:9/process"},
    "kafkaEvent": {"topic": "process.completed"},
    "timeout": 60,
}


class RecordingEnvironment:
    """Real time and chance; the timer is a list that tests look at."""

    def __init__(self) -> None:
        self.clock = DatabaseClock(time.monotonic, time.time)
        self.now = self.clock.now
        self.monotonic = time.monotonic
        self.chance = random.random
        self.alarms: list[tuple[Address, float]] = []
        self.called_off: list[bytes] = []

    def arm_deadlines(self, due: list[tuple[Address, float]]) -> None:
        self.alarms.extend(due)

    def cancel_calls(self, gathers: list[bytes]) -> None:
        self.called_off.extend(gathers)


@contextlib.asynccontextmanager
async def running_shard(
    dsn: str, name: str = "shard-0", statement_timeout: float = 30.0, **config: Any
) -> AsyncIterator[Shard]:
    """A shard with its loops running."""
    settings = Config(dsn=dsn, **config)
    options = PoolOptions(dsn=dsn, name=name, max_size=2, statement_timeout=statement_timeout)
    environment = RecordingEnvironment()
    store = ShardStore(options, name, settings.early_ttl, environment.clock)
    await environment.clock.sync(await store.pool())
    entities = EntityStore(options, environment.clock, store.reader)
    new_id = IdMaker(random.randrange(MAKERS), environment.now, random.getrandbits)
    parts = EntityParts(entities, record_transitions(), new_id)
    shard = Shard(settings, store, environment, parts)
    store.on_lost = shard.forget
    environment.clock.on_moved = shard.decide_again
    tasks = [asyncio.create_task(shard.run_forever())]
    try:
        yield shard
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        entities.close()
        await store.close()


def address(execution: str | None = None, correlation: str | None = None) -> Address:
    """A new address, or one with the given ids."""
    return Address(1, execution or uuid.uuid4().hex, correlation or uuid.uuid4().hex)


def register(where: Address, config: dict[str, Any] | None = None, **fields: Any) -> Register:
    """A registration of this configuration."""
    spec = encode_spec(WaitConfig.model_validate(config or BOTH).to_spec())
    fields.setdefault("node_id", where.correlation_id)
    return Register(address=where, turn_id=uuid.uuid4().hex, spec=spec, **fields)


def api(where: Address, payload: bytes = b'{"ok":true}', **fields: Any) -> Offer:
    """A callback."""
    return _offer(where, Source.API, "external-service", payload, **fields)


def kafka(where: Address, payload: bytes = b"{}", **fields: Any) -> Offer:
    """A Kafka event."""
    return _offer(where, Source.KAFKA, "process.completed", payload, **fields)


def _offer(where: Address, source: Source, label: str, payload: bytes, **fields: Any) -> Offer:
    turn_id = uuid.uuid4().hex
    values = {"turn_id": turn_id, "event_id": f"{source}/{turn_id}", "label": label} | fields
    return Offer(address=where, source=source, payload=payload, **values)


async def ask(shard: Shard, message: WaitMessage) -> Reply:
    """One message, one answer."""
    return (await shard.handle([message]))[0]


async def statuses(pool: Pool) -> dict[str, int]:
    """How many waits are in each state."""
    found = await pool.fetch("select status, count(*) from execution_wait_states group by 1")
    return {row[0]: row[1] for row in found}
