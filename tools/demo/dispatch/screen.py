"""How a scene looks while it is played, and what arrived in all."""

import time
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tools.demo.dispatch.cast import SUBSCRIBERS
from tools.demo.dispatch.receiver import BUSY, OK, DemoDelivery
from tools.demo.dispatch.scene import DispatchScenario

_MARKS = {
    "sent": ("▸", "cyan"),
    "taken": ("●", "green"),
    "known": ("≡", "yellow"),
    "refused": ("✗", "red"),
    "blocked": ("■", "red"),
    "muster": ("$", "magenta"),
    "expected": ("✓", "bold green"),
    "unexpected": ("✗", "bold red"),
}
_STYLES = {OK: "green", BUSY: "yellow"}


class DispatchPanel:
    """The panel of one scene; Rich asks it again and again how it looks now."""

    def __init__(self, scene: DispatchScenario, place: str) -> None:
        self._scene = scene
        self._place = place
        self._began = time.monotonic()
        self._lines: list[tuple[float, str, str]] = []
        self._lanes: dict[tuple[str, str], Text] = {}

    def note(self, kind: str, text: str) -> None:
        """Add a line to the timeline."""
        self._lines.append((time.monotonic() - self._began, kind, text))

    def note_delivery(self, arrival: DemoDelivery) -> None:
        """Add a delivery to the lane of its group."""
        lane = self._lanes.setdefault((arrival.subscriber, arrival.customer), Text())
        lane.append(f"{arrival.mark()} ", style=_STYLES.get(arrival.answered, "bold red"))

    def end(self, *, as_expected: bool) -> None:
        """Say how it came out."""
        if as_expected:
            self.note("expected", "as expected")
        else:
            self.note("unexpected", "not as expected: see the table at the end")

    def __rich__(self) -> RenderableType:
        lanes = Table.grid(padding=(0, 2))
        lanes.add_column(no_wrap=True, min_width=8)
        lanes.add_column(style="dim", no_wrap=True)
        lanes.add_column(overflow="fold")
        for (subscriber, customer), lane in sorted(self._lanes.items()):
            lanes.add_row(subscriber, customer, lane)
        parts: list[RenderableType] = [Text(self._scene.description, style="dim"), self._timeline()]
        if self._lanes:
            parts += [Text(""), lanes]
        return Panel(Group(*parts), title=f"{self._place}  {self._scene.title}", title_align="left")

    def _timeline(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", style="dim", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for at, kind, text in self._lines:
            mark, style = _MARKS[kind]
            table.add_row(f"{at:.2f} s", Text(mark, style=style), Text(text))
        return table


def deliveries_view(deliveries: Sequence[DemoDelivery]) -> RenderableType:
    """What arrived in all, by subscriber."""
    table = Table(title="What arrived", title_justify="left")
    for title in ("subscriber", "mode", "pool"):
        table.add_column(title)
    for title in ("arrived", "verified", "taken", "refused", "asked to wait"):
        table.add_column(title, justify="right")
    for role in SUBSCRIBERS:
        own = [one for one in deliveries if one.subscriber == role.name]
        busy = sum(one.answered == BUSY for one in own)
        taken = sum(one.is_taken for one in own)
        verified = sum(bool(one.signed_by) for one in own)
        table.add_row(
            role.name,
            role.mode.value,
            role.pool,
            str(len(own)),
            Text(str(verified), style="green" if verified == len(own) else "bold red"),
            str(taken),
            str(len(own) - taken - busy),
            str(busy),
        )
    return table
