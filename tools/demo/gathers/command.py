"""The `demo gather` command."""

import asyncio
import json
import shlex
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.panel import Panel

from cli.shell.client import Client, connect
from cli.shell.context import CommandContext, command, err, out, print_json
from cli.shell.instance import Instance
from core.gathers.gather import MAX_TIMEOUT_MS
from tools.demo.gathers.endings import cancel_on_sigterm, wait_for_stop
from tools.demo.gathers.registration import registered_resources
from tools.demo.gathers.resource import DemoResources
from tools.demo.gathers.scene import NAMES, GatherScenario
from tools.demo.gathers.script import DELAYS, SCENARIOS, TIMEOUT, custom_scenario
from tools.demo.gathers.stage import JOURNALS, PATIENT, GatherDemoResult, GatherDemoRunner
from tools.demo.readiness import require_ready
from tools.demo.waits.screen import summary_view

_FAST = 0.2  # of the usual delays
_REST = 0.5  # seconds to read a scene's end


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoGatherOptions:
    """What to play, and what stays."""

    fast: Annotated[
        bool, typer.Option("--fast", help="A fifth of all delays and timeouts, no pauses.")
    ] = False
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the resources running until Ctrl-C.")
    ] = False
    delays: Annotated[
        str | None,
        typer.Option(
            help="Play one gather with these delays in milliseconds instead: -1 rejects, other "
            "negative ones fail, -10 hangs, -11 closes, -12 keeps silent, -13 calls back twice.",
            metavar="D1,D2,D3",
        ),
    ] = None
    timeout: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_TIMEOUT_MS, help="Play one gather with this timeout in milliseconds."
        ),
    ] = None

    def scenes(self) -> tuple[GatherScenario, ...]:
        """What is played."""
        pace = _FAST if self.fast else 1.0
        if self.delays is not None or self.timeout is not None:
            return (custom_scenario(self.delays, self.timeout, pace),)
        return tuple(scene.at_pace(pace) for scene in SCENARIOS)


@command
async def gather(options: DemoGatherOptions, shell: CommandContext) -> None:
    """Watch one request ask three resources, and their answers stream back.

    Starts three small resources, registers them as resource-1 to resource-3 with the running
    instance, and plays a timeline: two answer in time, one after the timeout. Then a caller that
    waits for everyone, one resource that refuses, all that refuse, one that closes the connection
    and one that calls back twice. What was registered before is put back at the end.

    Ends with exit code 1 if any gather did not end as expected.
    """
    scenes = options.scenes()
    console = err if shell.as_json else out
    with cancel_on_sigterm():
        async with AsyncExitStack() as stack:
            muster = await stack.enter_async_context(shell.connect())
            await require_ready(muster)
            browser = await stack.enter_async_context(connect(Instance(muster.instance.url)))
            resources = await stack.enter_async_context(DemoResources())
            await stack.enter_async_context(registered_resources(muster, resources))
            _introduce(console, muster, resources)
            stage = GatherDemoRunner(
                muster=muster, browser=browser, resources=resources, console=console
            )
            performances = await _play_all(stage, scenes, rest=0 if options.fast else _REST)
            _conclude(console, performances)
            if shell.as_json:
                print_json(_document(muster, resources, performances, kept=options.keep))
            if options.keep:
                _invite(console, muster)
                await wait_for_stop()
    if not all(performance.ok for performance in performances):
        raise typer.Exit(1)


async def _play_all(
    stage: GatherDemoRunner, scenes: tuple[GatherScenario, ...], *, rest: float
) -> list[GatherDemoResult]:
    performances: list[GatherDemoResult] = []
    for number, scene in enumerate(scenes, 1):
        performances.append(await stage.play(scene, f"{number}/{len(scenes)}"))
        await asyncio.sleep(rest)
    return performances


def page_of(instance: Instance) -> str:
    """The page where gathers can be watched; the key is in the part that is never sent."""
    key = f"#key={instance.key}" if instance.key else ""
    return f"{instance.url}/gather{key}"


def curl_of(instance: Instance) -> str:
    """A gather as a command line."""
    delays = ",".join(map(str, DELAYS))
    body = {"patientId": PATIENT, "delays": delays, "timeoutMs": TIMEOUT}
    words = ["curl", "-s", f"{instance.url}{JOURNALS}"]
    words += ["-H", f"Authorization: Bearer {instance.key}"] if instance.key else []
    words += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    return shlex.join(words)


def _document(
    muster: Client, resources: DemoResources, performances: list[GatherDemoResult], *, kept: bool
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "ok": all(one.ok for one in performances),
        "scenes": [performance.document() for performance in performances],
    }
    if kept:
        urls = {name: resources.url_of(number) for number, name in enumerate(NAMES, 1)}
        document |= {"page": page_of(muster.instance), "resources": urls}
    return document


def _introduce(console: Console, muster: Client, resources: DemoResources) -> None:
    console.print(
        Panel.fit(
            "A client asks for a patient's journals. Muster calls [bold]three resources[/]\n"
            "in parallel; they call back when they like: soon, twice, too late or\n"
            "never. Answers [bold]stream[/] to the client as they come, and the timeout\n"
            "ends the wait for the rest.\n\n"
            f"[dim]Muster     {muster.instance.url}\n"
            f"Resources  {resources.url} (fake ones, in this process)[/]",
            title="Muster gathers",
            title_align="left",
        )
    )


def _conclude(console: Console, performances: list[GatherDemoResult]) -> None:
    console.print(summary_view(performances))
    failed = sum(not performance.ok for performance in performances)
    verdict = f"[bold red]{failed} gathers did not end as expected.[/]"
    console.print(verdict if failed else "[bold green]Every gather ended as expected.[/]")


def _invite(console: Console, muster: Client) -> None:
    console.print("\nThe resources stay until Ctrl-C. Try them on the page or from the shell:")
    for line in (page_of(muster.instance), curl_of(muster.instance)):
        console.print(f"  {line}", markup=False, soft_wrap=True)
