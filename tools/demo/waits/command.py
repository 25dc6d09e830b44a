"""The command `muster demo waits`, which is also `muster demo`."""

import functools
import secrets
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from cli.kafka.broker import find_broker
from cli.shell.client import Client, connect
from cli.shell.context import CommandContext, command
from cli.shell.errors import CommandError
from cli.shell.instance import Instance
from tools.demo.runner import DemoSession, exit_unless_ok
from tools.demo.waits.broker import DemoBroker, open_demo_broker
from tools.demo.waits.run import WaitDemo, WaitRun
from tools.demo.waits.scenario import TOPIC
from tools.demo.waits.script import BROKER_SCENARIOS, SCENARIOS
from tools.demo.waits.service import ExternalService

_FAST = 0.35  # of the usual delays
_REST = 0.5
_INTRODUCTION = f"""\
A workflow calls an external service, which answers by a [bold]callback[/]
and by a [bold]Kafka event[/] on {TOPIC}: in any order, twice,
early, late or never. Muster gathers what belongs together and
completes exactly once."""


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
    session = DemoSession(shell, rest=0 if fast else _REST)
    async with AsyncExitStack() as stack:
        muster = await stack.enter_async_context(session.connect())
        anonymous = await stack.enter_async_context(connect(Instance(muster.instance.url)))
        broker = await _broker(stack, muster, shell)
        service = await stack.enter_async_context(
            ExternalService(muster, anonymous, pace=_FAST if fast else 1.0, broker=broker)
        )
        caller = await stack.enter_async_context(connect(Instance(service.url)))
        session.introduce(
            "Muster",
            _INTRODUCTION,
            Muster=muster.instance.url,
            External_service=f"{service.url} (a fake one, in this process)",
            Kafka="by HTTP, and in the last scene by the broker"
            if broker
            else "by HTTP, as everywhere without a broker",
        )
        run_id = secrets.token_hex(3)
        setting = WaitDemo(
            muster=muster, caller=caller, service=service, run_id=run_id, broker=broker
        )
        scenarios = (*SCENARIOS, *BROKER_SCENARIOS) if broker else SCENARIOS
        results = await session.play(scenarios, functools.partial(WaitRun, setting))
    session.report(results)
    shown = ([result for result in results if not result.ok] or results)[-1].details
    command_line = f"muster wait explain {shown['executionId']} {shown['correlationId']}"
    session.console.print(f"[dim]Look for yourself:[/] {command_line}", soft_wrap=True)
    exit_unless_ok(results)


async def _broker(
    stack: AsyncExitStack, muster: Client, shell: CommandContext
) -> DemoBroker | None:
    """Connect to the broker that Muster reads from, if there is one and its address is known."""
    kafka = await muster.get("/api/kafka")
    if not kafka.get("connected"):
        return None
    try:
        config = find_broker(None, shell.data_dir)
    except CommandError:
        return None  # the broker of an instance on another machine
    return await stack.enter_async_context(
        open_demo_broker(muster, config, str(kafka["completionTopic"]))
    )
