"""Whom Prometheus is told of when a tenant asks."""

from typing import Any

from prometheus_client.metrics_core import Metric

from actors.dispatch.counters import DISPATCH_METRICS
from telemetry.families import actor_families
from telemetry.registry import MetricsSnapshot
from tests.unit.telemetry.test_registry import page, value


def pool(tenant: int, code: str, **stats: Any) -> dict[str, Any]:
    return {"kind": "dispatch", "stats": {"tenant": tenant, "code": code, **stats}}


ACTORS = [
    pool(0, "default", completed=5, sends=6, seconds=1.5, breakers={"open": 1, "closed": 2}),
    pool(7, "own", failed=2, rate_limit=600, oldest_head_age=3.5, blocked_groups=1, waiting=9),
    pool(8, "theirs", completed=99),
    {"kind": "dispatch", "stats": {"pool_no": 4}},
    {"kind": "shard", "stats": {"completed": 1}},
    {"kind": "dispatch"},
]


def found(tenant: int) -> dict[str, Metric]:
    return {family.name: family for family in actor_families(DISPATCH_METRICS, ACTORS, tenant)}


def values(metric: Metric) -> dict[tuple[str, ...], float]:
    return {(one.name, *one.labels.values()): one.value for one in metric.samples}


def test_ones_own_pools_and_the_shared_ones_are_told() -> None:
    families = found(7)
    pools = {
        sample.labels["pool"]
        for family in families.values()
        for sample in family.samples
        if "pool" in sample.labels
    }
    assert pools == {"default", "own"}
    completed = values(families["muster_dispatch_jobs_completed"])
    assert completed["muster_dispatch_jobs_completed_total", "default", "shared"] == 5
    assert (
        values(families["muster_dispatch_groups_blocked"])[
            "muster_dispatch_groups_blocked", "own", "own"
        ]
        == 1
    )
    assert values(families["muster_dispatch_pool_rate_limit"]) == {
        ("muster_dispatch_pool_rate_limit", "own", "own"): 600
    }
    assert values(families["muster_dispatch_oldest_head_seconds"]) == {
        ("muster_dispatch_oldest_head_seconds", "own", "own"): 3.5
    }
    duration = values(families["muster_dispatch_jobs_duration_seconds"])
    assert duration["muster_dispatch_jobs_duration_seconds_count", "default", "shared"] == 6
    assert duration["muster_dispatch_jobs_duration_seconds_sum", "default", "shared"] == 1.5
    breakers = values(families["muster_dispatch_breakers"])
    assert breakers["muster_dispatch_breakers", "default", "shared", "open"] == 1


def test_warnings_are_counted_by_severity() -> None:
    name = "muster_dispatch_warnings"
    assert value(page(MetricsSnapshot(warnings={"ERROR": 2})), name, severity="ERROR") == 2
    assert not [series for series, _ in page(MetricsSnapshot()) if series == name]


def test_a_pool_of_ones_own_is_told_from_a_shared_one_of_its_code() -> None:
    actors = [pool(0, "slow", completed=1), pool(7, "slow", completed=2)]
    for family in actor_families(DISPATCH_METRICS, actors, 7):
        series = [(one.name, *one.labels.items()) for one in family.samples]
        assert len(set(series)) == len(series)
        if family.name == "muster_dispatch_jobs_completed":
            assert {(one.labels["scope"], one.value) for one in family.samples} == {
                ("shared", 1),
                ("own", 2),
            }
