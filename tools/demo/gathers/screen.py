"""How a gather looks while it is played."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tools.demo.gathers.call_log import Callback, ResourceCall
from tools.demo.gathers.scene import NAMES, GatherScenario

_BAR = 32
_MIN_SCALE_MS = 200  # milliseconds that a whole bar stands for
_MARKS = {
    "client": ("▸", "cyan"),
    "call": ("○", "cyan"),
    "post": ("↑", "dim"),
    "callback": ("●", "green"),
    "rejected": ("⊘", "yellow"),
    "timeout": ("✗", "red"),
    "error": ("✗", "red"),
    "late": ("◌", "yellow"),
    "duplicate": ("≡", "yellow"),
    "summary": ("✓", "bold green"),
}
_STYLES = {
    "calling": "dim",
    "called": "cyan",
    "ok": "green",
    "REJECTED": "yellow",
    "TIMEOUT": "red",
    "CONNECTION_CLOSED": "red",
    "ERROR": "red",
}


@dataclass(slots=True)
class ResourceProgress:
    """One resource: how it stands, since when, and what it brought."""

    state: str = "calling"
    settled_at: float | None = None
    notes: int = 0
    late: bool = False


class GatherPanel:
    """The panel of one scene; Rich asks it again and again how it looks now."""

    def __init__(self, scene: GatherScenario, place: str) -> None:
        self.rows = {name: ResourceProgress() for name in NAMES}
        self.counters: Mapping[str, Any] = {}
        self._scene = scene
        self._place = place
        self._began = time.monotonic()
        self._ended_at: float | None = None
        self._lines: list[tuple[float, str, str]] = []

    def begin(self) -> None:
        """The clock starts when the request goes out."""
        self._began = time.monotonic()

    def end(self) -> None:
        """The clock stops."""
        self._ended_at = time.monotonic()

    def note(self, kind: str, text: str, at: float | None = None) -> None:
        """Add a line to the timeline."""
        moment = time.monotonic() if at is None else at
        self._lines.append((moment - self._began, kind, text))

    def note_call(self, call: ResourceCall) -> None:
        """Muster called a resource."""
        self.rows[call.resource].state = "called"
        if all(row.state != "calling" for row in self.rows.values()):
            self.note("call", "Muster has called all resources in parallel", call.at)

    def note_callback(self, callback: Callback) -> None:
        """A resource called back, and was answered."""
        row = self.rows[callback.resource]
        row.late = callback.verdict == "late"
        late = " (late)" if row.late else ""
        self.note("post", f"{callback.resource} POSTs its callback{late}", callback.sent_at)
        if callback.verdict != "matched":
            self.note(callback.verdict, _acknowledged(callback), callback.at)

    def note_event(self, kind: str, data: Mapping[str, Any]) -> None:
        """An event of the stream came."""
        self.note(kind, f"→ SSE event: {describe_event(kind, data)}")
        if kind == "summary":
            self.counters = data
        else:
            self.settle(str(data.get("source")), data)

    def settle(self, name: str, data: Mapping[str, Any]) -> None:
        """A resource has answered, or will not any more."""
        row = self.rows.get(name)
        if row is not None:
            row.state = str(data.get("status"))
            row.settled_at = time.monotonic() - self._began
            row.notes = count_notes(data.get("notes"))

    def __rich__(self) -> RenderableType:
        scene = self._scene
        rules = f"{scene.strategy}, delays {shown_delays(scene)}, timeout {scene.timeout} ms"
        story = Text(f"{scene.description}  [{rules}]", style="dim")
        parts = (story, Text(""), self._resources(), Text(""), self._timeline())
        return Panel(Group(*parts), title=f"{self._place}  {scene.title}", title_align="left")

    def _resources(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        for name, row in self.rows.items():
            style = _STYLES.get(row.state, "red")
            notes = f"{row.notes} notes" if row.notes else ""
            late = Text("late", style="yellow") if row.late else Text("")
            state = Text(row.state, style=style)
            table.add_row(Text(name), self._bar(name, row), state, Text(notes), late)
        return Group(table, self._counts())

    def _bar(self, name: str, row: ResourceProgress) -> ProgressBar:
        """All bars have one scale, so that they tell of the order: as long as the wait was."""
        elapsed = self._elapsed()
        until = elapsed if row.settled_at is None else row.settled_at
        style = _STYLES.get(row.state, "red")
        return ProgressBar(
            total=max(self._scene.duration_ms, _MIN_SCALE_MS) / 1000,
            completed=max(until, 0.001),
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
        line = Text(f"T={self._elapsed() * 1000:.0f}ms", style="bold")
        line.append(f"  respondents {respondents}  errors {errors}", style="default")
        line.append(f"  received {len(settled)} of {len(self.rows)}", style="default")
        return line

    def _timeline(self) -> RenderableType:
        table = Table.grid(padding=(0, 1))
        table.add_column(style="dim", no_wrap=True, min_width=9)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for at, kind, text in sorted(self._lines, key=lambda line: line[0]):
            mark, style = _MARKS.get(kind, ("!", "red"))
            table.add_row(f"T={max(at, 0) * 1000:.0f}ms", Text(mark, style=style), Text(text))
        return table

    def _elapsed(self) -> float:
        return (self._ended_at or time.monotonic()) - self._began


def describe_event(kind: str, data: Mapping[str, Any]) -> str:
    """An event of the stream, as a timeline tells it."""
    source, detail = data.get("source"), data.get("detail")
    match kind:
        case "summary":
            counts = f"respondents={data.get('respondents')}, errors={data.get('errors')}"
            return f"summary ({counts}, {data.get('completeness')})"
        case "callback":
            return f"callback ({source}, {count_notes(data.get('notes'))} notes)"
        case _:
            status = str(data.get("status"))
            told = [part for part in (str(source), detail) if part]
            name = kind if status.lower() == kind else f"{kind} {status}"
            return f"{name} ({': '.join(told)})"


def count_notes(notes: Any) -> int:
    """How many notes there are, told as a list or as a number."""
    if isinstance(notes, int):
        return notes
    return len(notes) if isinstance(notes, list) else 0


def shown_delays(scene: GatherScenario) -> str:
    """The delays, or what stands in their place."""
    return ",".join(
        str(scene.behaviours.get(name, delay))
        for name, delay in zip(NAMES, scene.delays, strict=True)
    )


def _acknowledged(callback: Callback) -> str:
    if callback.status is None:
        return f"→ nobody answered: {callback.reply.get('detail')}"
    words = f"→ {callback.status} acknowledged, recorded as {callback.verdict}"
    detail = callback.reply.get("detail")
    return f"{words}: {detail}" if detail else words
