"""Counters of a shard, read by metrics, status and tests."""

from bisect import bisect_left
from typing import Any

from actors.waits.turn import Turn
from core.waits.messages import OfferReply, RegisterReply, Reply, Verdict
from core.waits.spec import Source
from core.waits.state import Wait
from core.waits.strategy import Status
from telemetry.registry import FLUSH_BOUNDS

_FIRST = {source: f"first_{source}" for source in Source}


class ShardCounters:
    """Counters since this process started."""

    def __init__(self) -> None:
        self._counts: dict[str, float] = dict.fromkeys(
            [
                "registered",
                *(verdict.value for verdict in Verdict),
                *(f"ended_{status}" for status in Status if status is not Status.WAITING),
                *(f"first_{source}" for source in Source),
                "wait_seconds_sum",
                "conflicts",
                "flushes",
                "flush_rows",
                "flush_seconds_sum",
                "flush_failures",
                "rows_refused",
                "loads",
                "passivated",
            ],
            0,
        )
        self._flush_buckets = [0] * (len(FLUSH_BOUNDS) + 1)

    def add(self, name: str, amount: float = 1) -> None:
        self._counts[name] += amount

    def replies(self, turns: list[tuple[Turn, Reply]]) -> None:
        """Count committed answers."""
        for _, reply in turns:
            if isinstance(reply, OfferReply):
                self._counts[reply.verdict] += 1
            elif isinstance(reply, RegisterReply) and reply.created:
                self._counts["registered"] += 1

    def stored(self, before: Wait | None, after: Wait) -> None:
        """Count what a committed change means for its wait."""
        # Skip waits with an empty log cheaply: they have received no event.
        had_event = before is not None and before.log_length and _first_received(before) is not None
        if after.log_length and not had_event:
            first = _first_received(after)
            if first is not None:
                self._counts[_FIRST[after.spec.events[first].source]] += 1
        if after.ending is not None and (before is None or before.ending is None):
            self._counts[f"ended_{after.ending.status}"] += 1
            self._counts["wait_seconds_sum"] += after.ending.at - after.opened_at

    def flush(self, rows: int, seconds: float) -> None:
        self._counts["flushes"] += 1
        self._counts["flush_rows"] += rows
        self._counts["flush_seconds_sum"] += seconds
        self._flush_buckets[bisect_left(FLUSH_BOUNDS, seconds)] += 1

    def snapshot(self) -> dict[str, Any]:
        return {**self._counts, "flush_seconds_buckets": list(self._flush_buckets)}


def _first_received(wait: Wait) -> int | None:
    """Return the index of the event that was received first, or None. Runs for every change."""
    first, lowest = None, 0
    for index, mark in enumerate(wait.marks):
        if mark.event_id and (first is None or mark.seq < lowest):
            first, lowest = index, mark.seq
    return first
