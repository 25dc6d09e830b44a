"""A product whose database and broker are others': a Postgres pair behind a proxy, and a Kafka.

What happens to such a database is played here; `endured` holds the product to account for it.
"""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg

from cli.shell.client import Client, connect
from cli.shell.instance import Instance
from tests.chaos.cluster_load import until
from tests.support.kafka import Kafka, MessageToProduce, unique
from tests.support.product import Product, new_id, running_product
from tests.support.replica import ReplicatedPostgres, running_pair
from tools.chaos.exercise import ChaosTarget, Drill, DrillPlan, run_drill
from tools.chaos.faults.database import MAX_RECOVERY_SECONDS
from tools.chaos.load import LoadGenerator
from tools.chaos.probe import count_shards, wait_for_deadlines, wait_for_writes
from tools.chaos.scenario import ScenarioShape

WARM = 50  # acknowledged requests before and after
CALM = 1.0  # seconds that `served` takes at most where nothing else runs, and nothing is wrong
LISTENERS = 12  # waits for Kafka events that come during the fault


@dataclass(slots=True)
class FarProduct:
    """An instance, and the servers that it depends on."""

    product: Product
    pair: ReplicatedPostgres
    kafka: Kafka
    topic: str
    group: str
    load: LoadGenerator | None = None
    """What `endured` sends."""

    @property
    def target(self) -> ChaosTarget:
        return ChaosTarget(self.product.url, self.product.key, self.pair.direct)

    @property
    def target_by_name(self) -> ChaosTarget:
        """The same, with the address of the database that outlives a failover."""
        return ChaosTarget(self.product.url, self.product.key, self.pair.dsn)

    async def admin(self, *statements: str) -> None:
        """Do something to the server in charge, as its superuser."""
        conn = await asyncpg.connect(self.pair.admin)
        try:
            for statement in statements:
                await conn.execute(statement)
        finally:
            await conn.close()

    async def ask(self, query: str, *values: Any) -> Any:
        """One value from the server in charge."""
        conn = await asyncpg.connect(self.pair.admin)
        try:
            return await conn.fetchval(query, *values)
        finally:
            await conn.close()

    async def buried(self) -> int:
        """How many Kafka records were given up as dead letters."""
        return int(await self.ask("select count(*) from dead_letters"))

    async def processes(self, client: Client) -> dict[str, int]:
        """Which process each actor is: another one was started again."""
        report = await client.get("/api/status")
        return {one["name"]: one.get("pid", 0) for one in report["actors"]}


@contextlib.contextmanager
def running_far_product(folder: Path, kafka: Kafka) -> Iterator[FarProduct]:
    """Start all of it."""
    topic, group = asyncio.run(kafka.create_topic(unique("far"))), unique("muster")
    with (
        running_pair(folder) as pair,
        running_product(
            folder / ".muster",
            "--shards",
            "2",
            database_url=pair.dsn,
            request_timeout="4",
            sweep_every="2",
            kafka_bootstrap=kafka.bootstrap,
            kafka_group=group,
            kafka_topics=topic,
        ) as product,
    ):
        yield FarProduct(product, pair, kafka, topic, group)


Fault: TypeAlias = Callable[[FarProduct], AbstractAsyncContextManager[None]]
END_SESSIONS = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'muster'"


@dataclass(slots=True)
class Endured:
    """What came of some faults."""

    drill: Drill = field(init=False)
    allowed: float = MAX_RECOVERY_SECONDS
    serving_after: dict[str, float] = field(default_factory=dict)
    kafka_after: dict[str, float] = field(default_factory=dict)
    buried: int = 0
    restarted: list[str] = field(default_factory=list)
    listeners: Counter[str] = field(default_factory=Counter)

    def assert_clean(self) -> None:
        result = self.drill.result
        assert result.account.clean, [str(finding) for finding in result.account.findings[:10]]
        assert result.given_up == 0
        assert result.stats.unexpected == {}
        assert result.stats.bare == 0, "a refusal did not say when to come back"
        assert self.buried == 0, "good Kafka events were given up"
        assert set(self.listeners) == {"completed"}, f"Kafka events were lost: {self.listeners}"
        assert not self.restarted, "something ended and was started again"
        assert max(self.serving_after.values()) <= self.allowed, self.serving_after
        assert max(self.kafka_after.values()) <= self.allowed, self.kafka_after


async def endured(far: FarProduct, faults: Sequence[Fault], folder: Path) -> Endured:
    """Keep it under load before, during and after each fault; then draw up the account."""
    plan = DrillPlan(seed=1, folder=folder, rate=20.0, floor=2 * WARM)
    told = Endured()
    async with (
        connect(Instance(far.product.url, far.product.key)) as client,
        run_drill(far.target, plan) as drill,
    ):
        far.load = drill.load
        probes = 4 * await count_shards(client)
        before, buried = await far.processes(client), await far.buried()
        told.allowed = await allowed_recovery(client, probes)
        for fault in faults:
            await acknowledged(drill, WARM)
            await _endure(far, client, fault, probes, told)
        await acknowledged(drill, WARM)
        after = await far.processes(client)
        told.restarted = sorted(name for name, pid in before.items() if after.get(name) != pid)
        told.buried = await far.buried() - buried
    told.drill = drill
    return told


