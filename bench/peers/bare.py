"""The floor: the same rows by the same statement in the same batches, with nothing around it."""

import time

from bench.harness import Measure
from bench.load import make_load
from bench.stage import Stage
from core.waits.messages import WaitMessage
from core.waits.state import Wait
from core.waits.transitions import apply
from storage.postgres.pool import PoolOptions, open_connection
from storage.waits.flush import NO_VERSION, FlushWriter, WaitChange


async def measure(stage: Stage, correlations: int, batch: int) -> Measure:
    """All decisions are made before the clock starts; what is left is Postgres and its driver."""
    dsn = await stage.database()
    load = make_load(correlations)
    waits: dict[bytes, Wait] = {}
    phases = [
        changes_of(messages, waits) for messages in (load.registers, load.callbacks, load.events)
    ]
    journal = FlushWriter("bare", 60.0)
    conn = await open_connection(PoolOptions(dsn=dsn, name="bare"))
    try:
        cpu, started = stage.cpu_seconds(), time.perf_counter()
        for changes in phases:
            for start in range(0, len(changes), batch):
                part = changes[start : start + batch]
                assert len(await journal.flush(conn, part)) == len(part)
        seconds, cpu = time.perf_counter() - started, stage.cpu_seconds() - cpu
    finally:
        await conn.close()
        await stage.drop(dsn)
    return Measure(load.messages, seconds, cpu)


def changes_of(messages: list[WaitMessage], waits: dict[bytes, Wait]) -> list[WaitChange]:
    """What these messages change; `waits` is how everything stands, before and after."""
    changes = []
    for message in messages:
        key = message.address.key
        before = waits.get(key)
        decision = apply(before, message, 1_800_000_000.0)
        assert decision.wait is not None
        waits[key] = decision.wait
        seen = NO_VERSION if before is None else before.version
        changes.append(WaitChange(key, 1, seen, decision.wait, list(decision.entries)))
    return changes
