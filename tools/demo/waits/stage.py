"""Plays a scene against the running product and compares what it sees with what was promised."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.live import Live

from cli.shell.client import Client, wait_path
from cli.shell.errors import CommandError
from cli.waits.follow import follow
from tools.demo.waits.broker import BROKER_TIMEOUT, DemoBroker
from tools.demo.waits.scene import WaitDemoOutcome, WaitScenario, verdict_text
from tools.demo.waits.screen import ScenarioPanel
from tools.demo.waits.script import BROKER_SCENARIOS, SCENARIOS, SERVICE_URL
from tools.demo.waits.service import ExternalService, SentEvent, ServiceCall

_LIMIT = 15.0  # seconds after which a scene has failed
_BROKER_LIMIT = 2 * BROKER_TIMEOUT
NO_OUTCOME: tuple[WaitDemoOutcome, dict[str, Any]] = (WaitDemoOutcome(status="no answer"), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitDemoResult:
    """One scene as it was played."""

    scene: WaitScenario
    execution_id: str
    correlation_id: str
    actual: WaitDemoOutcome
    seconds: float
    deliveries: tuple[SentEvent, ...] = ()
    explanation: Mapping[str, Any] = field(default_factory=dict)
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
            "executionId": self.execution_id,
            "correlationId": self.correlation_id,
            "expected": self.scene.expected.sentence(),
            "seen": self.actual_sentence(),
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "verdicts": list(self.actual.verdicts),
            "explanation": self.explanation.get("summary"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitDemoRunner:
    """Where scenes are played: the product, the fake service, and the audience's screen."""

    muster: Client
    caller: Client  # how the workflow reaches the external service
    service: ExternalService
    console: Console
    run_id: str
    broker: DemoBroker | None = None

    @property
    def scenes(self) -> tuple[WaitScenario, ...]:
        """What can be played here."""
        return SCENARIOS if self.broker is None else (*SCENARIOS, *BROKER_SCENARIOS)

    async def play(self, scene: WaitScenario, place: str) -> WaitDemoResult:
        """Play one scene to its end."""
        began = time.monotonic()
        act = _ScenarioRun(self, scene, ScenarioPanel(scene, place))
        with Live(act.view, console=self.console, refresh_per_second=12):
            fault = await act.run()
            seen, explanation = NO_OUTCOME
            if fault is None:
                seen, explanation = await act.read_result()
        if not self.console.is_terminal:
            self.console.print()  # Live ends its last frame with a line break on terminals only
        return WaitDemoResult(
            scene=scene,
            execution_id=act.execution_id,
            correlation_id=act.correlation_id,
            actual=seen,
            seconds=time.monotonic() - began,
            deliveries=tuple(act.deliveries),
            explanation=explanation,
            faults=(fault,) if fault else tuple(act.faults),
        )


