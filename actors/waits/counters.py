"""Counters of a shard, read by metrics, status and tests."""

from bisect import bisect_left
from typing import Any

from actors.waits.turn import Turn
from core.waits.messages import OfferReply, RegisterReply, Reply, Verdict
from core.waits.spec import Source
from core.waits.state import Wait
from core.waits.strategy import Status
from telemetry.actor_metrics import ActorMetrics, HistogramStat, Stat, SummaryStat

FLUSH_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_ENDED = Stat(
    "waits_ended",
    "Waits that ended, by status; the timeout rate is the share of status timeout.",
    "ended_",
    label="status",
    values=tuple(status for status in Status if status is not Status.WAITING),
)
_FIRST = {source: f"first_{source}" for source in Source}
SHARD_METRICS = ActorMetrics(
    kind="shard",
    labels=("shard",),
    counters=(
        Stat("waits_registered", "Waits that were registered.", "registered"),
        Stat(
            "events",
            "Events by verdict: buffered ones were early.",
            "",
            label="verdict",
            values=tuple(Verdict),
        ),
        _ENDED,
        Stat(
            "first_arrivals",
            "Arrival order: which source a wait's first event came from.",
            "first_",
            label="source",
            values=tuple(Source),
        ),
        Stat(
            "resume_conflicts",
            "Writes that lost their row to another owner and were decided again.",
            "conflicts",
        ),
        Stat("activations", "Correlations that were loaded from Postgres.", "loads"),
        Stat("passivations", "Idle correlations that left memory.", "passivated"),
        Stat("flush_failures", "Flushes that Postgres did not take.", "flush_failures"),
        Stat("rows_refused", "Changes that Postgres will never take.", "rows_refused"),
    ),
    gauges=(
        Stat("hot_correlations", "Correlations in a shard's memory.", "hot"),
        Stat("pending_messages", "Messages that wait for a shard's next flush.", "pending"),
    ),
    summaries=(
        SummaryStat(
            "wait_seconds",
            "How long ended waits had waited.",
            counts=tuple(_ENDED.stats),
            total="wait_seconds_sum",
        ),
        SummaryStat("flush_rows", "Rows per flush.", ("flushes",), "flush_rows"),
    ),
    histograms=(
        HistogramStat(
            "flush_seconds",
            "Time per flush.",
            FLUSH_BOUNDS,
            counts="flush_seconds_buckets",
            total="flush_seconds_sum",
        ),
    ),
)


class ShardCounters:
    """Counters since this process started."""

    def __init__(self) -> None:
        named = [stat for metric in SHARD_METRICS.counters for stat in metric.stats]
        named += ["wait_seconds_sum", "flushes", "flush_rows", "flush_seconds_sum"]
        self._counts: dict[str, float] = dict.fromkeys(named, 0)
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
