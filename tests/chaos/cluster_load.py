"""The same callers, scenarios and account as over HTTP, one step further in: at the router."""

import asyncio
import contextlib
import itertools
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from actors.runtime.names import host_actor_name
from cli.shell.problems import ProblemResponseError
from core.shared.address import Address
from core.shared.config import Config
from core.shared.errors import OverloadedError, TransientError
from core.waits.messages import OfferReply, RefusedReply, RegisterReply, Reply, WaitMessage
from core.waits.state import ParkedEvent
from core.waits.transitions import apply
from storage.postgres.pool import Pool
from tests.support.shards import api, kafka, register
from tools.chaos.ack_log import AckLog
from tools.chaos.database_audit import DatabaseAudit
from tools.chaos.exercise import Drill, DrillPlan
from tools.chaos.load import LoadGenerator
from tools.chaos.receiver import StreamFollower
from tools.chaos.requests import SERVICE, TOPIC
from tools.chaos.scenario import (
    ChaosScenario,
    RequestChannel,
    ScenarioShape,
    ScenarioStep,
)
from tools.load.tasks import background

TENANT = 1
Send: TypeAlias = Callable[[WaitMessage], Awaitable[Reply]]


class WayIn(Protocol):
    """A client, or the parts of one."""

    @property
    def config(self) -> Config: ...

    @property
    def pool(self) -> Pool: ...

    @property
    def send(self) -> Send: ...


class RouterLoad(LoadGenerator):
    """Plays scenarios through a router."""

    def __init__(self, config: Config, send: Send, ack_log: AckLog, plan: DrillPlan) -> None:
        nobody: Any = None  # HTTP's client, which nothing here uses
        super().__init__(nobody, ack_log, run=plan.run, seed=plan.seed, rate=plan.rate)
        self.config = config
        self._deliver = send
        self.unanswered: dict[str, set[tuple[ChaosScenario, ScenarioStep]]] = defaultdict(set)
        """What each shard was asked and has not answered."""

    async def _send(self, scenario: ChaosScenario, step: ScenarioStep) -> dict[str, object]:
        where = address_of(scenario)
        unanswered = self.unanswered[host_actor_name(where.key, self.config)]
        unanswered.add((scenario, step))
        try:
            reply = await self._deliver(_message(where, scenario, step))
        except TransientError as error:
            status = 429 if isinstance(error, OverloadedError) else 503
            document = {"detail": str(error), "retryAfter": error.retry_after}
            raise ProblemResponseError(status, document) from error
        if isinstance(reply, RefusedReply):
            raise ProblemResponseError(409, {"code": reply.kind, "detail": reply.detail})
        unanswered.discard((scenario, step))
        if isinstance(reply, OfferReply):
            return {"verdict": reply.verdict, "reason": reply.reason}
        assert isinstance(reply, RegisterReply), reply
        return {}


class Crowd:
    """Correlations of chosen shards that take their steps together, when they are told to."""

    def __init__(self, load: RouterLoad, name: str, shards: list[str], size: int) -> None:
        self.size = size
        self._load = load
        scenarios = (_plain_story(f"{name}-{number}") for number in itertools.count())
        self._stories: list[ChaosScenario] = []
        self._strays: list[ChaosScenario] = []
        for shard in shards:
            here = (
                s for s in scenarios if host_actor_name(address_of(s).key, load.config) == shard
            )
            self._stories += itertools.islice(here, size)
            self._strays.append(replace(next(here), shape=ScenarioShape.ORPHAN))

    async def step(self, channel: RequestChannel) -> None:
        """Take one step each, and insist on the answers."""
        await self._go(self._stories, channel)

    async def send_strays(self) -> None:
        """Send each shard an event that nobody waits for, and insist on the answers."""
        await self._go(self._strays, RequestChannel.API)

    def strays_as_parked(self) -> list[ParkedEvent]:
        """How the inbox will keep them."""
        said = [
            _message(address_of(one), one, _step_to(one, RequestChannel.API))
            for one in self._strays
        ]
        return [apply(None, message, time.time()).parked[0] for message in said]

    async def _go(self, scenarios: list[ChaosScenario], channel: RequestChannel) -> None:
        async with asyncio.TaskGroup() as group:
            for scenario in scenarios:
                group.create_task(
                    self._load.send_until_acknowledged(scenario, _step_to(scenario, channel))
                )


@contextlib.asynccontextmanager
async def under_load(way_in: WayIn, plan: DrillPlan) -> AsyncIterator[tuple[Drill, RouterLoad]]:
    """Keep the actors under load for as long as the block lasts; then draw up the account."""
    ack_log = plan.create_ack_log()
    load = RouterLoad(way_in.config, way_in.send, ack_log, plan)
    nobody: Any = None  # streams are HTTP's part
    drill = Drill(plan, ack_log, load, StreamFollower(nobody, each=1))
    try:
        async with background(load.generate()):
            yield drill, load
        await drill.conclude(DatabaseAudit(way_in.pool, TENANT))
    finally:
        ack_log.close()


async def acknowledged(drill: Drill, more: int) -> None:
    """Return once so many requests more were acknowledged."""
    goal = len(drill.ack_log.acks) + more
    await until(f"{more} more acknowledged", lambda: len(drill.ack_log.acks) >= goal)


async def serves_again(way_in: WayIn, shard: str, since: float) -> float:
    """Seconds from `since` until this shard has taken a new correlation."""
    number = 0
    while True:
        number += 1
        where = Address(TENANT, f"probe-{since}-{number}", f"probe-{since}")
        if host_actor_name(where.key, way_in.config) != shard:
            continue
        with contextlib.suppress(TransientError):
            assert isinstance(await way_in.send(register(where)), RegisterReply)
            return time.monotonic() - since


async def until(
    what: str, check: Callable[[], bool | Awaitable[bool]], within: float = 60.0
) -> None:
    """Poll until `check` holds; say what was missing if it never does."""
    deadline = time.monotonic() + within
    while True:
        holds = check()
        if holds if isinstance(holds, bool) else await holds:
            return
        assert time.monotonic() < deadline, f"{what}: not within {within:g} s"
        await asyncio.sleep(0.02)


def address_of(scenario: ChaosScenario) -> Address:
    return Address(TENANT, scenario.execution_id, scenario.correlation_id)


def _plain_story(name: str) -> ChaosScenario:
    channels = (
        ScenarioStep(RequestChannel.REGISTER),
        ScenarioStep(RequestChannel.API, f"{name}-a"),
        ScenarioStep(RequestChannel.KAFKA, f"{name}-k"),
    )
    waves = tuple((step,) for step in channels)
    return ChaosScenario(
        execution_id=name, correlation_id=name, shape=ScenarioShape.ALL, waves=waves
    )


def _step_to(scenario: ChaosScenario, channel: RequestChannel) -> ScenarioStep:
    return next(step for wave in scenario.waves for step in wave if step.channel is channel)


def _message(where: Address, scenario: ChaosScenario, step: ScenarioStep) -> WaitMessage:
    if step.channel is RequestChannel.REGISTER:
        said = scenario.registration()
        return register(where, said["data"], node_id=said["nodeId"])
    offer, origin = (api, SERVICE) if step.channel is RequestChannel.API else (kafka, TOPIC)
    payload = json.dumps(scenario.payload(step)).encode()
    return offer(where, payload, event_id=f"{step.channel}/{origin}/{step.event_id}")
