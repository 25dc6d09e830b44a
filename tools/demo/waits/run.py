"""Plays a wait scenario against the running instance and reads its outcome."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.console import RenderableType
from rich.spinner import Spinner

from cli.shell.client import Client, wait_path
from cli.shell.follow import follow
from cli.shell.sse import ServerEvent
from tools.demo.runner import ScenarioRun
from tools.demo.screen import ScenarioPanel
from tools.demo.waits.broker import BROKER_TIMEOUT, DemoBroker
from tools.demo.waits.script import SERVICE_URL, WaitDemoOutcome, WaitScenario, verdict_text
from tools.demo.waits.service import ExternalService, SentEvent, SentEvents, ServiceCall

_LIMIT, _BROKER_LIMIT = 15.0, 2 * BROKER_TIMEOUT


@dataclass(frozen=True, slots=True)
class WaitDemo:
    """The instance, the fake service, and how the workflow reaches it."""

    muster: Client
    caller: Client
    service: ExternalService
    run_id: str
    broker: DemoBroker | None = None


class WaitPanel(ScenarioPanel):
    """Shows the live log of a wait, and which events are still pending."""

    pending: tuple[str, ...] = ()

    def note_log_entry(self, event: ServerEvent) -> None:
        """Add an entry of the wait's live log, except for those that a verdict describes."""
        entry = event.data()
        name = str(entry.get("event"))
        match event.kind:
            case "registered":
                self.pending = tuple(entry.get("enabledEvents") or self.pending)
                self.note("registered", "registered, waiting")
            case "received":
                self.note("received", f"{name}  {one_line(entry.get('data'))}")
            case "timed_out" | "failed":
                self.note("timed_out", f"{name} did not come in time")
            case "ended":
                self.pending = ()
                self.note(str(entry.get("status")), ended_text(entry))
            case _:
                pass
        self.pending = tuple(other for other in self.pending if other != name)

    def note_sent(self, sent: SentEvent) -> None:
        """Add Muster's reply to an event that does not count, or not yet."""
        if sent.verdict != "matched":
            reply = sent.reply.get("detail") or sent.reply
            self.note(sent.verdict, f"{sent.event.via} {sent.verdict}: {reply}")

    def below(self) -> Sequence[RenderableType]:
        if not self.pending:
            return ()
        text = f"[dim]{self.timestamp(self.elapsed)}  waiting for {', '.join(self.pending)}[/]"
        return (Spinner("dots", text, style="cyan"),)


