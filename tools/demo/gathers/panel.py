"""How a gather looks while it runs: a bar for each resource, and the timeline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tools.demo.gathers.calls import Callback, ResourceCall
from tools.demo.gathers.script import NAMES, GatherScenario
from tools.demo.screen import ScenarioPanel

_BAR = 32
_MIN_SCALE_MS = 200  # milliseconds that a whole bar stands for
_STYLES = {"calling": "dim", "called": "cyan", "ok": "green", "REJECTED": "yellow"}
_ERROR_STYLE = "red"


@dataclass(slots=True)
class ResourceProgress:
    """The state of one resource, and what it brought."""

    state: str = "calling"
    settled_at: float | None = None
    notes: int = 0
    late: bool = False


class GatherPanel(ScenarioPanel):
    """The panel of one gather."""

    def __init__(self, scenario: GatherScenario, position: str) -> None:
        super().__init__(scenario, position)
        self.rows = {name: ResourceProgress() for name in NAMES}
        self.counters: Mapping[str, Any] = {}
        self._scale = max(scenario.duration_ms, _MIN_SCALE_MS) / 1000

    def timestamp(self, seconds: float) -> str:
        return f"T={seconds * 1000:.0f}ms"

    def note_call(self, call: ResourceCall) -> None:
        self.rows[call.resource].state = "called"
        if all(row.state != "calling" for row in self.rows.values()):
            self.note("called", "Muster has called all resources in parallel", call.at)

    def note_callback(self, callback: Callback) -> None:
        row = self.rows[callback.resource]
        row.late = callback.verdict == "late"
        late = " (late)" if row.late else ""
        self.note("posted", f"{callback.resource} POSTs its callback{late}", callback.sent_at)
        if callback.verdict != "matched":
            self.note(callback.verdict, _acknowledged(callback), callback.at)

    def note_event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Add an event of the SSE stream."""
        self.note(kind, f"→ SSE event: {describe_event(kind, data)}")
        if kind == "summary":
            self.counters = data
        else:
            self.settle(str(data.get("source")), data)

    def settle(self, name: str, data: Mapping[str, Any]) -> None:
        """Mark a resource as one that has answered or will not answer any more."""
        row = self.rows.get(name)
        if row is not None:
            row.state = str(data.get("status"))
            row.settled_at = self.elapsed
            row.notes = count_notes(data.get("notes"))

    def above(self) -> Sequence[RenderableType]:
        table = Table.grid(padding=(0, 2))
        for name, row in self.rows.items():
            notes = f"{row.notes} notes" if row.notes else ""
            late = Text("late", style="yellow") if row.late else Text("")
            state = Text(row.state, style=_STYLES.get(row.state, _ERROR_STYLE))
            table.add_row(Text(name), self._bar(row), state, Text(notes), late)
        return Text(""), table, self._counts(), Text("")

    def _bar(self, row: ResourceProgress) -> ProgressBar:
        """Draw how long the wait was. All bars have one scale, so that they show the order."""
        style = _STYLES.get(row.state, _ERROR_STYLE)
        return ProgressBar(
            total=self._scale,
            completed=max(self.elapsed if row.settled_at is None else row.settled_at, 0.001),
            width=_BAR,
            complete_style=style,
            finished_style=style,
        )

    def _counts(self) -> Text:
        settled = [row.state for row in self.rows.values() if row.settled_at is not None]
        answered = settled.count("ok")
        refused = settled.count("REJECTED")
        respondents = self.counters.get("respondents", answered)
        errors = self.counters.get("errors", len(settled) - answered - refused)
        line = Text(self.timestamp(self.elapsed), style="bold")
        line.append(f"  respondents {respondents}  errors {errors}", style="default")
        line.append(f"  received {len(settled)} of {len(self.rows)}", style="default")
        return line


def describe_event(kind: str, data: Mapping[str, Any]) -> str:
    source, detail = data.get("source"), data.get("detail")
    match kind:
        case "summary":
            counts = f"respondents={data.get('respondents')}, errors={data.get('errors')}"
            return f"summary ({counts}, {data.get('completeness')})"
        case "callback":
            return f"callback ({source}, {count_notes(data.get('notes'))} notes)"
        case _:
            status = str(data.get("status"))
            parts = [part for part in (str(source), detail) if part]
            name = kind if status.lower() == kind else f"{kind} {status}"
            return f"{name} ({': '.join(parts)})"


def count_notes(notes: Any) -> int:
    """Count notes that come as a list or as a number."""
    if isinstance(notes, int):
        return notes
    return len(notes) if isinstance(notes, list) else 0


def _acknowledged(callback: Callback) -> str:
    if callback.status is None:
        return f"→ nobody answered: {callback.reply.get('detail')}"
    text = f"→ {callback.status} acknowledged, recorded as {callback.verdict}"
    detail = callback.reply.get("detail")
    return f"{text}: {detail}" if detail else text
