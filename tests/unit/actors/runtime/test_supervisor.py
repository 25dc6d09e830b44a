"""Each stall is told once, and not by who is stalled."""

import asyncio

from structlog.testing import capture_logs

from actors.runtime.supervisor import StallWatch
from storage.operations.warnings import NewWarning, Severity


def report(seconds: float) -> dict[str, object]:
    return {"name": "shard-0", "stalled": {"commit": seconds}}


async def test_a_stall_is_told_once_and_so_is_its_end() -> None:
    warned: list[NewWarning] = []

    async def warn(warning: NewWarning) -> None:
        warned.append(warning)

    watch = StallWatch(warn)
    with capture_logs() as logs:
        for seconds in (0.0, 21.0, 22.0, 23.0, 0.0, 0.0, 30.0):
            watch.check([report(seconds), {"name": "timer", "stalled": {}}])
            await asyncio.sleep(0)
    assert [one["event"] for one in logs] == [
        "supervisor.actor_stalled",
        "supervisor.actor_recovered",
        "supervisor.actor_stalled",
    ]
    assert [one.message for one in warned] == [
        "shard-0 makes no progress: commit stalled for 21 s",
        "shard-0 makes no progress: commit stalled for 30 s",
    ]
    assert {(one.category, one.source, one.severity) for one in warned} == {
        ("STALLED", "shard-0", Severity.CRITICAL)
    }


async def test_a_warning_that_cannot_be_written_harms_nothing() -> None:
    async def warn(_: NewWarning) -> None:
        raise ConnectionError

    watch = StallWatch(warn)
    with capture_logs() as logs:
        watch.check([report(40.0)])
        await asyncio.sleep(0.01)
    assert logs[-1]["event"] == "supervisor.warning_lost"
