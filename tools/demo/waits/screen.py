"""How a scene looks while it is played."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from cli.shell.sse import ServerEvent
from tools.demo.waits.scene import WaitScenario
from tools.demo.waits.service import SentEvent

_MARKS = {
    "registered": ("○", "cyan"),
    "received": ("●", "green"),
    "matched": ("●", "green"),
    "timed_out": ("✗", "red"),
    "buffered": ("◐", "cyan"),
    "duplicate": ("≡", "yellow"),
    "late": ("◌", "yellow"),
    "rejected": ("✗", "red"),
    "explain": ("?", "magenta"),
    "completed": ("✓", "bold green"),
    "timeout": ("✗", "bold red"),
}


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """Something that happened, and when."""

    at: float
    kind: str
    text: str


class Describable(Protocol):
    """Something that can be said in a sentence."""

    def sentence(self) -> str:
        """For people."""
        ...


class ExpectedScenario(Protocol):
    """What the summary needs of a scene."""

    @property
    def key(self) -> str:
        """Its short name."""
        ...

    @property
    def expected(self) -> Describable:
        """How it has to end."""
        ...


class DemoResult(Protocol):
    """What the summary needs of a scene that was played."""

    @property
    def scene(self) -> ExpectedScenario:
        """What was played."""
        ...

    @property
    def ok(self) -> bool:
        """Whether it ended as expected."""
        ...

    def actual_sentence(self) -> str:
        """What happened."""
        ...


class ScenarioPanel:
    """The panel of one scene; Rich asks it again and again how it looks now."""

    def __init__(self, scene: WaitScenario, place: str) -> None:
        self._scene = scene
        self._place = place
        self._began = time.monotonic()
        self._lines: list[TimelineEntry] = []
        self._pending: list[str] = []
        self._spinner = Spinner("dots", style="cyan")

    def note(self, kind: str, text: str) -> None:
        """Add a line."""
        self._lines.append(TimelineEntry(time.monotonic() - self._began, kind, text))

    def note_entry(self, event: ServerEvent) -> None:
        """Add an entry of the correlation's live log; what else came is told by its verdict."""
        entry = event.data()
        name = str(entry.get("event"))
        match event.kind:
            case "registered":
                self._pending = list(entry.get("enabledEvents") or self._pending)
                self.note("registered", "registered, waiting")
            case "received":
                self.note("received", f"{name}  {one_line(entry.get('data'))}")
                self._settle(name)
            case "timed_out" | "failed":
                self.note("timed_out", f"{name} did not come in time")
                self._settle(name)
            case "ended":
                self._pending = []
                self.note(str(entry.get("status")), ended_text(entry))
            case _:  # late and duplicate: told by their verdict
                pass

    def note_delivery(self, delivery: SentEvent) -> None:
        """Add what Muster said to an event that does not count, or not yet."""
        if delivery.verdict == "matched":
            return
        reply = delivery.reply
        text = f"{delivery.arrival.via} {delivery.verdict}: {reply.get('detail') or reply}"
        self.note(delivery.verdict, text)

    def expect(self, names: Sequence[str]) -> None:
        """Which events the wait is open for."""
        self._pending = list(names)

    def _settle(self, name: str) -> None:
        self._pending = [other for other in self._pending if other != name]

    def __rich__(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", style="dim", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for line in self._lines:
            mark, style = _MARKS.get(line.kind, ("!", "red"))
            table.add_row(f"{line.at:.2f} s", Text(mark, style=style), Text(line.text))
        if self._pending:
            elapsed = time.monotonic() - self._began
            table.add_row(f"{elapsed:.2f} s", self._spinner, Text(self._waiting_for(), "dim"))
        story = Text(
            f"{self._scene.description}  [{describe_rules(self._scene.config)}]", style="dim"
        )
        return Panel(
            Group(story, table), title=f"{self._place}  {self._scene.title}", title_align="left"
        )

    def _waiting_for(self) -> str:
        return f"waiting for {', '.join(self._pending)}"


def ended_text(entry: Mapping[str, Any]) -> str:
    """How a wait ended; the reason is left to `explain`."""
    warning = entry.get("warning")
    return (
        f"{entry.get('status')}, with a warning: {warning}" if warning else f"{entry.get('status')}"
    )


def describe_rules(config: Mapping[str, Any]) -> str:
    """The part of a configuration that decides."""
    policy = config.get("onTimeout", "fail")
    return f"{config['aggregationStrategy']}, {config['timeout']:g} s, onTimeout {policy}"


def one_line(data: Any, limit: int = 80) -> str:
    """A payload on one line."""
    text = json.dumps(data, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def summary_view(results: Sequence[DemoResult]) -> RenderableType:
    """Scene, expected, seen, and whether they agree."""
    table = Table(title="What was expected, and what was seen", title_justify="left")
    table.add_column("scene")
    table.add_column("expected", overflow="fold")
    table.add_column("seen", overflow="fold")
    table.add_column("")
    for result in results:
        mark = Text("✓", style="bold green") if result.ok else Text("✗", style="bold red")
        expected, actual = result.scene.expected.sentence(), result.actual_sentence()
        same = Text("the same", style="dim") if result.ok else Text(actual, style="red")
        table.add_row(Text(result.scene.key), Text(expected), same, mark)
    return table
