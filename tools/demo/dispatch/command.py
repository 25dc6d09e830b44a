"""The command `muster demo dispatch`."""

import functools
import secrets

from cli.shell.context import CommandContext, single_command
from cli.shell.options import option
from tools.demo.dispatch.panel import deliveries_table
from tools.demo.dispatch.receiver import DemoReceiver
from tools.demo.dispatch.run import DispatchDemo, DispatchRun
from tools.demo.dispatch.script import SCENARIOS
from tools.demo.dispatch.setup import POOL, demo_subscriptions
from tools.demo.runner import DemoSession, exit_unless_ok

_REST = 1.5
_INTRODUCTION = """\
A shop sends [bold]events[/]. Five subscribers want some of them, each in its
own way; Muster brings them there: [bold]signed[/], in [bold]order[/] where that
matters, at a [bold]rate[/], again if need be, and never two for one."""


@single_command("muster demo dispatch --fast")
async def dispatch(
    shell: CommandContext,
    fast: bool = option("No pauses between scenes.", "--fast", default=False),
) -> None:
    """Watch events go to those who want them: signed, in order, at a rate, in spite of troubles.

    Starts a receiver on this machine that verifies every signature, makes a pool, event types and
    subscriptions of all three modes, and plays: one event to two subscribers, one that its schema
    refuses, a duplicate, groups in order while one is poisoned, skipped and resumed, a receiver
    that is busy, a pool with a rate, and a new secret. What it made is taken away at the end.

    Ends with exit code 1 if any scene did not end as expected.
    """
    session = DemoSession(shell, rest=0 if fast else _REST)
    async with session.connect() as muster, DemoReceiver() as receiver:
        session.introduce(
            "Muster dispatches",
            _INTRODUCTION,
            Muster=muster.instance.url,
            Receiver=f"{receiver.url} (a real server, in this process)",
            Pool=f"{POOL}, archived again at the end",
        )
        async with demo_subscriptions(muster, receiver, secrets.token_hex(3)) as names:
            start = functools.partial(DispatchRun, DispatchDemo(muster, receiver, names))
            results = await session.play(SCENARIOS, start)
    session.console.print(deliveries_table(receiver.deliveries))
    session.report(
        results,
        arrived=len(receiver.deliveries),
        verified=sum(bool(one.signed_by) for one in receiver.deliveries),
    )
    exit_unless_ok(results)
