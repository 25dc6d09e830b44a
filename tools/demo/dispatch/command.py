"""The `demo dispatch` command."""

import asyncio
import secrets
from contextlib import AsyncExitStack
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.panel import Panel

from cli.shell.context import CommandContext, command, err, out, print_json
from tools.demo.dispatch.cast import POOL, demo_subscriptions
from tools.demo.dispatch.receiver import DemoDelivery, DemoReceiver
from tools.demo.dispatch.screen import deliveries_view
from tools.demo.dispatch.script import SCENARIOS
from tools.demo.dispatch.stage import DispatchDemoResult, DispatchDemoRunner
from tools.demo.gathers.endings import cancel_on_sigterm
from tools.demo.readiness import require_ready
from tools.demo.waits.screen import summary_view

_REST = 1.5  # seconds to read a scene's end


@command
async def dispatch(
    shell: CommandContext,
    fast: Annotated[bool, typer.Option("--fast", help="No pauses between scenes.")] = False,
) -> None:
    """Watch events go to those who want them: signed, in order, at a rate, in spite of troubles.

    Starts a receiver on this machine that verifies every signature, makes a pool, event types and
    subscriptions of all three modes, and plays: one event to two subscribers, one that its schema
    refuses, a duplicate, groups in order while one is poisoned, skipped and resumed, a receiver
    that is busy, a pool with a rate, and a new secret. What it made is taken away at the end.

    Ends with exit code 1 if any scene did not end as expected.
    """
    console = err if shell.as_json else out
    with cancel_on_sigterm():
        async with AsyncExitStack() as stack:
            muster = await stack.enter_async_context(shell.connect())
            await require_ready(muster)
            receiver = await stack.enter_async_context(DemoReceiver())
            _introduce(console, muster.instance.url, receiver)
            cast = await stack.enter_async_context(
                demo_subscriptions(muster, receiver, secrets.token_hex(3))
            )
            stage = DispatchDemoRunner(muster=muster, receiver=receiver, cast=cast, console=console)
            performances = await _play_all(stage, rest=0 if fast else _REST)
        _conclude(console, performances, receiver.deliveries)
    if shell.as_json:
        print_json(_document(performances, receiver.deliveries))
    if not all(performance.ok for performance in performances):
        raise typer.Exit(1)


async def _play_all(stage: DispatchDemoRunner, *, rest: float) -> list[DispatchDemoResult]:
    performances: list[DispatchDemoResult] = []
    for number, scene in enumerate(SCENARIOS, 1):
        performances.append(await stage.play(scene, f"{number}/{len(SCENARIOS)}"))
        await asyncio.sleep(rest)
    return performances


def _document(
    performances: list[DispatchDemoResult], deliveries: list[DemoDelivery]
) -> dict[str, Any]:
    return {
        "ok": all(one.ok for one in performances),
        "scenes": [performance.document() for performance in performances],
        "arrived": len(deliveries),
        "verified": sum(bool(one.signed_by) for one in deliveries),
    }


def _introduce(console: Console, url: str, receiver: DemoReceiver) -> None:
    console.print(
        Panel.fit(
            "A shop sends [bold]events[/]. Five subscribers want some of them, each in its\n"
            "own way; Muster brings them there: [bold]signed[/], in [bold]order[/] where that\n"
            "matters, at a [bold]rate[/], again if need be, and never two for one.\n\n"
            f"[dim]Muster    {url}\n"
            f"Receiver  {receiver.url} (a real server, in this process)\n"
            f"Pool      {POOL}, archived again at the end[/]",
            title="Muster dispatches",
            title_align="left",
        )
    )


def _conclude(
    console: Console, performances: list[DispatchDemoResult], deliveries: list[DemoDelivery]
) -> None:
    console.print(deliveries_view(deliveries))
    console.print(summary_view(performances))
    failed = sum(not performance.ok for performance in performances)
    verdict = f"[bold red]{failed} scenes did not end as expected.[/]"
    console.print(verdict if failed else "[bold green]Every scene ended as expected.[/]")
