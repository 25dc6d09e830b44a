"""The command `muster demo records`."""

import functools

from cli.shell.context import CommandContext, single_command
from cli.shell.options import option
from tools.demo.records.run import RecordRun, demo_collections
from tools.demo.records.script import SCENARIOS
from tools.demo.runner import DemoSession, exit_unless_ok

_REST = 1.0
_INTRODUCTION = """\
A shop keeps its [bold]orders[/] in a collection: typed fields, a formula, a
number from a series. Every write is [bold]checked as a whole[/], kept with its
[bold]history[/], and answered after the commit."""


@single_command("muster demo records --fast")
async def records(
    shell: CommandContext,
    fast: bool = option("No pauses between scenes.", "--fast", default=False),
) -> None:
    """Watch records being saved, refused, changed by two at once, listed and deleted.

    Defines two collections and plays: a record that is completed as it is saved, one with many
    errors, ten that want the same code, two that change one version, a thousand in one request, and
    an order that goes with its lines. Both collections are archived at the end.

    Ends with exit code 1 if any scene did not end as expected.
    """
    session = DemoSession(shell, rest=0 if fast else _REST)
    async with session.connect() as muster, demo_collections(muster) as demo:
        session.introduce(
            "Muster keeps records",
            _INTRODUCTION,
            Muster=muster.instance.url,
            Collections=f"{demo.orders}, {demo.lines}",
        )
        results = await session.play(SCENARIOS, functools.partial(RecordRun, demo))
    session.report(results)
    exit_unless_ok(results)
