"""Finds actors that answer but make no progress although they have work."""

from collections.abc import Mapping
from typing import Any

# Reports are a few seconds old, so that a stall is noticed within half a minute.
STALLED_AFTER = 20.0
# Work on whole tables may take long; nobody waits for it.
SLOW_WORK = {"reoffer": 900.0, "forget": 900.0, "reindex": 3_600.0, "partitions": 1_800.0}

UNMEASURED = "cannot be measured"


def stalled_work(stalled: Mapping[str, float]) -> dict[str, float]:
    """Return the work that has stalled for too long, with the seconds."""
    return {
        work: seconds
        for work, seconds in stalled.items()
        if seconds > SLOW_WORK.get(work, STALLED_AFTER)
    }


def stall_of(report: Mapping[str, Any]) -> str | None:
    """Say what an actor's report shows as stalled; None if nothing is."""
    measured = report.get("stalled")
    if measured is None:
        return UNMEASURED
    stuck = stalled_work(measured)
    if not stuck:
        return None
    return ", ".join(f"{work} stalled for {seconds:.0f} s" for work, seconds in stuck.items())
