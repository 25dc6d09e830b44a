"""The command `muster demo gather`."""

import functools
import json
import shlex
from dataclasses import dataclass
from typing import Any

from cli.shell.client import connect
from cli.shell.context import CommandContext, single_command
from cli.shell.instance import Instance
from cli.shell.options import option
from core.gathers.gather import MAX_TIMEOUT_MS
from tools.demo.gathers import script
from tools.demo.gathers.resource import DemoResources
from tools.demo.gathers.run import JOURNALS, PATIENT, GatherDemo, GatherRun, registered_resources
from tools.demo.gathers.script import GatherScenario
from tools.demo.runner import DemoSession, exit_unless_ok, wait_for_stop

_FAST = 0.2  # of the usual delays
_REST = 0.5
_INTRODUCTION = """\
A client asks for a patient's journals. Muster calls [bold]three resources[/]
in parallel; they call back when they like: soon, twice, too late or
never. Answers [bold]stream[/] to the client as they come, and the timeout
ends the wait for the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoGatherOptions:
    """What to play, and what stays."""

    fast: bool = option("A fifth of all delays and timeouts, no pauses.", "--fast", default=False)
    keep: bool = option("Leave the resources running until Ctrl-C.", "--keep", default=False)
    delays: str | None = option(
        "Play one gather with these delays in milliseconds instead: -1 rejects, other "
        "negative ones fail, -10 hangs, -11 closes, -12 keeps silent, -13 calls back twice.",
        metavar="D1,D2,D3",
    )
    timeout: int | None = option(
        "Play one gather with this timeout in milliseconds.", min=1, max=MAX_TIMEOUT_MS
    )

    def scenarios(self) -> tuple[GatherScenario, ...]:
        pace = _FAST if self.fast else 1.0
        if self.delays is not None or self.timeout is not None:
            return (script.custom_scenario(self.delays, self.timeout, pace),)
        return tuple(scenario.at_pace(pace) for scenario in script.SCENARIOS)


@single_command("muster demo gather --fast")
async def gather(options: DemoGatherOptions, shell: CommandContext) -> None:
    """Watch one request ask three resources, and their answers stream back.

    Starts three small resources, registers them as resource-1 to resource-3 with the running
    instance, and plays a timeline: two answer in time, one after the timeout. Then a caller that
    waits for everyone, one resource that refuses, all that refuse, one that closes the connection
    and one that calls back twice. What was registered before is put back at the end.

    Ends with exit code 1 if any gather did not end as expected.
    """
    scenarios = options.scenarios()
    session = DemoSession(shell, rest=0 if options.fast else _REST)
    async with (
        session.connect() as muster,
        connect(Instance(muster.instance.url)) as browser,
        DemoResources() as resources,
        registered_resources(muster, resources),
    ):
        session.introduce(
            "Muster gathers",
            _INTRODUCTION,
            Muster=muster.instance.url,
            Resources=f"{resources.url} (fake ones, in this process)",
        )
        start = functools.partial(GatherRun, GatherDemo(muster, browser, resources))
        results = await session.play(scenarios, start)
        session.report(results, **(_addresses(muster.instance, resources) if options.keep else {}))
        if options.keep:
            session.console.print(
                "\nThe resources stay until Ctrl-C. Try them on the page or from the shell:"
            )
            for line in (page_of(muster.instance), curl_of(muster.instance)):
                session.console.print(f"  {line}", markup=False, soft_wrap=True)
            await wait_for_stop()
    exit_unless_ok(results)


def page_of(instance: Instance) -> str:
    """Return the page that shows gathers; browsers never send the part with the key."""
    key = f"#key={instance.key}" if instance.key else ""
    return f"{instance.url}/gather{key}"


def curl_of(instance: Instance) -> str:
    """Write a gather as a curl command."""
    delays = ",".join(map(str, script.DELAYS))
    body = {"patientId": PATIENT, "delays": delays, "timeoutMs": script.TIMEOUT}
    words = ["curl", "-s", f"{instance.url}{JOURNALS}"]
    words += ["-H", f"Authorization: Bearer {instance.key}"] if instance.key else []
    words += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    return shlex.join(words)


def _addresses(instance: Instance, resources: DemoResources) -> dict[str, Any]:
    urls = {name: resources.url_of(number) for number, name in enumerate(script.NAMES, 1)}
    return {"page": page_of(instance), "resources": urls}
