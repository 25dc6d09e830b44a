"""A cluster with the product's actors in it, and a load on them: what every drill works with."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from actors.client import ActorClient
from actors.messaging.shard_client import ShardClient
from actors.runtime.directory import Directory
from actors.runtime.names import SUPERVISOR, TIMER, shard_name
from core.shared.config import Config
from core.shared.errors import UnavailableError
from host.paths import InstancePaths
from tests.chaos.cluster_load import Crowd, RouterLoad
from tests.chaos.cluster_nodes import Node, Nodes
from tests.chaos.cluster_witness import Witness, ports_of
from tools.chaos.exercise import Drill, DrillPlan

WARM = 150  # acknowledged requests before and after each fault
CROWD = 20  # correlations a shard


@dataclass(slots=True)
class Stage:
    """Nodes, actors, a way in, and a witness."""

    nodes: Nodes
    places: InstancePaths
    client: ActorClient
    witness: Witness
    database_port: int
    _drills: int = 0
    _directory: Directory = field(init=False)

    def __post_init__(self) -> None:
        self._directory = Directory(self.config)

    @property
    def config(self) -> Config:
        return self.client.config

    @property
    def shards(self) -> list[str]:
        return [shard_name(index) for index in range(self.config.shards)]

    def plan(self) -> DrillPlan:
        """The load of the next drill."""
        self._drills += 1
        folder = self.places.data_dir / "ledgers"
        return DrillPlan(seed=self._drills, folder=folder, rate=40.0, floor=2 * WARM)

    def crowd(self, drill: Drill, shards: list[str]) -> Crowd:
        """Correlations of these shards, with a router of their own, where nothing else waits."""
        router = ShardClient.open(self.config, self._directory)
        load = RouterLoad(self.config, router.send, drill.ack_log, drill.plan)
        return Crowd(load, f"crowd-{drill.plan.run}", shards, CROWD)

    async def unsaved(self, shard: str) -> int:
        """How many correlations of this shard are decided and not written."""
        report = await self._directory.call(shard, "report")
        return int(report["stats"].get("unsaved", 0))

    async def pids(self, names: list[str], within: float = 120.0) -> dict[str, int]:
        """Where these actors run, once all of them answer."""
        found: dict[str, int] = {}
        deadline = time.monotonic() + within
        while missing := [name for name in names if name not in found]:
            assert time.monotonic() < deadline, f"{missing} do not answer"
            for name in missing:
                try:
                    found[name] = _pid_in(await self._directory.call(name, "report"))
                except UnavailableError:
                    await asyncio.sleep(0.1)
        return found

    async def victim(self) -> tuple[Node, dict[str, int]]:
        """A node that hosts shards and is not the head, and all its actors."""
        for _ in range(5):
            pids = await self.pids([*self.shards, TIMER, SUPERVISOR])
            for node in self.nodes.others:
                here = {name: pid for name, pid in pids.items() if node.hosts(pid)}
                if set(here) & set(self.shards):
                    return node, here
            # After some rounds all live on the node that was never hit: let Ray deal them anew.
            for shard in self.shards:
                os.kill(pids[shard], signal.SIGKILL)
        raise AssertionError("no shard outside the head node")

    async def ports(self) -> set[int]:
        """Over which ports the shards that serve are connected to Postgres."""
        return ports_of((await self.pids(self.shards)).values(), self.database_port)


@asynccontextmanager
async def actors_on(
    nodes: Nodes, places: InstancePaths, dsn: str, port: int
) -> AsyncIterator[Stage]:
    """Bring the actors up on these nodes; they end with the nodes."""
    witness = await Witness.install(dsn)
    client = await ActorClient.open(Config(dsn=dsn, shards=4, secret_keys=(b"k" * 32,)))
    try:
        yield Stage(nodes, places, client, witness, port)
    finally:
        await client.close()
        await witness.close()


def _pid_in(report: dict[str, Any]) -> int:
    own = report["actors"][0] if "actors" in report else report  # the supervisor tells of all
    return int(own["pid"])