class _ScenarioRun:
    """The state of one scene while it runs."""

    def __init__(self, stage: WaitDemoRunner, scene: WaitScenario, view: ScenarioPanel) -> None:
        self.execution_id = f"demo-{stage.run_id}-{scene.key}"
        self.correlation_id = f"process-{stage.run_id}-{scene.key}"
        self.view = view
        self.deliveries: list[SentEvent] = []
        self.faults: list[str] = []
        self._stage = stage
        self._scene = scene
        self._told: asyncio.Queue[SentEvent] = asyncio.Queue()

    async def run(self) -> str | None:
        """Everything until the end of the wait; what went wrong, if it did."""
        try:
            async with asyncio.timeout(self._limit):
                await self._send_early()
                call = await self._register()
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._watch())
                    group.create_task(self._listen())
                    await self._call(call)
                if self._scene.publishes:
                    await self._await_completion_event()
        except TimeoutError:
            return f"still waiting after {self._limit:g} s"
        except CommandError as error:
            return error.sentence
        except ExceptionGroup as group_error:
            reasons = [error for error in group_error.exceptions if isinstance(error, CommandError)]
            if len(reasons) != len(group_error.exceptions):
                raise
            return "; ".join(reason.sentence for reason in reasons)
        return None

    async def read_result(self) -> tuple[WaitDemoOutcome, dict[str, Any]]:
        """How the wait stands, and the product's own words for it."""
        path = wait_path(self.execution_id, self.correlation_id)
        state = await self._stage.muster.get(path)
        story = await self._stage.muster.get(f"{path}/explain")
        self.view.note("explain", f"explain: {story.get('summary')}")
        self.faults += foreign_data(state, self.deliveries)
        return read_outcome(state, self.deliveries), story

    async def _send_early(self) -> None:
        call = ServiceCall(execution_id=self.execution_id, correlation_id=self.correlation_id)
        for arrival in self._scene.early:
            self._take(await self._stage.service.deliver(call, arrival, 0))

    async def _register(self) -> ServiceCall:
        config = with_service(self._scene.config, self._stage.service.url)
        body = {
            "executionId": self.execution_id,
            "correlationId": self.correlation_id,
            "type": "wait_events",
            "data": config,
        }
        registered = await self._stage.muster.post("/api/wait-states", body)
        self.view.expect(registered.get("enabledEvents") or ())
        return ServiceCall(
            execution_id=self.execution_id,
            correlation_id=self.correlation_id,
            callback_url=registered.get("callbackUrl"),
        )

    async def _call(self, call: ServiceCall) -> None:
        """Make the API call, as the workflow would; without one the service acts by itself."""
        service = self._stage.service
        service.plan(call.execution_id, self._scene.arrivals, self._told.put_nowait)
        if not self._scene.calls_api:
            service.begin(call)
            return
        body = {
            "action": "process",
            "execution_id": call.execution_id,
            "correlation_id": call.correlation_id,
            "callbackUrl": call.callback_url,
        }
        await self._stage.caller.post("/process", body)

    async def _await_completion_event(self) -> None:
        broker = self._stage.broker
        if broker is not None:
            told_at = await broker.wait_for_completion_event(self.execution_id, self.correlation_id)
            self.view.note("completed", f"told to {told_at}")

    @property
    def _limit(self) -> float:
        return _BROKER_LIMIT if self._scene.publishes else _LIMIT

    async def _watch(self) -> None:
        async for event in follow(self._stage.muster, self.execution_id, self.correlation_id):
            self.view.note_entry(event)

    async def _listen(self) -> None:
        for _ in self._scene.arrivals:
            delivery = await self._told.get()
            self._take(delivery)
            if delivery.verdict == "rejected":
                await self._ask_why(delivery)

    def _take(self, delivery: SentEvent) -> None:
        self.deliveries.append(delivery)
        self.view.note_delivery(delivery)

    async def _ask_why(self, delivery: SentEvent) -> None:
        """A refused event has to be known to `explain`, with the reason and both values."""
        path = wait_path(self.execution_id, self.correlation_id, "explain")
        story = await self._stage.muster.get(path)
        self.view.note("explain", f"explain: {story.get('summary')}")
        misses = {miss.get("eventId"): miss for miss in story.get("nearMisses") or ()}
        if delivery.event_id in misses:
            self.view.note("explain", f"came near: {misses[delivery.event_id].get('sentence')}")
        else:
            self.faults.append(f"explain does not know {delivery.event_id}")


def with_service(config: Mapping[str, Any], url: str) -> dict[str, Any]:
    """The configuration with the fake service's real address."""
    call = dict(config["apiCall"])
    if "url" in call:
        call["url"] = SERVICE_URL.format(service=url)
    return {**config, "apiCall": call}


def read_outcome(state: Mapping[str, Any], deliveries: Sequence[SentEvent]) -> WaitDemoOutcome:
    """What a wait state and the verdicts come down to."""
    events = state.get("events") or {}
    received = {name for name, event in events.items() if event.get("outcome") == "received"}
    return WaitDemoOutcome(
        status=str(state.get("status")),
        received=frozenset(received),
        lacking=frozenset(events) - received,
        partial=bool(state.get("partial")),
        warned=bool(state.get("warning")),
        verdicts=tuple(
            verdict_text(delivery.arrival.via, delivery.verdict, delivery.reply.get("reason"))
            for delivery in deliveries
        ),
    )


def foreign_data(state: Mapping[str, Any], deliveries: Sequence[SentEvent]) -> list[str]:
    """Received events whose data is not what the event they name had carried."""
    sent = {delivery.event_id: delivery.arrival.data for delivery in deliveries}
    faults: list[str] = []
    for name, event in (state.get("events") or {}).items():
        if event.get("outcome") != "received":
            continue
        expected, actual = sent.get(str(event.get("eventId"))), event.get("data")
        if expected is None:
            faults.append(f"{name} came from nowhere as {event.get('eventId')}")
        elif actual != dict(expected):
            faults.append(f"{name} carries {actual}")
    return faults
