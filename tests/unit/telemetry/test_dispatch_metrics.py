"""Whom Prometheus is told of when a tenant asks."""

from typing import Any

from prometheus_client.metrics_core import Metric

from telemetry.dispatch_metrics import dispatch_families


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


def found(tenant: int, warnings: dict[str, int] | None = None) -> dict[str, Metric]:
    return {family.name: family for family in dispatch_families(ACTORS, tenant, warnings)}


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
    assert values(found(7, {"ERROR": 2})["muster_dispatch_warnings"]) == {
        ("muster_dispatch_warnings", "ERROR"): 2
    }
    assert values(found(7)["muster_dispatch_warnings"]) == {}


def test_a_pool_of_ones_own_is_told_from_a_shared_one_of_its_code() -> None:
    actors = [pool(0, "slow", completed=1), pool(7, "slow", completed=2)]
    for family in dispatch_families(actors, 7, None):
        series = [(one.name, *one.labels.items()) for one in family.samples]
        assert len(set(series)) == len(series)
        if family.name == "muster_dispatch_jobs_completed":
            assert {(one.labels["scope"], one.value) for one in family.samples} == {
                ("shared", 1),
                ("own", 2),
            }