class WaitRun(ScenarioRun):
    """One wait while it runs."""

    panel: WaitPanel

    def __init__(self, demo: WaitDemo, scenario: WaitScenario, position: str) -> None:
        super().__init__(WaitPanel(scenario, position))
        self.limit = _BROKER_LIMIT if scenario.publishes else _LIMIT
        self._ids = (f"demo-{demo.run_id}-{scenario.key}", f"process-{demo.run_id}-{scenario.key}")
        self._demo = demo
        self._scenario = scenario
        self._sent: list[SentEvent] = []
        self._summary: str | None = None

    async def run(self) -> WaitDemoOutcome:
        for event in self._scenario.early:
            self._note(await self._demo.service.deliver(self._service_call(), event, 0))
        call = await self._register()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_log())
            sent = self._demo.service.plan(call.execution_id, self._scenario.events)
            group.create_task(self._collect_replies(sent))
            await self._call_service(call)
        if self._scenario.publishes and self._demo.broker is not None:
            place = await self._demo.broker.wait_for_completion_event(*self._ids)
            self.panel.note("completed", f"published to {place}")
        state = await self._demo.muster.get(wait_path(*self._ids))
        self._summary = (await self._explain()).get("summary")
        self.faults += foreign_data(state, self._sent)
        return read_outcome(state, self._sent)

    def details(self) -> dict[str, Any]:
        return {
            "executionId": self._ids[0],
            "correlationId": self._ids[1],
            "verdicts": list(verdicts_of(self._sent)),
            "explanation": self._summary,
        }

    async def _register(self) -> ServiceCall:
        ids = {"executionId": self._ids[0], "correlationId": self._ids[1]}
        data = with_service(self._scenario.config, self._demo.service.url)
        body = {**ids, "type": "wait_events", "data": data}
        registered = await self._demo.muster.post("/api/wait-states", body)
        self.panel.pending = tuple(registered.get("enabledEvents") or ())
        return self._service_call(registered.get("callbackUrl"))

    def _service_call(self, callback_url: str | None = None) -> ServiceCall:
        execution_id, correlation_id = self._ids
        return ServiceCall(
            execution_id=execution_id, correlation_id=correlation_id, callback_url=callback_url
        )

    async def _call_service(self, call: ServiceCall) -> None:
        """Make the API call, as the workflow would; without one the service begins by itself."""
        if self._scenario.calls_api:
            body = {"action": "process", **msgspec.to_builtins(call)}
            await self._demo.caller.post("/process", body)
        else:
            self._demo.service.begin(call)

    async def _follow_log(self) -> None:
        async for event in follow(self._demo.muster, *self._ids):
            self.panel.note_log_entry(event)

    async def _collect_replies(self, replies: SentEvents) -> None:
        for _ in self._scenario.events:
            sent = await replies.get()
            self._note(sent)
            if sent.verdict == "rejected":
                await self._check_near_miss(sent)

    def _note(self, sent: SentEvent) -> None:
        self._sent.append(sent)
        self.panel.note_sent(sent)

    async def _check_near_miss(self, sent: SentEvent) -> None:
        """Check that `explain` lists a rejected event with its reason."""
        explanation = await self._explain()
        misses = {miss.get("eventId"): miss for miss in explanation.get("nearMisses") or ()}
        if sent.event_id in misses:
            self.panel.note("explain", f"near miss: {misses[sent.event_id].get('sentence')}")
        else:
            self.faults.append(f"explain does not list {sent.event_id}")

    async def _explain(self) -> Mapping[str, Any]:
        explanation: Mapping[str, Any] = await self._demo.muster.get(
            wait_path(*self._ids, "explain")
        )
        self.panel.note("explain", f"explain: {explanation.get('summary')}")
        return explanation


def with_service(config: Mapping[str, Any], url: str) -> dict[str, Any]:
    """Put the address of the fake service into a configuration."""
    call = dict(config["apiCall"])
    if "url" in call:
        call["url"] = SERVICE_URL.format(service=url)
    return {**config, "apiCall": call}


def verdicts_of(sent: Sequence[SentEvent]) -> tuple[str, ...]:
    return tuple(verdict_text(one.event.via, one.verdict, one.reply.get("reason")) for one in sent)


def read_outcome(state: Mapping[str, Any], sent: Sequence[SentEvent]) -> WaitDemoOutcome:
    events = state.get("events") or {}
    received = {name for name, event in events.items() if event.get("outcome") == "received"}
    return WaitDemoOutcome(
        status=str(state.get("status")),
        received=frozenset(received),
        lacking=frozenset(events) - received,
        partial=bool(state.get("partial")),
        warned=bool(state.get("warning")),
        verdicts=verdicts_of(sent),
    )


def foreign_data(state: Mapping[str, Any], sent: Sequence[SentEvent]) -> list[str]:
    """Name received events whose data is not what was sent under their id."""
    sent_data = {one.event_id: one.event.data for one in sent}
    faults: list[str] = []
    for name, event in (state.get("events") or {}).items():
        if event.get("outcome") != "received":
            continue
        expected, actual = sent_data.get(str(event.get("eventId"))), event.get("data")
        if expected is None:
            faults.append(f"{name} has the id {event.get('eventId')}, which nobody sent")
        elif actual != dict(expected):
            faults.append(f"{name} carries {actual}")
    return faults


def ended_text(entry: Mapping[str, Any]) -> str:
    status, warning = entry.get("status"), entry.get("warning")
    return f"{status}, with a warning: {warning}" if warning else f"{status}"


def one_line(data: Any, limit: int = 80) -> str:
    text = json.dumps(data, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"
