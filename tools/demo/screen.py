"""What a demo shows: a live panel for each scenario, and a table of all results."""

import time
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tools.demo.scenario import Scenario, ScenarioResult

_GREEN, _RED, _YELLOW = ("●", "green"), ("✗", "red"), ("≡", "yellow")
_MARKS = {
    "registered": ("○", "cyan"),
    "sent": ("▸", "cyan"),
    "called": ("○", "cyan"),
    "posted": ("↑", "dim"),
    "received": _GREEN,
    "callback": _GREEN,
    "taken": _GREEN,
    "buffered": ("◐", "cyan"),
    "duplicate": _YELLOW,
    "late": ("◌", "yellow"),
    "rejected": ("⊘", "yellow"),
    "refused": _RED,
    "timed_out": _RED,
    "timeout": _RED,
    "error": _RED,
    "blocked": ("■", "red"),
    "explain": ("?", "magenta"),
    "command": ("$", "magenta"),
    "completed": ("✓", "bold green"),
    "summary": ("✓", "bold green"),
    "expected": ("✓", "bold green"),
    "unexpected": ("✗", "bold red"),
}


class ScenarioPanel:
    """The panel of one scenario. Rich renders it again and again while the scenario runs."""

    def __init__(self, scenario: Scenario, position: str) -> None:
        self._scenario = scenario
        self._position = position
        self._began = time.monotonic()
        self._ended_at: float | None = None
        self._lines: list[tuple[float, str, str]] = []

    @property
    def elapsed(self) -> float:
        return (self._ended_at or time.monotonic()) - self._began

    def start_clock(self) -> None:
        self._began = time.monotonic()

    def note(self, kind: str, text: str, at: float | None = None) -> None:
        """Add a line to the timeline; `at` is a time of the monotonic clock."""
        moment = time.monotonic() if at is None else at
        self._lines.append((moment - self._began, kind, text))

    def end(self, *, as_expected: bool) -> None:
        text = "as expected" if as_expected else "not as expected: see the table at the end"
        self.note("expected" if as_expected else "unexpected", text)
        self._ended_at = time.monotonic()

    def above(self) -> Sequence[RenderableType]:
        """Return what a demo shows above the timeline."""
        return ()

    def below(self) -> Sequence[RenderableType]:
        """Return what a demo shows below the timeline."""
        return ()

    def timestamp(self, seconds: float) -> str:
        return f"{seconds:.2f} s"

    def __rich__(self) -> RenderableType:
        scenario = self._scenario
        rules = f"  [{scenario.rules}]" if scenario.rules else ""
        head = Text(f"{scenario.description}{rules}", style="dim")
        body = Group(head, *self.above(), self._timeline(), *self.below())
        return Panel(body, title=f"{self._position}  {scenario.title}", title_align="left")

    def _timeline(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", style="dim", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        # A resource reports when it sent a callback only after Muster has answered it.
        for at, kind, text in sorted(self._lines, key=lambda line: line[0]):
            mark, style = _MARKS.get(kind, ("!", "red"))
            table.add_row(self.timestamp(max(at, 0)), Text(mark, style=style), Text(text))
        return table


def results_table(results: Sequence[ScenarioResult]) -> Table:
    """Compare the expected with the actual outcome of each scenario."""
    table = Table(title="What was expected, and what was seen", title_justify="left")
    table.add_column("scene")
    table.add_column("expected", overflow="fold")
    table.add_column("seen", overflow="fold")
    table.add_column("")
    for result in results:
        mark = Text("✓", style="bold green") if result.ok else Text("✗", style="bold red")
        seen = "the same" if result.ok else result.actual_sentence
        expected = str(result.scenario.expected)
        style = "dim" if result.ok else "red"
        table.add_row(Text(result.scenario.key), Text(expected), Text(seen, style=style), mark)
    return table
