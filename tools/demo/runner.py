"""The engine of all demos: plays scenarios against a running instance and compares the outcomes."""

import asyncio
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.live import Live
from rich.panel import Panel

from cli.shell.client import Client
from cli.shell.context import CommandContext, err, out, print_json
from cli.shell.errors import CommandError
from cli.shell.problems import ProblemResponseError
from tools.demo.scenario import Facts, Scenario, ScenarioResult, ScriptedScenario
from tools.demo.screen import ScenarioPanel, results_table

AnyScenario = TypeVar("AnyScenario", bound=Scenario)


class ScenarioRun(ABC):
    """One scenario while it runs."""

    limit = 30.0
    """Seconds after which the scenario has failed."""

    def __init__(self, panel: ScenarioPanel) -> None:
        self.panel = panel
        self.faults: list[str] = []

    @abstractmethod
    async def run(self) -> object:
        """Play the scenario to its end and return the outcome."""

    def progress(self) -> str:
        """Say how far the scenario came, for the report of a timeout."""
        return ""

    def details(self) -> dict[str, Any]:
        """Return more fields for the JSON result."""
        return {}


class ScriptedRun(ScenarioRun):
    """A run of a scripted scenario, with what its script can do."""

    def __init__(self, scenario: ScriptedScenario[Any], panel: ScenarioPanel) -> None:
        super().__init__(panel)
        self._scenario = scenario

    async def run(self) -> Facts:
        return Facts(await self._scenario.play(self))


async def play(scenario: Scenario, run: ScenarioRun, console: Console) -> ScenarioResult:
    """Play one scenario on the console."""
    began, outcome = time.monotonic(), None
    with Live(run.panel, console=console, refresh_per_second=12):
        try:
            async with asyncio.timeout(run.limit):
                outcome = await run.run()
        except TimeoutError:
            parts = (f"not at its end after {run.limit:g} s", run.progress())
            run.faults.append(": ".join(filter(None, parts)))
        except CommandError as error:
            run.faults.append(error.sentence)
        except ExceptionGroup as group:
            if group.split(CommandError)[1] is not None:
                raise
            run.faults += [str(error) for error in group.exceptions]
        result = ScenarioResult(
            scenario=scenario,
            actual=outcome,
            seconds=time.monotonic() - began,
            faults=tuple(run.faults),
            details=run.details(),
        )
        run.panel.end(as_expected=result.ok)
    if not console.is_terminal:
        console.print()  # Live ends its last frame with a line break on terminals only
    return result


@dataclass(frozen=True, slots=True)
class DemoSession:
    """A demo on the command line: `rest` is how many seconds a viewer has to read each ending."""

    shell: CommandContext
    rest: float

    @property
    def console(self) -> Console:
        return err if self.shell.as_json else out

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        """Connect to an instance that is ready; a SIGTERM ends the block through each `finally`."""
        with _cancel_on_sigterm():
            async with self.shell.connect() as muster:
                if await none_on(muster.get("/actuator/health/readiness"), 503) is None:
                    raise CommandError(
                        f"Muster at {muster.instance.url} is not ready: see `muster status`, or "
                        "try again."
                    )
                yield muster

    def introduce(self, title: str, text: str, **addresses: str) -> None:
        width = max(map(len, addresses)) + 2
        lines = [f"{name.replace('_', ' '):{width}}{place}" for name, place in addresses.items()]
        listing = "\n".join(lines)
        self.console.print(
            Panel.fit(f"{text}\n\n[dim]{listing}[/]", title=title, title_align="left")
        )

    async def play(
        self, scenarios: Sequence[AnyScenario], start: Callable[[AnyScenario, str], ScenarioRun]
    ) -> list[ScenarioResult]:
        """Play the scenarios one after another."""
        results = []
        for number, scenario in enumerate(scenarios, 1):
            run = start(scenario, f"{number}/{len(scenarios)}")
            results.append(await play(scenario, run, self.console))
            await asyncio.sleep(self.rest)
        return results

    def report(self, results: Sequence[ScenarioResult], **more: Any) -> None:
        """Print the table of results, and with `--json` a document that also has `more`."""
        self.console.print(results_table(results))
        failed = sum(not result.ok for result in results)
        verdict = f"[bold red]{failed} scenes did not end as expected.[/]"
        self.console.print(verdict if failed else "[bold green]Every scene ended as expected.[/]")
        if self.shell.as_json:
            scenes = [result.document() for result in results]
            print_json({"ok": not failed, "scenes": scenes, **more})


def exit_unless_ok(results: Sequence[ScenarioResult]) -> None:
    if not all(result.ok for result in results):
        raise typer.Exit(1)


async def none_on(request: Awaitable[Any], *statuses: int) -> Any:
    """Await a request; return None if it is refused with one of these statuses."""
    try:
        return await request
    except ProblemResponseError as problem:
        if problem.status not in statuses:
            raise
        return None


async def wait_for_stop() -> None:
    """Wait for Ctrl-C or SIGTERM."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = signal.getsignal(signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stopped.set)
    try:
        await stopped.wait()
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGINT, before)


@contextmanager
def _cancel_on_sigterm() -> Iterator[None]:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is None:
        raise RuntimeError("there is no task to cancel")
    signals: list[signal.Signals] = []

    def cancel() -> None:
        signals.append(signal.SIGTERM)
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, cancel)
    try:
        yield
    except asyncio.CancelledError:
        if not signals:
            raise
        raise typer.Exit(128 + signals[0]) from None
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
