"""How a run is doing while it runs; on the error stream, so that stdout has the report alone."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tools.chaos.fault import Fault, FaultRun
from tools.load.tasks import background

_EVERY = 0.25
_LAST = 3


class Screen:
    """Shows a run, once there is one; line by line where there is no terminal."""

    def __init__(self, console: Console, fault: Fault) -> None:
        self.run: FaultRun | None = None
        self._console = console
        self._fault = fault

    def say(self, text: str) -> None:
        if not self._console.is_terminal:
            self._console.print(text, markup=False, soft_wrap=True)

    @contextlib.asynccontextmanager
    async def show_progress(self) -> AsyncIterator[None]:
        """Show progress for as long as the block lasts."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            async with background(self._refresh(live)):
                yield

    async def _refresh(self, live: Live) -> None:
        while True:
            if self.run is not None:
                live.update(progress_view(self._fault, self.run), refresh=True)
            await asyncio.sleep(_EVERY)


def progress_view(fault: Fault, run: FaultRun) -> RenderableType:
    """Render the counters so far and the last disruptions."""
    drill, stats, is_load = run.drill, run.drill.load.stats, run.drill.phase == "load"
    table = Table.grid(padding=(0, 2))
    table.add_row(
        Text(fault.name if is_load else drill.phase, style="bold"),
        f"{run.elapsed:.0f} s",
        f"{stats.acknowledged:,} acknowledged",
        f"{stats.refused.total():,} refused",
        f"{stats.broken + stats.impatient:,} broken off",
        f"{drill.receiver.under_way} streams open",
    )
    if is_load and run.progress is not None:
        bar = ProgressBar(completed=run.progress * 100, width=28)
        table.add_row("", f"{run.progress:.0%}", bar)
    for one in run.disruptions[-_LAST:]:
        felt = "" if one.recovered_after is None else f"back after {one.recovered_after:.1f} s"
        table.add_row("", Text(f"{one.at:.0f} s", style="dim"), Text(one.what), Text(felt))
    if unexpected := stats.unexpected.total():
        table.add_row("", "", Text(f"{unexpected} unexpected answers", style="bold red"))
    return table
