"""Plays a scene against the running product and compares what it sees with what was promised."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.live import Live

from cli.dispatch import groups
from cli.dispatch.parsing import encode_with_raw, join_path
from cli.events import events
from cli.shell.client import Client
from cli.shell.errors import CommandError
from cli.shell.problems import ProblemResponseError
from tools.demo.dispatch.cast import DemoNames
from tools.demo.dispatch.receiver import DemoDelivery, DemoReceiver
from tools.demo.dispatch.scene import DispatchDemoOutcome, DispatchScenario, group_history
from tools.demo.dispatch.screen import DispatchPanel

LIMIT = 30.0  # seconds after which a scene has failed: a pool may still be starting
_PAUSE = 0.05
_SOURCE = "muster-demo"

OrderData = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchDemoResult:
    """One scene as it was played."""

    scene: DispatchScenario
    actual: DispatchDemoOutcome
    seconds: float
    arrived: int = 0
    faults: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it ended as promised."""
        return not self.faults and self.actual == self.scene.expected

    def actual_sentence(self) -> str:
        """What happened."""
        return "; ".join([self.actual.sentence(), *self.faults])

    def document(self) -> dict[str, Any]:
        """The result for scripts."""
        return {
            "scene": self.scene.key,
            "title": self.scene.title,
            "expected": self.scene.expected.sentence(),
            "seen": self.actual_sentence(),
            "ok": self.ok,
            "arrived": self.arrived,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchDemoRunner:
    """Where scenes are played: the product, the receiver, and the audience's screen."""

    muster: Client
    receiver: DemoReceiver
    cast: DemoNames
    console: Console

    async def play(self, scene: DispatchScenario, place: str) -> DispatchDemoResult:
        """Play one scene to its end."""
        began = time.monotonic()
        act = DispatchScenarioRun(self, DispatchPanel(scene, place))
        self.receiver.listener = act.view.note_delivery
        actual = DispatchDemoOutcome()
        faults: tuple[str, ...] = ()
        with Live(act.view, console=self.console, refresh_per_second=12):
            try:
                async with asyncio.timeout(LIMIT):
                    actual = DispatchDemoOutcome(tuple(await scene.play(act)))
            except TimeoutError:
                faults = (f"not at its end after {LIMIT:g} s: {act.so_far()}",)
            except CommandError as error:
                faults = (error.sentence,)
            act.view.end(as_expected=not faults and actual == scene.expected)
        self.receiver.listener = None
        if not self.console.is_terminal:
            self.console.print()  # Live ends its last frame with a line break on terminals only
        return DispatchDemoResult(
            scene=scene,
            actual=actual,
            seconds=time.monotonic() - began,
            arrived=len(act.deliveries),
            faults=faults,
        )


class DispatchScenarioRun:
    """One scene while it runs: what it can do, and what has arrived since it began."""

    def __init__(self, stage: DispatchDemoRunner, view: DispatchPanel) -> None:
        self.view = view
        self.muster = stage.muster
        self.receiver = stage.receiver
        self.cast = stage.cast
        self._before = len(stage.receiver.deliveries)

    @property
    def deliveries(self) -> list[DemoDelivery]:
        """What has arrived since the scene began."""
        return self.receiver.deliveries[self._before :]

    def group_history(self, subscriber: str, customer: str) -> str:
        """What has arrived of one group."""
        return group_history(self.deliveries, subscriber, customer)

    def so_far(self) -> str:
        """What has arrived, for whoever looks for what is missing."""
        lanes = dict.fromkeys((one.subscriber, one.customer) for one in self.deliveries)
        told = [
            f"{name} {customer}: {self.group_history(name, customer)}" for name, customer in lanes
        ]
        return ", ".join(told) or "nothing arrived"

    async def send(self, kind: str, text: str, **fields: str) -> Mapping[str, Any]:
        """Send an event with this JSON as its data; what Muster says."""
        event = {"type": self.cast.type_of(kind), "source": _SOURCE, **fields}
        reply: Mapping[str, Any] = await self.muster.post(
            events.PATH, encode_with_raw(event, "data", text)
        )
        return reply

    async def send_all(self, kind: str, all_data: Sequence[OrderData]) -> Mapping[str, Any]:
        """Send events in one request, each in the group of its customer; what Muster says."""
        batch = [
            {
                "type": self.cast.type_of(kind),
                "source": _SOURCE,
                "messageGroup": data["customer"],
                "data": data,
            }
            for data in all_data
        ]
        reply: Mapping[str, Any] = await self.muster.post(f"{events.PATH}/batch", batch)
        return reply

    def of(self, subscriber: str | None) -> list[DemoDelivery]:
        """What has arrived for one subscriber, or for all."""
        return [one for one in self.deliveries if subscriber in {None, one.subscriber}]

    async def count(self, many: int, subscriber: str | None = None) -> None:
        """Wait until so many have arrived, for one subscriber or for all."""
        await self.receiver.until(lambda: len(self.of(subscriber)) >= many, LIMIT)

    async def first(self, subscriber: str) -> DemoDelivery:
        """Wait for the first that arrives for a subscriber."""
        await self.count(1, subscriber)
        return self.of(subscriber)[0]

    async def blocked(self, subscriber: str, customer: str, behind: int) -> int:
        """Wait until a group is blocked with so many behind its head; how many there are."""
        name = self.cast.group_of(subscriber, customer)
        while True:
            try:
                group = await self.muster.get(join_path(groups.PATH, name))
            except ProblemResponseError as problem:
                if problem.status != 404:
                    raise
            else:
                if group["blocked"] and group["waiting"] >= behind:
                    return int(group["waiting"])
            await asyncio.sleep(_PAUSE)

    async def change_group(self, subscriber: str, customer: str, verb: str) -> None:
        """Skip a group's head, or resume it."""
        name = self.cast.group_of(subscriber, customer)
        self.view.note("muster", f"muster groups {verb} {name}")
        await self.muster.post(join_path(groups.PATH, name, verb), {})

    async def job_of(self, event_id: str, status: str) -> Mapping[str, Any]:
        """The one delivery of an event, once it stands so."""
        path = join_path("/api/dispatch-jobs/event", event_id)
        while True:
            jobs = (await self.muster.get(path))["items"]
            if jobs and jobs[0]["status"] == status:
                job: Mapping[str, Any] = jobs[0]
                return job
            await asyncio.sleep(_PAUSE)


def order(number: int, customer: str) -> dict[str, Any]:
    """The data of an event."""
    return {"order": number, "customer": customer, "total": 9.5}


def order_text(number: int, customer: str) -> str:
    """The same as it is sent."""
    return json.dumps(order(number, customer))
