"""The demo of waits."""

import asyncio
import secrets
from contextlib import AsyncExitStack
from typing import Annotated

import typer
from rich.console import Console
from rich.panel import Panel

from cli.kafka.broker import find_broker
from cli.shell.client import Client, connect
from cli.shell.context import CommandContext, command, err, out, print_json
from cli.shell.errors import CommandError
from cli.shell.instance import Instance
from tools.demo.readiness import require_ready
from tools.demo.waits.broker import DemoBroker, open_demo_broker
from tools.demo.waits.scene import TOPIC
from tools.demo.waits.screen import summary_view
from tools.demo.waits.service import ExternalService
from tools.demo.waits.stage import WaitDemoResult, WaitDemoRunner

_FAST = 0.35  # of the usual delays
_REST = 0.5  # seconds to read a scene's end


@command
async def demo(
    shell: CommandContext,
    fast: Annotated[bool, typer.Option("--fast", help="Shorter delays, no pauses.")] = False,
) -> None:
    """Watch correlations complete, time out and refuse, in about twenty seconds.

    Plays the five configuration examples and the three timeout policies against the running
    instance and a small external service that it starts: both arrival orders, a duplicate, an
    early event, a late one, an event of another execution, and what explain says about them.
    Where Muster has a Kafka broker, one more scene goes by it.

    Ends with exit code 1 if any scene did not end as expected.
    """
    console = err if shell.as_json else out
    async with AsyncExitStack() as stack:
        muster = await stack.enter_async_context(shell.connect())
        await require_ready(muster)
        anonymous = await stack.enter_async_context(connect(Instance(muster.instance.url)))
        broker = await _broker(stack, muster, shell)
        service = await stack.enter_async_context(
            ExternalService(muster, anonymous, pace=_FAST if fast else 1.0, broker=broker)
        )
        caller = await stack.enter_async_context(connect(Instance(service.url)))
        stage = WaitDemoRunner(
            muster=muster,
            caller=caller,
            service=service,
            console=console,
            run_id=secrets.token_hex(3),
            broker=broker,
        )
        _introduce(console, stage)
        performances = await _play_all(stage, rest=0 if fast else _REST)
    _conclude(console, performances)
    if shell.as_json:
        documents = [performance.document() for performance in performances]
        print_json({"ok": all(one.ok for one in performances), "scenes": documents})
    if not all(performance.ok for performance in performances):
        raise typer.Exit(1)


async def _broker(
    stack: AsyncExitStack, muster: Client, shell: CommandContext
) -> DemoBroker | None:
    """The broker that Muster reads from, if it has one."""
    kafka = await muster.get("/api/kafka")
    if not kafka.get("connected"):
        return None
    try:
        config = find_broker(None, shell.data_dir)
    except CommandError:
        return None  # another machine's, whose broker is not ours to know
    return await stack.enter_async_context(
        open_demo_broker(muster, config, str(kafka["completionTopic"]))
    )


async def _play_all(stage: WaitDemoRunner, *, rest: float) -> list[WaitDemoResult]:
    performances: list[WaitDemoResult] = []
    for number, scene in enumerate(stage.scenes, 1):
        performances.append(await stage.play(scene, f"{number}/{len(stage.scenes)}"))
        await asyncio.sleep(rest)
    return performances


def _introduce(console: Console, stage: WaitDemoRunner) -> None:
    console.print(
        Panel.fit(
            "A workflow calls an external service, which answers by a [bold]callback[/]\n"
            f"and by a [bold]Kafka event[/] on {TOPIC}: in any order, twice,\n"
            "early, late or never. Muster gathers what belongs together and\n"
            "completes exactly once.\n\n"
            f"[dim]Muster            {stage.muster.instance.url}\n"
            f"External service  {stage.service.url} (a fake one, in this process)\n"
            f"Kafka             {_kafka_of(stage)}[/]",
            title="Muster",
            title_align="left",
        )
    )


def _kafka_of(stage: WaitDemoRunner) -> str:
    if stage.broker is None:
        return "by HTTP, as everywhere without a broker"
    return "by HTTP, and in the last scene by the broker"


def _conclude(console: Console, performances: list[WaitDemoResult]) -> None:
    console.print(summary_view(performances))
    failed = [performance for performance in performances if not performance.ok]
    shown = (failed or performances)[-1]
    verdict = f"[bold red]{len(failed)} scenes did not end as expected.[/]"
    console.print(verdict if failed else "[bold green]Every scene ended as expected.[/]")
    command_line = f"muster wait explain {shown.execution_id} {shown.correlation_id}"
    console.print(f"[dim]Look for yourself:[/] {command_line}", soft_wrap=True)
