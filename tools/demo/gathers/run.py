"""Plays a gather scenario on resources that are registered for it, and reads its outcome."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

from cli.gathers.resources import resource_path
from cli.shell.client import Client
from cli.shell.errors import CommandError
from cli.shell.follow import follow_stream
from tools.demo.gathers.calls import Callback, ResourceCall
from tools.demo.gathers.panel import GatherPanel, count_notes
from tools.demo.gathers.resource import DemoResources
from tools.demo.gathers.script import NAMES, GatherDemoOutcome, GatherScenario, GatherStrategy
from tools.demo.runner import ScenarioRun, none_on

PATIENT = "19121212-1212"
JOURNALS = "/aggregate/journals"
SUMMARY = "summary"
_RESOURCE_SETTINGS = (
    "url",
    "method",
    "connectTimeoutMs",
    "readTimeoutMs",
    "ratePerMinute",
    "concurrency",
    "reply",
)
_SPARE = 10.0  # seconds beyond a scenario's duration after which it has failed


@dataclass(frozen=True, slots=True)
class GatherDemo:
    """The instance and the fake resources."""

    muster: Client
    browser: Client  # without a key, as a browser has none
    resources: DemoResources


class GatherRun(ScenarioRun):
    """One gather while it runs."""

    panel: GatherPanel

    def __init__(self, demo: GatherDemo, scenario: GatherScenario, position: str) -> None:
        super().__init__(GatherPanel(scenario, position))
        self.limit = scenario.duration_ms / 1000 + _SPARE
        self._demo = demo
        self._scenario = scenario
        self._correlation_id = ""
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._summary: Mapping[str, Any] = {}
        self._called_for: str | None = None
        for number, name in enumerate(NAMES, 1):
            demo.resources.behave(number, scenario.behaviours.get(name))
        demo.resources.listener = self._note_record

    async def run(self) -> GatherDemoOutcome:
        await self._ask()
        wanted = self._scenario.callbacks
        await self._demo.resources.until(lambda _: len(self._callbacks()) >= wanted, self.limit)
        # An instance may have configured addresses for journals, which come before registered ones.
        if not self._called_for:
            raise CommandError("none of the resources was called")
        return self._outcome()

    def details(self) -> dict[str, Any]:
        actual = self._outcome()
        return {
            "strategy": self._scenario.strategy.value,
            "correlationId": self._correlation_id,
            **asdict(actual),
            "statuses": dict(zip(NAMES, actual.statuses, strict=True)),
        }

    def _note_record(self, record: ResourceCall | Callback) -> None:
        if isinstance(record, Callback):
            # The callback may be for a scenario that is over.
            if record.correlation_id == self._called_for:
                self.panel.note_callback(record)
        elif not record.abandoned:
            self._called_for = str(record.body.get("correlationId"))
            self.panel.note_call(record)

    async def _ask(self) -> None:
        scenario, panel = self._scenario, self.panel
        body = scenario.request(PATIENT)
        panel.start_clock()
        panel.note("sent", f"Client sends POST {JOURNALS} {{delays: {body['delays']}, …}}")
        reply = await self._demo.muster.post(JOURNALS, body, server_wait=scenario.timeout / 1000)
        self._correlation_id = str(reply.get("correlationId"))
        if scenario.strategy is GatherStrategy.SSE:
            accepted = f"respondents: {reply.get('respondents')}"
            panel.note("sent", f"Muster returns {{{accepted}, correlationId: …}}")
            await self._follow(str(reply.get("streamUrl")))
        else:
            self._take_all(reply)

    async def _follow(self, url: str) -> None:
        self.panel.note("sent", "Client opens the SSE stream")
        async for event in follow_stream(self._demo.browser, url, last_kind=SUMMARY):
            data = event.data()
            self.panel.note_event(event.kind, data)
            if event.kind == SUMMARY:
                self._summary = data
            else:
                self._take(str(data.get("source")), data, data.get("notes") or ())

    def _take_all(self, reply: Mapping[str, Any]) -> None:
        """Read the one reply to a client that waited for everyone."""
        self._summary = self.panel.counters = reply
        notes = reply.get("notes") or ()
        for name, answer in (reply.get("resources") or {}).items():
            own = [note for note in notes if note.get("caregiverId") == f"Caregiver-{name}"]
            self._take(name, {**answer, "notes": own}, own)
            self.panel.settle(name, self._answers[name])
        counts = f"respondents={reply.get('respondents')}, errors={reply.get('errors')}"
        text = f"→ {reply.get('status')} ({counts}, {count_notes(notes)} notes)"
        self.panel.note(SUMMARY, text)

    def _take(self, name: str, answer: Mapping[str, Any], notes: Sequence[Any]) -> None:
        if name in self._answers:
            self.faults.append(f"{name} came twice")
        self._answers[name] = answer
        self.faults += foreign_notes(name, notes)

    def _callbacks(self) -> list[Callback]:
        sent = self._demo.resources.callbacks
        return [callback for callback in sent if callback.correlation_id == self._correlation_id]

    def _outcome(self) -> GatherDemoOutcome:
        return read_outcome(self._answers, self._summary, self._callbacks())


def read_outcome(
    answers: Mapping[str, Mapping[str, Any]],
    summary: Mapping[str, Any],
    callbacks: Sequence[Callback],
) -> GatherDemoOutcome:
    """Read the outcome from what the client and the resources saw."""
    verdicts = [(one.resource, one.verdict) for one in callbacks if one.verdict != "matched"]
    return GatherDemoOutcome(
        statuses=tuple(str(answers.get(name, {}).get("status", "missing")) for name in NAMES),
        respondents=int(summary.get("respondents", -1)),
        errors=int(summary.get("errors", -1)),
        completeness=str(summary.get("completeness")),
        notes=sum(count_notes(answer.get("notes")) for answer in answers.values()),
        special=tuple(f"{resource} {verdict}" for resource, verdict in verdicts),
    )


def foreign_notes(name: str, notes: Sequence[Any]) -> list[str]:
    """Name notes in an answer that belong to another resource or patient."""
    own = (f"Caregiver-{name}", PATIENT)
    foreign = [note for note in notes if (note.get("caregiverId"), note.get("patientId")) != own]
    return [f"{name} brought notes of {note.get('caregiverId')}" for note in foreign]


@asynccontextmanager
async def registered_resources(muster: Client, resources: DemoResources) -> AsyncIterator[None]:
    """Register the demo's resources for as long as the block lasts."""
    before = {name: await none_on(muster.get(resource_path(name)), 404) for name in NAMES}
    for name, resource in before.items():
        # Muster never shows their values, so only their owner could put them back.
        if resource and (resource.get("headers") or resource.get("auth")):
            raise CommandError(
                f"{name} is registered with headers or a secret that could not be put back: "
                f"remove it first (`muster resources rm {name}`)."
            )
    changed: list[str] = []
    try:
        for number, name in enumerate(NAMES, 1):
            changed.append(name)
            await muster.put(resource_path(name), {"url": resources.url_of(number)})
        yield
    finally:
        for name in changed:
            await _restore(muster, name, before[name])


async def _restore(muster: Client, name: str, resource: Mapping[str, Any] | None) -> None:
    if resource is None:
        await none_on(muster.delete(resource_path(name)), 404)
        return
    settings = {key: resource[key] for key in _RESOURCE_SETTINGS if key in resource}
    await muster.put(resource_path(name), settings)
