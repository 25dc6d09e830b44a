"""What Prometheus is told of gathers: how they ended, and how each resource answers.

Series that name a resource are those of the asking tenant.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.metrics_core import Metric

Actor = Mapping[str, Any]
_ANSWERS = ("ok", "REJECTED")
_STATES = (*_ANSWERS, "TIMEOUT", "CONNECTION_CLOSED", "ERROR")


def gather_families(actors: Sequence[Actor], tenant: int | None) -> Iterator[Metric]:
    """Every family."""
    shards = [actor for actor in actors if actor.get("kind") == "shard"]
    pools = [actor for actor in actors if actor.get("kind") == "pool"]
    yield from _ended(shards)
    yield from _answers(_rows(shards, tenant, ("gathers", "resources")))
    yield from _calls(_rows(pools, tenant, ("resources",)))
    under_way = GaugeMetricFamily(
        "muster_calls_under_way", "Calls that a pool is making.", labels=["pool"]
    )
    for pool in pools:
        under_way.add_metric([str(pool["name"])], _stats(pool).get("under_way", 0))
    yield under_way


def resources_up(actors: Sequence[Actor], tenant: int | None) -> dict[str, bool]:
    """Which resources answered their latest calls; of all tenants if none is given."""
    found: dict[str, bool] = {}
    for actor in actors:
        if actor.get("kind") != "pool":
            continue
        for row in _stats(actor).get("resources", ()):
            if row.get("up") is not None and tenant in {None, row["tenant"]}:
                name = row["name"] if tenant is not None else f"{row['tenant']}/{row['name']}"
                found[name] = row["up"]
    return found


def gathers_processed(actors: Sequence[Actor]) -> int:
    """How many gathers have ended since the shards started."""
    ended = (_stats(actor).get("gathers", {}).get("ended", {}) for actor in actors)
    return sum(sum(counts.values()) for counts in ended)


def _ended(shards: Sequence[Actor]) -> Iterator[Metric]:
    ended = CounterMetricFamily(
        "muster_gathers_ended",
        "Gathers that ended: full, partial, empty or cancelled.",
        labels=["shard", "completeness"],
    )
    late = CounterMetricFamily(
        "muster_gather_late_callbacks",
        "Callbacks that came when their time was over.",
        labels=["shard"],
    )
    for shard in shards:
        gathers = _stats(shard).get("gathers", {})
        for how, count in sorted(gathers.get("ended", {}).items()):
            ended.add_metric([str(shard["name"]), how], count)
        late.add_metric([str(shard["name"])], gathers.get("late", 0))
    yield ended
    yield late


def _answers(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Metric]:
    outcomes = CounterMetricFamily(
        "muster_gather_outcomes",
        "How resources answered, by callback or directly, or how they failed to.",
        labels=["resource", "state"],
    )
    seconds = SummaryMetricFamily(
        "muster_gather_answer_seconds",
        "Time from the request to a resource's answer (ok or REJECTED), by callback or directly.",
        labels=["resource"],
    )
    for name, counts in sorted(rows.items()):
        answers = 0
        for state in _STATES:
            count = sum(int(row.get(state, 0)) for row in counts)
            outcomes.add_metric([name, state], count)
            answers += count if state in _ANSWERS else 0
        seconds.add_metric([name], answers, sum(row.get("seconds", 0.0) for row in counts))
    yield outcomes
    yield seconds


def _calls(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Metric]:
    calls = CounterMetricFamily(
        "muster_calls", "Calls to resources by how they went.", labels=["resource", "state"]
    )
    seconds = SummaryMetricFamily(
        "muster_call_seconds", "Time a resource took to answer a call.", labels=["resource"]
    )
    up = GaugeMetricFamily(
        "muster_resource_up", "1 if most of the latest calls were answered.", labels=["resource"]
    )
    for name, lanes in sorted(rows.items()):
        total = 0
        for state in sorted({state for lane in lanes for state in lane["calls"]}):
            count = sum(lane["calls"].get(state, 0) for lane in lanes)
            calls.add_metric([name, state], count)
            total += count
        seconds.add_metric([name], total, sum(lane["seconds"] for lane in lanes))
        judged = [lane["up"] for lane in lanes if lane["up"] is not None]
        if judged:
            up.add_metric([name], int(all(judged)))
    yield calls
    yield seconds
    yield up


def _rows(
    actors: Sequence[Actor], tenant: int | None, path: tuple[str, ...]
) -> dict[str, list[Mapping[str, Any]]]:
    """The rows of one tenant's resources, by name."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for actor in actors:
        rows: Any = _stats(actor)
        for part in path:
            rows = rows.get(part, {})
        for row in rows or ():
            if row["tenant"] == tenant:
                found.setdefault(row["name"], []).append(row)
    return found


def _stats(actor: Actor) -> Mapping[str, Any]:
    return actor.get("stats") or {}
