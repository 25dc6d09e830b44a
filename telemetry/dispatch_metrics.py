"""Metrics of dispatch: counters, groups and targets of each pool, and open warnings.

A tenant sees its own pools and the shared ones; the label `scope` tells them apart where both have
the same code. Counters of a shared pool cover all tenants that use it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.metrics_core import Metric

from telemetry.families import Actor, counter, gauge, of_kind, stats_of, summary

Pools = Sequence[tuple[list[str], Mapping[str, Any]]]

_SHARED = 0
_POOL = ["pool", "scope"]
_COUNTERS = (
    ("muster_dispatch_jobs_completed", "Jobs that were delivered.", "completed"),
    ("muster_dispatch_jobs_failed", "Jobs that failed for good.", "failed"),
    ("muster_dispatch_jobs_retried", "Attempts that failed and are made again.", "retried"),
    ("muster_dispatch_jobs_deferred", "Attempts that the receiver deferred.", "deferred"),
    ("muster_dispatch_jobs_expired", "Jobs that expired before they were delivered.", "expired"),
    ("muster_dispatch_rate_limited", "Deliveries that the rate limit delayed.", "rate_limited"),
)
_GAUGES = (
    ("muster_dispatch_groups_active", "Message groups in a pool's memory.", "groups"),
    ("muster_dispatch_groups_blocked", "Groups that a failed job blocks.", "blocked_groups"),
    ("muster_dispatch_messages_in_group", "Jobs in a pool's memory that wait.", "waiting"),
    ("muster_dispatch_pool_active", "Deliveries that a pool is making.", "active"),
    ("muster_dispatch_pool_queue", "Jobs in a pool's memory.", "buffered"),
    ("muster_dispatch_pool_concurrency", "Limit of concurrent deliveries.", "concurrency"),
)
# A pool without this value has no series.
_OPTIONAL_GAUGES = (
    (
        "muster_dispatch_pool_rate_limit",
        "Limit of deliveries a minute; no series if the pool has none.",
        "rate_limit",
    ),
    (
        "muster_dispatch_oldest_head_seconds",
        "Age of the oldest job that heads a group.",
        "oldest_head_age",
    ),
)


def dispatch_families(
    actors: Sequence[Actor], tenant: int | None, warnings: Mapping[str, int] | None
) -> Iterator[Metric]:
    pools: Pools = [
        ([str(stats["code"]), "shared" if stats["tenant"] == _SHARED else "own"], stats)
        for stats in map(stats_of, of_kind(actors, "dispatch"))
        if stats.get("tenant") in {tenant, _SHARED}
    ]
    for name, text, stat in _COUNTERS:
        yield counter(name, text, _POOL, [(pool, stats.get(stat, 0)) for pool, stats in pools])
    yield summary(
        "muster_dispatch_jobs_duration_seconds",
        "Time a receiver took.",
        _POOL,
        [(pool, stats.get("sends", 0), stats.get("seconds", 0.0)) for pool, stats in pools],
    )
    for name, text, stat in _GAUGES:
        yield gauge(name, text, _POOL, [(pool, stats.get(stat, 0)) for pool, stats in pools])
    for name, text, stat in _OPTIONAL_GAUGES:
        known = [(pool, stats[stat]) for pool, stats in pools if stats.get(stat) is not None]
        yield gauge(name, text, _POOL, known)
    yield gauge(
        "muster_dispatch_breakers",
        "Targets by the state of their circuit breaker.",
        [*_POOL, "state"],
        [
            ([*pool, state], count)
            for pool, stats in pools
            for state, count in sorted((stats.get("breakers") or {}).items())
        ],
    )
    yield gauge(
        "muster_dispatch_warnings",
        "Warnings that are not acknowledged.",
        ["severity"],
        [([severity], count) for severity, count in sorted((warnings or {}).items())],
    )
