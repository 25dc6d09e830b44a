"""Plays a gather against the running product and compares what it sees with what was promised."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.live import Live

from cli.shell.client import Client
from cli.shell.errors import CommandError
from cli.waits.follow import follow_stream
from tools.demo.gathers.call_log import Callback, ResourceCall
from tools.demo.gathers.resource import DemoResources
from tools.demo.gathers.scene import NAMES, GatherDemoOutcome, GatherScenario, GatherStrategy
from tools.demo.gathers.screen import GatherPanel, count_notes

PATIENT = "19121212-1212"
JOURNALS = "/aggregate/journals"
SUMMARY = "summary"
_SPARE = 10.0  # seconds beyond its own length after which a scene has failed


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherDemoResult:
    """One scene as it was played."""

    scene: GatherScenario
    correlation_id: str
    actual: GatherDemoOutcome
    seconds: float
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
        actual = self.actual
        return {
            "scene": self.scene.key,
            "title": self.scene.title,
            "strategy": self.scene.strategy.value,
            "correlationId": self.correlation_id,
            "expected": self.scene.expected.sentence(),
            "seen": self.actual_sentence(),
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "statuses": dict(zip(NAMES, actual.statuses, strict=False)),
            "respondents": actual.respondents,
            "errors": actual.errors,
            "completeness": actual.completeness,
            "notes": actual.notes,
            "special": list(actual.special),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherDemoRunner:
    """Where gathers are played: the product, the resources, and the audience's screen."""

    muster: Client
    browser: Client  # has no key, as a browser has none
    resources: DemoResources
    console: Console

    async def play(self, scene: GatherScenario, place: str) -> GatherDemoResult:
        """Play one scene to its end."""
        began = time.monotonic()
        for number, name in enumerate(NAMES, 1):
            self.resources.behave(number, scene.behaviours.get(name))
        act = _ScenarioRun(self, scene, GatherPanel(scene, place))
        self.resources.listener = act.hear
        with Live(act.view, console=self.console, refresh_per_second=12):
            fault = await act.run()
            act.view.end()
        self.resources.listener = None
        if not self.console.is_terminal:
            self.console.print()  # Live ends its last frame with a line break on terminals only
        return GatherDemoResult(
            scene=scene,
            correlation_id=act.correlation_id,
            actual=GatherDemoOutcome() if fault else act.outcome(),
            seconds=time.monotonic() - began,
            faults=(fault,) if fault else tuple(act.faults),
        )


class _ScenarioRun:
    """The state of one scene while it runs."""

    def __init__(self, stage: GatherDemoRunner, scene: GatherScenario, view: GatherPanel) -> None:
        self.view = view
        self.correlation_id = ""
        self.faults: list[str] = []
        self._stage = stage
        self._scene = scene
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._summary: Mapping[str, Any] = {}
        self._called_for: str | None = None

    def hear(self, record: ResourceCall | Callback) -> None:
        """A resource was called, or has called back; perhaps for a scene that is over."""
        if isinstance(record, Callback):
            if record.correlation_id == self._called_for:
                self.view.note_callback(record)
        elif not record.abandoned:
            self._called_for = str(record.body.get("correlationId"))
            self.view.note_call(record)

    async def run(self) -> str | None:
        """Everything until the last callback; what went wrong, if it did."""
        limit = self._scene.duration_ms / 1000 + _SPARE
        try:
            async with asyncio.timeout(limit):
                await self._ask()
                wanted = self._scene.callbacks
                await self._stage.resources.until(lambda _: len(self._callbacks()) >= wanted, limit)
        except TimeoutError:
            return f"not at its end after {limit:g} s"
        except CommandError as error:
            return error.sentence
        # An instance may have addresses of its own for journals, before any that are registered.
        return None if self._called_for else "none of the resources was called"

    def outcome(self) -> GatherDemoOutcome:
        """What the answers, the summary and the verdicts come down to."""
        return read_outcome(self._answers, self._summary, self._callbacks())

    async def _ask(self) -> None:
        scene, view = self._scene, self.view
        body = scene.request(PATIENT)
        view.begin()
        view.note("client", f"Client sends POST {JOURNALS} {{delays: {body['delays']}, …}}")
        reply = await self._stage.muster.post(JOURNALS, body, server_wait=scene.timeout / 1000)
        self.correlation_id = str(reply.get("correlationId"))
        if scene.strategy is GatherStrategy.SSE:
            accepted = f"respondents: {reply.get('respondents')}"
            view.note("client", f"Muster returns {{{accepted}, correlationId: …}}")
            await self._follow(str(reply.get("streamUrl")))
        else:
            self._take_all(reply)

    async def _follow(self, url: str) -> None:
        self.view.note("client", "Client opens the SSE stream")
        async for event in follow_stream(self._stage.browser, url, last_kind=SUMMARY):
            data = event.data()
            self.view.note_event(event.kind, data)
            if event.kind == SUMMARY:
                self._summary = data
            else:
                self._take(str(data.get("source")), data, data.get("notes") or ())

    def _take_all(self, reply: Mapping[str, Any]) -> None:
        """The one answer of a caller that waited for everyone."""
        self._summary = self.view.counters = reply
        notes = reply.get("notes") or ()
        for name, answer in (reply.get("resources") or {}).items():
            own = [note for note in notes if note.get("caregiverId") == f"Caregiver-{name}"]
            self._take(name, {**answer, "notes": own}, own)
            self.view.settle(name, self._answers[name])
        counts = f"respondents={reply.get('respondents')}, errors={reply.get('errors')}"
        text = f"→ {reply.get('status')} ({counts}, {count_notes(notes)} notes)"
        self.view.note(SUMMARY, text)

    def _take(self, name: str, answer: Mapping[str, Any], notes: Sequence[Any]) -> None:
        if name in self._answers:
            self.faults.append(f"{name} was told twice")
        self._answers[name] = answer
        self.faults += foreign_notes(name, notes)

    def _callbacks(self) -> list[Callback]:
        sent = self._stage.resources.callbacks
        return [callback for callback in sent if callback.correlation_id == self.correlation_id]


def read_outcome(
    answers: Mapping[str, Mapping[str, Any]],
    summary: Mapping[str, Any],
    callbacks: Sequence[Callback],
) -> GatherDemoOutcome:
    """What a client and the resources saw of a gather."""
    verdicts = [(one.resource, one.verdict) for one in callbacks if one.verdict != "matched"]
    return GatherDemoOutcome(
        statuses=tuple(str(answers.get(name, {}).get("status", "untold")) for name in NAMES),
        respondents=int(summary.get("respondents", -1)),
        errors=int(summary.get("errors", -1)),
        completeness=str(summary.get("completeness")),
        notes=sum(count_notes(answer.get("notes")) for answer in answers.values()),
        special=tuple(f"{resource} {verdict}" for resource, verdict in verdicts),
    )


def foreign_notes(name: str, notes: Sequence[Any]) -> list[str]:
    """Notes in an answer that belong to somebody else."""
    own = (f"Caregiver-{name}", PATIENT)
    strangers = [note for note in notes if (note.get("caregiverId"), note.get("patientId")) != own]
    return [f"{name} brought notes of {note.get('caregiverId')}" for note in strangers]
