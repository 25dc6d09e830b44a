"""Plays a dispatch scenario: sends events, and waits for deliveries, groups and jobs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cli.dispatch import groups
from cli.events import events
from cli.shell.client import Client
from cli.shell.parsing import encode_with_raw, join_path
from tools.demo.dispatch.panel import DispatchPanel
from tools.demo.dispatch.receiver import DemoDelivery, DemoReceiver
from tools.demo.dispatch.setup import DemoNames
from tools.demo.runner import ScriptedRun, none_on
from tools.demo.scenario import ScriptedScenario
from tools.load.tasks import poll

LIMIT = 30.0  # seconds: a pool may still be starting
_SOURCE = "muster-demo"

OrderData = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DispatchDemo:
    """The instance, the receiver, and the codes of this run."""

    muster: Client
    receiver: DemoReceiver
    names: DemoNames


class DispatchRun(ScriptedRun):
    """One scenario while it runs: what its script can do, and what has arrived since it began."""

    panel: DispatchPanel

    def __init__(
        self, demo: DispatchDemo, scenario: "ScriptedScenario[DispatchRun]", position: str
    ) -> None:
        super().__init__(scenario, DispatchPanel(scenario, position))
        self.limit = LIMIT
        self.muster, self.receiver, self.names = demo.muster, demo.receiver, demo.names
        self.receiver.listener = self.panel.note_delivery
        self._before = len(self.receiver.deliveries)

    def progress(self) -> str:
        rows = dict.fromkeys((one.subscriber, one.customer) for one in self.deliveries)
        parts = [f"{name} {customer}: {self.history(name, customer)}" for name, customer in rows]
        return ", ".join(parts) or "nothing arrived"

    def details(self) -> dict[str, Any]:
        return {"arrived": len(self.deliveries)}

    @property
    def deliveries(self) -> list[DemoDelivery]:
        return self.receiver.deliveries[self._before :]

    def deliveries_to(self, subscriber: str | None) -> list[DemoDelivery]:
        """Return the deliveries to one subscriber, or to all."""
        return [one for one in self.deliveries if subscriber in {None, one.subscriber}]

    def history(self, subscriber: str, customer: str) -> str:
        return group_history(self.deliveries, subscriber, customer)

    async def send(self, kind: str, text: str, **fields: str) -> Mapping[str, Any]:
        """Send an event with this JSON as its data; return Muster's reply."""
        event = {"type": self.names.type_of(kind), "source": _SOURCE, **fields}
        body = encode_with_raw(event, "data", text)
        reply: Mapping[str, Any] = await self.muster.post(events.PATH, body)
        return reply

    async def send_all(self, kind: str, all_data: Sequence[OrderData]) -> None:
        """Send events in one request, each in the message group of its customer."""
        event = {"type": self.names.type_of(kind), "source": _SOURCE}
        batch = [{**event, "messageGroup": data["customer"], "data": data} for data in all_data]
        await self.muster.post(f"{events.PATH}/batch", batch)

    async def wait_for_count(self, count: int, subscriber: str | None = None) -> None:
        """Wait for `count` deliveries, to one subscriber or to all."""
        await self.receiver.until(lambda _: len(self.deliveries_to(subscriber)) >= count, LIMIT)

    async def first_delivery(self, subscriber: str) -> DemoDelivery:
        await self.wait_for_count(1, subscriber)
        return self.deliveries_to(subscriber)[0]

    async def wait_until_blocked(self, subscriber: str, customer: str, behind: int) -> int:
        """Wait until `behind` jobs are blocked in a group; return how many there are."""
        name = self.names.group_of(subscriber, customer)

        async def count() -> int | None:
            group = await none_on(self.muster.get(join_path(groups.PATH, name)), 404)
            is_blocked = group and group["blocked"] and group["waiting"] >= behind
            return int(group["waiting"]) if is_blocked else None

        waiting = await poll(count)
        self.panel.note("blocked", f"{subscriber} {customer} is blocked, with {waiting} behind")
        return waiting

    async def change_group(self, subscriber: str, customer: str, verb: str) -> None:
        """Skip the job that blocks a group, or resume the group."""
        name = self.names.group_of(subscriber, customer)
        self.panel.note("command", f"muster groups {verb} {name}")
        await self.muster.post(join_path(groups.PATH, name, verb), {})

    async def job_of(self, event_id: str, status: str) -> Mapping[str, Any]:
        """Wait until the only job of an event has this status."""
        path = join_path("/api/dispatch-jobs/event", event_id)

        async def job() -> Mapping[str, Any] | None:
            jobs = (await self.muster.get(path))["items"]
            return jobs[0] if jobs and jobs[0]["status"] == status else None

        return await poll(job)


def order(number: int, customer: str) -> dict[str, Any]:
    return {"order": number, "customer": customer, "total": 9.5}


def order_text(number: int, customer: str) -> str:
    return json.dumps(order(number, customer))


def group_history(deliveries: Sequence[DemoDelivery], subscriber: str, customer: str) -> str:
    """List what a subscriber got of one group, in the order of arrival: `1 ✗2 3`."""
    own = [one for one in deliveries if (one.subscriber, one.customer) == (subscriber, customer)]
    return " ".join(one.mark() for one in own) or "nothing"


def busiest_second(moments: Sequence[float]) -> int:
    """Return the most arrivals within any one second."""
    ordered = sorted(moments)
    most = first = 0
    for last, moment in enumerate(ordered):
        while moment - ordered[first] >= 1.0:
            first += 1
        most = max(most, last - first + 1)
    return most
