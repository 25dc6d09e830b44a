"""A replica takes over that had not got the last transactions of its primary.

What was acknowledged in those is gone; that is what asynchronous replication means. What matters is
what follows: the actors remember things that their database never heard of.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from cli.shell.client import Client, connect, wait_path
from cli.shell.instance import Instance
from tests.chaos.far_database import (
    WARM,
    FarProduct,
    acknowledged,
    allowed_recovery,
    endured,
    served,
    tell,
)
from tests.support.product import new_id
from tools.chaos.exercise import DrillPlan, run_drill
from tools.chaos.probe import count_shards

CALL = {"url": "http://127.0.0.1:9/process"}
NOBODY = 1_000_000_000  # follows each so-manieth wait
SETTLED = 1.0  # seconds until every answer of the old primary has reached its caller


class Remembered:
    """Waits that the actors know of, and whose database forgets the last that they did."""

    def __init__(self, far: FarProduct, client: Client) -> None:
        self._far = far
        self._client = client
        # A specification that nobody has used: the first wait with it stores it.
        self.config = {
            "apiCall": CALL,
            "kafkaEvent": {"topic": far.topic},
            "timeout": 600 + (time.time() % 100),
        }
        self.half = _new_ids()
        self.whole = _new_ids()
        self.unknown = _new_ids()

    async def before(self) -> None:
        """What the replica gets."""
        for ids in (self.half, self.whole):
            await self._register(ids, {**self.config, "timeout": 900})

    async def tail(self) -> None:
        """What it does not get."""
        await self._call_back(self.half)
        await self._call_back(self.whole)
        await tell(self._far, [self.whole])
        shown = await self._client.get(_path(self.whole), {"wait": 15})
        assert shown["status"] == "completed"
        await self._register(self.unknown, self.config)
        await self._call_back(self.unknown)

    async def after(self) -> None:
        """Each of them can be found, and ended, by those who send again what was lost."""
        await self._register(self.unknown, self.config)
        another = _new_ids()
        await self._register(another, self.config)
        for ids in (self.half, self.whole, self.unknown, another):
            assert (await self._client.get(_path(ids)))["status"] == "waiting"
            verdict = await self._call_back(ids)
            assert verdict["verdict"] == "matched", f"{ids}: {verdict}"
        await tell(self._far, [self.half, self.whole, self.unknown, another])
        for ids in (self.half, self.whole, self.unknown, another):
            shown = await self._client.get(_path(ids), {"wait": 15})
            assert shown["status"] == "completed", shown

    async def _register(self, ids: dict[str, str], config: dict[str, Any]) -> None:
        await self._client.post("/api/wait-states", {**ids, "nodeId": "wait", "data": config})

    async def _call_back(self, ids: dict[str, str]) -> dict[str, Any]:
        headers = {
            "X-Execution-Id": ids["executionId"],
            "X-Correlation-Id": ids["correlationId"],
            "X-Event-Id": f"answer-{ids['executionId']}",
        }
        path = "/api/internal/callbacks/external-service"
        return dict(await self._client.post(path, {"ok": True}, headers))


def _new_ids() -> dict[str, str]:
    return {"executionId": new_id(), "correlationId": new_id()}


def _path(ids: dict[str, str]) -> str:
    return wait_path(ids["executionId"], ids["correlationId"])


async def test_nothing_acknowledged_after_a_promotion_is_lost(
    far: FarProduct, tmp_path: Path
) -> None:
    pair = far.pair
    plan = DrillPlan(seed=2, folder=tmp_path, rate=20.0, follow_each=NOBODY, floor=2 * WARM)
    async with (
        connect(Instance(far.product.url, far.product.key)) as client,
        run_drill(far.target_by_name, plan) as drill,
    ):
        probes = 4 * await count_shards(client)
        before, remembered = await far.processes(client), Remembered(far, client)
        allowed = await allowed_recovery(client, probes)
        await remembered.before()
        await acknowledged(drill, WARM)
        await pair.caught_up()
        await pair.disconnect_replica()
        await remembered.tail()
        await acknowledged(drill, WARM)

        await asyncio.to_thread(pair.fail_over)
        promoted = time.monotonic()
        await asyncio.sleep(SETTLED)
        drill.ack_log.forget_earlier()
        await served(client, probes)
        serving_after = time.monotonic() - promoted
        await remembered.after()
        await acknowledged(drill, 2 * WARM)
        assert await far.processes(client) == before, "something ended and was started again"
    result = drill.result
    assert result.account.clean, [str(finding) for finding in result.account.findings[:10]]
    assert result.given_up == 0
    assert result.stats.unexpected == {}
    assert await far.buried() == 0
    assert serving_after <= allowed


async def test_all_is_as_before_on_the_promoted_server(far: FarProduct, tmp_path: Path) -> None:
    @contextlib.asynccontextmanager
    async def nothing(_far: FarProduct) -> AsyncIterator[None]:
        yield

    assert far.pair.promoted
    (await endured(far, [nothing], tmp_path)).assert_clean()