async def _endure(
    far: FarProduct, client: Client, fault: Fault, probes: int, told: Endured
) -> None:
    """One fault; waits for Kafka events that come before, during and after it."""
    listeners = [await listen(client, far.topic) for _ in range(LISTENERS)]
    await tell(far, listeners[: LISTENERS // 3])
    async with fault(far):
        await tell(far, listeners[LISTENERS // 3 : -1])
    ended = time.monotonic()
    told.serving_after[fault.__name__] = await served(client, probes)
    await tell(far, listeners[-1:])
    for ids in listeners:
        path = f"/api/wait-states/{ids['executionId']}/{ids['correlationId']}"
        shown = await client.get(path, {"wait": 20}, server_wait=20)
        told.listeners[shown["status"]] += 1
    told.kafka_after[fault.__name__] = time.monotonic() - ended


async def served(client: Client, probes: int) -> float:
    """Seconds until every shard takes new waits, and a deadline that is set now fires."""
    began = time.monotonic()
    async with asyncio.timeout(300):
        await wait_for_writes(client, probes)
        await wait_for_deadlines(client)
    return time.monotonic() - began


async def allowed_recovery(client: Client, probes: int) -> float:
    """Seconds that recovery may take here: longer where others keep the machine busy."""
    return MAX_RECOVERY_SECONDS * max(1.0, await served(client, probes) / CALM)


async def acknowledged(drill: Drill, more: int) -> None:
    """Return once so many requests more were acknowledged."""
    tally = drill.load.stats
    goal = tally.acknowledged + more
    await until(f"{more} more acknowledged", lambda: tally.acknowledged >= goal)


async def listen(client: Client, topic: str, timeout: float = 900) -> dict[str, str]:
    """Register a wait that one Kafka event completes; its ids."""
    ids = {"executionId": new_id(), "correlationId": new_id()}
    data = {
        "apiCall": {"url": "http://127.0.0.1:9/process"},
        "kafkaEvent": {"topic": topic},
        "aggregationStrategy": "any",
        "timeout": timeout,
    }
    await client.post("/api/wait-states", {**ids, "nodeId": "wait", "data": data})
    return ids


def record_for(ids: dict[str, str], **more: Any) -> MessageToProduce:
    """A Kafka event for a wait."""
    named = {"execution_id": ids["executionId"], "correlation_id": ids["correlationId"]}
    return MessageToProduce(value=json.dumps({**named, **more}).encode())


async def tell(far: FarProduct, waits: list[dict[str, str]]) -> None:
    """Produce the Kafka event of each of these waits."""
    await far.kafka.produce(far.topic, [record_for(ids) for ids in waits])


@contextlib.asynccontextmanager
async def shifted_clock(far: FarProduct, minutes: int) -> AsyncIterator[None]:
    """Let the database tell another time to all who ask it by name, as another machine would.

    The product's own functions go before those of PostgreSQL in its search path. What a table
    writes by itself (`default now()`) keeps the real time.
    """
    await no_near_deadlines(far)
    shift = f"interval '{minutes} minutes'"
    await far.admin(
        "create schema if not exists another_clock",
        "grant usage on schema another_clock to muster",
        *(
            f"create or replace function another_clock.{name}() returns timestamptz language sql"
            f" {kind} as 'select pg_catalog.{name}() + {shift.replace(chr(39), chr(39) * 2)}'"
            for name, kind in (
                ("now", "stable"),
                ("statement_timestamp", "stable"),
                ("clock_timestamp", "volatile"),
            )
        ),
        "alter role muster set search_path = another_clock, pg_catalog, public",
        END_SESSIONS,
    )
    _near_deadlines_again(far)
    try:
        yield
        await no_near_deadlines(far)
    finally:
        await far.admin("alter role muster reset search_path", END_SESSIONS)
        _near_deadlines_again(far)


_NEAR = """select count(*) from execution_wait_states
 where status = 'waiting' and expires_at - created_at < interval '10 seconds'"""


async def no_near_deadlines(far: FarProduct) -> None:
    """Return once nothing waits for the clock alone: that would be another one."""
    if far.load is None:
        return
    load = far.load
    load.excluded_shapes.add(ScenarioShape.UNANSWERED)
    await until("no such scenario", lambda: load.under_way[ScenarioShape.UNANSWERED] == 0)
    for _ in range(300):
        if not await far.ask(_NEAR):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("waits whose deadline is near do not end")


def _near_deadlines_again(far: FarProduct) -> None:
    """From now on, without a pause: these are the deadlines that a wrong clock would set."""
    if far.load is not None:
        far.load.excluded_shapes.discard(ScenarioShape.UNANSWERED)
