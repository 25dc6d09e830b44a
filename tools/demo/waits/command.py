"""The command `muster demo waits`, which is also `muster demo`."""

import functools
import secrets

from cli.shell.client import connect
from cli.shell.context import CommandContext, single_command
from cli.shell.instance import Instance
from cli.shell.options import option
from tools.demo.runner import DemoSession, exit_unless_ok
from tools.demo.waits.broker import open_demo_broker
from tools.demo.waits.run import WaitDemo, WaitRun
from tools.demo.waits.script import BROKER_SCENARIOS, SCENARIOS, TOPIC
from tools.demo.waits.service import ExternalService

_FAST = 0.35  # of the usual delays
_REST = 0.5
_INTRODUCTION = f"""\
A workflow calls an external service, which answers by a [bold]callback[/]
and by a [bold]Kafka event[/] on {TOPIC}: in any order, twice,
early, late or never. Muster gathers what belongs together and
completes exactly once."""


@single_command("muster demo --fast")
async def waits(
    shell: CommandContext,
    fast: bool = option("Shorter delays, no pauses.", "--fast", default=False),
) -> None:
    """Watch correlations complete, time out and refuse, in about twenty seconds.

    Plays the five configuration examples and the three timeout policies against the running
    instance and a small external service that it starts: both arrival orders, a duplicate, an
    early event, a late one, an event of another execution, and what explain says about them.
    Where Muster has a Kafka broker, one more scene goes by it.

    Ends with exit code 1 if any scene did not end as expected.
    """
    session, pace = DemoSession(shell, rest=0 if fast else _REST), _FAST if fast else 1.0
    async with (
        session.connect() as muster,
        connect(Instance(muster.instance.url)) as anonymous,
        open_demo_broker(muster, shell) as broker,
        ExternalService(muster, anonymous, pace=pace, broker=broker) as service,
        connect(Instance(service.url)) as caller,
    ):
        last = "and in the last scene by the broker" if broker else "as everywhere without a broker"
        session.introduce(
            "Muster",
            _INTRODUCTION,
            Muster=muster.instance.url,
            External_service=f"{service.url} (a fake one, in this process)",
            Kafka=f"by HTTP, {last}",
        )
        setting = WaitDemo(muster, caller, service, secrets.token_hex(3), broker)
        scenarios = (*SCENARIOS, *BROKER_SCENARIOS) if broker else SCENARIOS
        results = await session.play(scenarios, functools.partial(WaitRun, setting))
    session.report(results)
    shown = ([result for result in results if not result.ok] or results)[-1].details
    command_line = f"muster wait explain {shown['executionId']} {shown['correlationId']}"
    session.console.print(f"[dim]Look for yourself:[/] {command_line}", soft_wrap=True)
    exit_unless_ok(results)
