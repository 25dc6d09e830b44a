from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from actors.metrics import ACTOR_METRICS
from actors.waits.counters import ShardCounters
from telemetry.registry import Metrics, MetricsSnapshot

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def shard(name: str, **stats: Any) -> dict[str, Any]:
    return {"name": name, "kind": "shard", "alive": True, "restarts": 2, "stats": stats}


def page(snapshot: MetricsSnapshot, metrics: Metrics | None = None) -> Series:
    text = (
        (metrics or Metrics("r1", ACTOR_METRICS)).render(snapshot, requests=3, streams=4).decode()
    )
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(series: Series, name: str, **labels: str) -> float:
    return series[name, tuple(sorted(labels.items()))]


def test_each_number_of_a_shard_has_its_series() -> None:
    series = page(
        MetricsSnapshot(
            actors=(shard("shard-0", hot=5, pending=1, registered=9, late=2, ended_timeout=3),)
        )
    )
    assert value(series, "muster_hot_correlations", shard="shard-0") == 5
    assert value(series, "muster_pending_messages", shard="shard-0") == 1
    assert value(series, "muster_waits_registered_total", shard="shard-0") == 9
    assert value(series, "muster_events_total", shard="shard-0", verdict="late") == 2
    assert value(series, "muster_waits_ended_total", shard="shard-0", status="timeout") == 3
    assert value(series, "muster_actor_up", actor="shard-0", kind="shard") == 1
    assert value(series, "muster_actor_restarts_total", actor="shard-0", kind="shard") == 2


def test_flush_times_become_a_cumulative_histogram() -> None:
    tally = ShardCounters()
    for seconds in (0.0005, 0.002, 0.002, 9.0):
        tally.flush(rows=10, seconds=seconds)
    series = page(MetricsSnapshot(actors=(shard("shard-0", **tally.snapshot()),)))
    name = "muster_flush_seconds_bucket"
    assert value(series, name, shard="shard-0", le="0.001") == 1
    assert value(series, name, shard="shard-0", le="0.0025") == 3
    assert value(series, name, shard="shard-0", le="5.0") == 3
    assert value(series, name, shard="shard-0", le="+Inf") == 4
    assert value(series, "muster_flush_rows_sum", shard="shard-0") == 40
    assert value(series, "muster_flush_rows_count", shard="shard-0") == 4


def test_every_count_of_a_shard_is_published() -> None:
    """A counter that is added to the tally must not be forgotten here."""
    counted = {name: 1 for name in ShardCounters().snapshot() if name != "flush_seconds_buckets"}
    series = page(MetricsSnapshot(actors=(shard("shard-0", **counted),)))
    empty = page(MetricsSnapshot(actors=(shard("shard-0"),)))
    changed = {key for key, number in series.items() if number != empty.get(key)}
    for name in counted:
        alone = page(MetricsSnapshot(actors=(shard("shard-0", **{name: 1}),)))
        assert any(alone[key] != empty[key] for key in changed), name


def test_waits_and_inbox_come_from_the_census() -> None:
    series = page(
        MetricsSnapshot(waits={"waiting": 4, "timeout": 1}, inbox={("buffered", "no_wait_yet"): 6})
    )
    assert value(series, "muster_active_waits") == 4
    assert value(series, "muster_waits", status="timeout") == 1
    assert value(series, "muster_inbox_events", verdict="buffered", reason="no_wait_yet") == 6


def test_what_could_not_be_read_is_left_out_and_not_told_as_zero() -> None:
    assert not any(name == "muster_active_waits" for name, _ in page(MetricsSnapshot()))


def test_requests_are_counted_by_route_and_status_with_the_replica_named() -> None:
    metrics = Metrics("r9")
    for _ in range(2):
        metrics.http.observe("POST", "/x", 200, 0.004)
    metrics.http.observe("GET", "/stream", 200, None)
    metrics.count_shed()
    series = page(MetricsSnapshot(), metrics)
    labels = {"replica": "r9", "method": "POST", "route": "/x", "status": "200"}
    assert value(series, "muster_http_requests_total", **labels) == 2
    assert value(series, "muster_http_request_seconds_count", replica="r9", route="/x") == 2
    assert value(series, "muster_http_request_seconds_count", replica="r9", route="/stream") == 0
    assert value(series, "muster_http_shed_total", replica="r9") == 1
    assert value(series, "muster_http_in_flight", replica="r9", kind="request") == 3
    assert value(series, "muster_http_in_flight", replica="r9", kind="stream") == 4


def test_what_filters_said_is_told_as_it_is_counted() -> None:
    metrics, counts = Metrics("ingress-1"), {"passes": 0, "failed": 0}
    metrics.events.filtered = counts
    counts["failed"] += 2
    page = metrics.render(MetricsSnapshot(), requests=0, streams=0).decode()
    assert 'muster_events_filtered_total{judgement="failed",replica="ingress-1"} 2.0' in page
    assert 'muster_events_filtered_total{judgement="passes",replica="ingress-1"} 0.0' in page
