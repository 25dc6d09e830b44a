"""Too much by Kafka: one correlation, ids that nobody has, headers that cannot be stored.

Ingest reads in order and commits what it has done, so one record that it cannot get rid of would
stop all topics of all tenants.
"""

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cli.shell.client import Client, connect, wait_path
from cli.shell.instance import Instance
from tests.chaos.cluster_load import until
from tests.chaos.far_database import FarProduct, listen, record_for, tell
from tests.support.kafka import MessageToProduce
from tests.support.product import new_id
from tools.chaos.faults.database import MAX_RECOVERY_SECONDS

EVENTS = 10_000
EARLY = 2_000
LOAD, EACH_BAD = 2_000, 500  # 0.2 % of the load is poison
POISON = (
    ("content-type", b"text/pl\x00ain"),
    ("content-type", b"\xff\xfe"),
    ("x-correlation-id", b"a\x00b"),
    ("ce_type", b"\x00"),
)


@pytest.fixture
async def client(far: FarProduct) -> AsyncIterator[Client]:
    async with connect(Instance(far.product.url, far.product.key)) as opened:
        yield opened


async def _goes_on(far: FarProduct, client: Client) -> float:
    """Seconds until an event that is produced now has reached its wait."""
    began = time.monotonic()
    ids = await listen(client, far.topic)
    await tell(far, [ids])
    assert await _status(client, ids, wait=30) == "completed"
    return time.monotonic() - began


async def _status(client: Client, ids: dict[str, str], wait: int = 0) -> str:
    path = wait_path(ids["executionId"], ids["correlationId"])
    shown = await client.get(path, {"wait": wait} if wait else None, server_wait=wait)
    return str(shown["status"])


async def _read_all(far: FarProduct) -> None:
    """Return once ingest has handled all there is, and said so to the broker."""
    ends = await far.kafka.end_offsets(far.topic)

    async def all_committed() -> bool:
        committed = await far.kafka.committed(far.group)
        return all(committed.get((far.topic, part), 0) >= end for part, end in ends.items())

    await until("everything is handled", all_committed, within=90)


async def test_one_correlation_with_ten_thousand_events(far: FarProduct, client: Client) -> None:
    buried, before = await far.buried(), await far.processes(client)
    ids = await listen(client, far.topic)
    await far.kafka.produce(far.topic, [record_for(ids, n=number) for number in range(EVENTS)])
    assert await _goes_on(far, client) < 30
    await _read_all(far)
    assert await _status(client, ids) == "completed"
    assert await far.buried() == buried, "what comes too late is no dead letter"
    assert await far.processes(client) == before
    assert await _goes_on(far, client) < MAX_RECOVERY_SECONDS


async def test_early_events_without_end(far: FarProduct, client: Client) -> None:
    """One constant id by mistake; then somebody registers it."""
    before = await far.processes(client)
    ids = {"executionId": new_id(), "correlationId": new_id()}
    early = [record_for(ids, n=number, pad="x" * 10_000) for number in range(EARLY)]
    await far.kafka.produce(far.topic, early)
    await _read_all(far)
    data = {"kafkaEvent": {"topic": far.topic}, "timeout": 900}
    began = time.monotonic()
    await client.post("/api/wait-states", {**ids, "nodeId": "wait", "data": data})
    assert time.monotonic() - began < MAX_RECOVERY_SECONDS
    assert await _status(client, ids, wait=10) == "completed"
    assert await _goes_on(far, client) < MAX_RECOVERY_SECONDS
    assert await far.processes(client) == before


async def test_headers_that_cannot_be_stored(far: FarProduct, client: Client) -> None:
    """Each is refused, kept or read past by itself; all others reach their waits."""
    buried = await far.buried()
    waits = await _register_many(far, client, LOAD)
    records: list[MessageToProduce] = []
    bad = 0
    for number, ids in enumerate(waits):
        records.append(record_for(ids))
        if number % EACH_BAD == 0:
            header = POISON[bad % len(POISON)]
            stray = record_for({"executionId": new_id(), "correlationId": new_id()})
            records.append(MessageToProduce(value=stray.value, headers=[header]))
            bad += 1
    await far.kafka.produce(far.topic, records)
    await _read_all(far)
    found = await far.ask(
        "select count(*) from execution_wait_states where status = 'completed'"
        " and execution_id = any($1)",
        [ids["executionId"] for ids in waits],
    )
    assert found == LOAD
    assert await far.buried() - buried <= bad, "a good record was given up with a bad one"
    assert await _goes_on(far, client) < MAX_RECOVERY_SECONDS


async def _register_many(far: FarProduct, client: Client, count: int) -> list[dict[str, str]]:
    waits = [{"executionId": new_id(), "correlationId": new_id()} for _ in range(count)]
    data: dict[str, Any] = {"kafkaEvent": {"topic": far.topic}, "timeout": 900}
    for start in range(0, count, 500):
        items = [{**ids, "nodeId": "wait", "data": data} for ids in waits[start : start + 500]]
        await client.post("/api/wait-states/batch", {"items": items})
    return waits
