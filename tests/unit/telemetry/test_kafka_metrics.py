from typing import Any

from actors.kafka.counters import IngestCounters
from actors.metrics import ACTOR_METRICS
from telemetry.kafka_metrics import PartitionLag
from telemetry.registry import Metrics, MetricsSnapshot
from tests.unit.telemetry.test_registry import page, value

ACTOR = "kafka-ingest-0"


def ingest(**stats: Any) -> dict[str, Any]:
    fields = {"connected": True, "error": None, **IngestCounters().snapshot(), **stats}
    return {"name": ACTOR, "kind": "kafka-ingest", "alive": True, "restarts": 0, "stats": fields}


def relay(**stats: Any) -> dict[str, Any]:
    return {"name": "kafka-relay", "kind": "kafka-relay", "alive": True, "stats": stats}


def test_each_number_of_a_consumer_has_its_series() -> None:
    partitions = [{"topic": "t", "partition": 0, "lag": 4}, {"topic": "u", "partition": 0}]
    numbers = {"records": 30, "batches": 3, "largest_batch": 20, "commits": 2, "rebalances": 1}
    more = {"pauses": 5, "dead_letters": 6, "in_flight": 2, "held_back": 1}
    series = page(MetricsSnapshot(actors=(ingest(partitions=partitions, **numbers, **more),)))
    told = {
        "muster_kafka_connected": 1,
        "muster_kafka_behind": 4,
        "muster_kafka_batch_records_sum": 30,
        "muster_kafka_batch_records_count": 3,
        "muster_kafka_largest_batch": 20,
        "muster_kafka_in_flight": 2,
        "muster_kafka_held_back": 1,
        "muster_kafka_commits_total": 2,
        "muster_kafka_rebalances_total": 1,
        "muster_kafka_pauses_total": 5,
        "muster_kafka_dead_letters_total": 6,
    }
    assert {name: value(series, name, actor=ACTOR) for name in told} == told


def test_every_count_of_ingest_is_published() -> None:
    """A counter that is added to the tally must not be forgotten here."""
    empty = page(MetricsSnapshot(actors=(ingest(),)))
    for name in IngestCounters().snapshot():
        assert page(MetricsSnapshot(actors=(ingest(**{name: 1}),))) != empty, name


def test_the_relay_tells_what_waits() -> None:
    stats = {"connected": True, "published": 7, "failures": 1, "backlog": 3, "oldest": 2.5}
    stats |= {"vanished": 4, "held_topics": 5, "refused": 6}
    series = page(MetricsSnapshot(actors=(relay(**stats),)))
    told = {
        "muster_relay_published_total": 7,
        "muster_relay_failures_total": 1,
        "muster_relay_backlog": 3,
        "muster_relay_oldest_seconds": 2.5,
        "muster_relay_vanished_total": 4,
        "muster_relay_held_topics": 5,
        "muster_relay_refused": 6,
    }
    assert {name: value(series, name, actor="kafka-relay") for name in told} == told


def test_only_what_the_asker_may_see_is_named() -> None:
    partitions = [{"topic": "theirs", "partition": 0, "lag": 4}]
    series = page(
        MetricsSnapshot(
            actors=(ingest(partitions=partitions),),
            lags=(PartitionLag("ours", 1, 9),),
            letters={"ours": 2},
        )
    )
    assert value(series, "muster_kafka_lag", topic="ours", partition="1") == 9
    assert value(series, "muster_dead_letters", topic="ours") == 2
    assert not [labels for _, labels in series if ("topic", "theirs") in labels]


def test_an_actor_in_trouble_is_not_connected() -> None:
    for actor in (ingest(error="X"), ingest(connected=False), ingest() | {"alive": False}):
        series = page(MetricsSnapshot(actors=(actor,)))
        assert value(series, "muster_kafka_connected", actor=ACTOR) == 0


def test_verdicts_are_told_by_the_path_they_came_by() -> None:
    metrics = Metrics("r1", ACTOR_METRICS)
    for verdict in ("matched", "matched", "late"):
        metrics.count_event("api", verdict)
    actor = ingest(verdict_matched=5, verdict_rejected=1, unplaced=2)
    series = page(MetricsSnapshot(actors=(actor,)), metrics)
    name = "muster_arrivals_total"
    assert value(series, name, receiver="r1", path="api", verdict="matched") == 2
    assert value(series, name, receiver="r1", path="api", verdict="late") == 1
    assert value(series, name, receiver=ACTOR, path="kafka", verdict="matched") == 5
    assert value(series, name, receiver=ACTOR, path="kafka", verdict="rejected") == 3


def test_without_kafka_nothing_is_told_of_it() -> None:
    assert not [name for name, _ in page(MetricsSnapshot()) if "kafka" in name or "relay" in name]
