"""How a run is doing while it runs; on the error stream, so that the account stays alone."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tools.chaos.exercise import Drill
from tools.chaos.fault import Fault, FaultRun

_EVERY = 0.25
_LAST = 3


def progress_view(fault: Fault, scene: FaultRun) -> RenderableType:
    """Counters so far, and the last blows."""
    drill = scene.drill
    tally = drill.load.stats
    table = Table.grid(padding=(0, 2))
    doing = fault.name if drill.phase == "load" else drill.phase
    table.add_row(Text(doing, style="bold"), f"{scene.elapsed:.0f} s", *_counts(drill))
    if drill.phase == "load" and scene.progress is not None:
        table.add_row(
            "", f"{scene.progress:.0%}", ProgressBar(completed=scene.progress * 100, width=28)
        )
    for blow in scene.disruptions[-_LAST:]:
        felt = "" if blow.recovered_after is None else f"back after {blow.recovered_after:.1f} s"
        table.add_row("", Text(f"{blow.at:.0f} s", style="dim"), Text(blow.what), Text(felt))
    trouble = sum(tally.unexpected.values())
    if trouble:
        table.add_row("", "", Text(f"{trouble} unexpected answers", style="bold red"))
    return table


class Screen:
    """Shows a scene, once there is one; line by line where there is no terminal."""

    def __init__(self, console: Console, fault: Fault) -> None:
        self._console = console
        self._fault = fault
        self._scene: FaultRun | None = None

    def show(self, scene: FaultRun) -> None:
        """From now on this one."""
        self._scene = scene

    def say(self, text: str) -> None:
        """Something happened."""
        if not self._console.is_terminal:
            self._console.print(text, markup=False, soft_wrap=True)

    @contextlib.asynccontextmanager
    async def show_progress(self) -> AsyncIterator[None]:
        """Show progress for as long as the block lasts."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            ticker = asyncio.create_task(self._tick(live))
            try:
                yield
            finally:
                ticker.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await ticker

    async def _tick(self, live: Live) -> None:
        while True:
            if self._scene is not None:
                live.update(progress_view(self._fault, self._scene), refresh=True)
            await asyncio.sleep(_EVERY)


def _counts(drill: Drill) -> list[str]:
    tally = drill.load.stats
    return [
        f"{tally.acknowledged:,} acknowledged",
        f"{tally.refused.total():,} refused",
        f"{tally.broken + tally.impatient:,} broken off",
        f"{drill.receiver.under_way} streams open",
    ]
