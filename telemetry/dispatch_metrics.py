"""What Prometheus is told of deliveries: each pool's counters, groups and targets; open warnings.

A tenant is told of its own pools and of those that everybody shares; the label `scope` tells them
apart where both have one code. Counters of a shared pool are those of all who use it.
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
Pools = Sequence[tuple[list[str], Mapping[str, Any]]]

_SHARED = 0
_POOL = ["pool", "scope"]
_COUNTERS = (
    ("completed", "Jobs that were delivered."),
    ("failed", "Jobs that failed for good."),
    ("retried", "Attempts that failed and are made again."),
    ("deferred", "Attempts that the receiver asked to make later."),
    ("expired", "Jobs whose time was over before they could be delivered."),
)
_LEVELS = (
    ("muster_dispatch_groups_active", "Message groups that a pool knows.", "groups"),
    ("muster_dispatch_groups_blocked", "Groups that a failed job holds.", "blocked_groups"),
    ("muster_dispatch_messages_in_group", "Jobs in a pool's memory that wait.", "waiting"),
    ("muster_dispatch_pool_active", "Deliveries that a pool is making.", "active"),
    ("muster_dispatch_pool_queue", "Jobs in a pool's memory.", "buffered"),
    ("muster_dispatch_pool_concurrency", "Deliveries that it may make at once.", "concurrency"),
)


def dispatch_families(
    actors: Sequence[Actor], tenant: int | None, warnings: Mapping[str, int] | None
) -> Iterator[Metric]:
    """Every family."""
    pools = [
        ([str(stats["code"]), "shared" if stats["tenant"] == _SHARED else "own"], stats)
        for actor in actors
        if actor.get("kind") == "dispatch"
        and (stats := actor.get("stats") or {}).get("tenant") in {tenant, _SHARED}
    ]
    for name, text in _COUNTERS:
        yield _counter(f"muster_dispatch_jobs_{name}", text, pools, name)
    yield _counter(
        "muster_dispatch_rate_limited", "Deliveries that the pace held up.", pools, "rate_limited"
    )
    duration = SummaryMetricFamily(
        "muster_dispatch_jobs_duration_seconds", "Time a receiver took.", labels=_POOL
    )
    for pool, stats in pools:
        duration.add_metric(pool, stats.get("sends", 0), stats.get("seconds", 0.0))
    yield duration
    for name, text, stat in _LEVELS:
        yield _gauge(name, text, pools, stat)
    yield from _limits(pools)
    yield _breakers(pools)
    open_warnings = GaugeMetricFamily(
        "muster_dispatch_warnings", "Warnings that nobody has acknowledged.", labels=["severity"]
    )
    for severity, count in sorted((warnings or {}).items()):
        open_warnings.add_metric([severity], count)
    yield open_warnings


def _counter(name: str, text: str, pools: Pools, stat: str) -> Metric:
    family = CounterMetricFamily(name, text, labels=_POOL)
    for pool, stats in pools:
        family.add_metric(pool, stats.get(stat, 0))
    return family


def _gauge(name: str, text: str, pools: Pools, stat: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=_POOL)
    for pool, stats in pools:
        family.add_metric(pool, stats.get(stat, 0))
    return family


def _limits(pools: Pools) -> Iterator[Metric]:
    rate = GaugeMetricFamily(
        "muster_dispatch_pool_rate_limit",
        "Deliveries a minute that a pool may make; no series: as many as there are.",
        labels=_POOL,
    )
    age = GaugeMetricFamily(
        "muster_dispatch_oldest_head_seconds",
        "Age of the oldest job that heads a group.",
        labels=_POOL,
    )
    for pool, stats in pools:
        if stats.get("rate_limit") is not None:
            rate.add_metric(pool, stats["rate_limit"])
        if stats.get("oldest_head_age") is not None:
            age.add_metric(pool, stats["oldest_head_age"])
    yield rate
    yield age


def _breakers(pools: Pools) -> Metric:
    family = GaugeMetricFamily(
        "muster_dispatch_breakers", "Targets by how they are treated.", labels=[*_POOL, "state"]
    )
    for pool, stats in pools:
        for state, count in sorted((stats.get("breakers") or {}).items()):
            family.add_metric([*pool, state], count)
    return family
