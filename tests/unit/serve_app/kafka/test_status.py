from typing import Any

import pytest

from core.kafka.topic_routing import TopicRouting
from core.shared.kafka_config import KafkaConfig
from serve_app.kafka.status import error_of, kafka_view, partitions_of
from serve_app.operations.health_checks import kafka_component
from serve_app.operations.status import StatusView
from tests.unit.serve_app.container_fixtures import document_of

CONFIG = KafkaConfig(
    bootstrap="broker:9092",
    topics=("orders", "^acme\\..*=acme", "later"),
    sasl_password="verysecret",
)


def row(topic: str, partition: int, stored: int | None, end: int | None) -> dict[str, Any]:
    lag = None if stored is None or end is None else end - stored
    return {"topic": topic, "partition": partition, "stored": stored, "end": end, "lag": lag}


def ingest(name: str = "kafka-ingest-0", **stats: Any) -> dict[str, Any]:
    fields = {"connected": True, "error": None, "following": [], "partitions": [], **stats}
    actor = {"name": name, "kind": "kafka-ingest", "alive": True, "restarts": 1, "stalled": {}}
    return {**actor, "stats": fields}


def relay(**stats: Any) -> dict[str, Any]:
    fields = {"connected": True, "error": None, "published": 3, "backlog": 2, "oldest": 1.5}
    actor = {
        "name": "kafka-relay",
        "kind": "kafka-relay",
        "alive": True,
        "restarts": 0,
        "stalled": {},
    }
    return {**actor, "stats": {**fields, "failures": 0, **stats}}


READER = ingest(
    following=["acme.a", "orders", "paid"],
    partitions=[row("orders", 1, 5, 9), row("acme.a", 0, 1, 2), row("orders", 0, 3, None)],
    records=14,
    verdict_matched=9,
    unplaced=2,
)


def look(slug: str = "default", **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"actors": [READER, relay()], "named": [], "letters": {}}
    return document_of(kafka_view(CONFIG, slug, **fields | more))


def states(document: dict[str, Any]) -> dict[str, str]:
    return {topic["topic"]: topic["state"] for topic in document["topics"]}


def test_a_tenant_sees_its_own_topics_and_partitions_only() -> None:
    ours, theirs = look("default"), look("acme")
    assert [(p["topic"], p["partition"]) for p in ours["partitions"]] == [
        ("orders", 0),
        ("orders", 1),
    ]
    assert [p["topic"] for p in theirs["partitions"]] == ["acme.a"]
    assert states(ours) == {"orders": "followed", "paid": "followed", "later": "missing"}
    assert states(theirs) == {"acme.a": "followed"}
    assert "acme" not in str(ours)


def test_what_waits_name_in_vain_is_told_with_the_reason() -> None:
    document = look("acme", named=["acme.a", "acme.gone", "orders"])
    assert states(document) == {
        "acme.a": "followed",
        "acme.gone": "missing",
        "orders": "not_yours",
    }
    # Whether another's topic has anything on it is not told.
    (other,) = [topic for topic in document["topics"] if topic["topic"] == "orders"]
    assert (other["partitions"], other["lag"]) == (0, 0)
    assert "default" not in str(document["topics"])


def test_without_a_connection_nobody_knows_what_is_missing() -> None:
    away = ingest(connected=False, error="KafkaConnectionError: broker:9092")
    document = look(actors=[away, relay(connected=False)], named=["paid"])
    assert states(document) == {"orders": "unknown", "later": "unknown", "paid": "unknown"}
    assert document["connected"] is False
    assert document["ingest"][0]["error"] == "KafkaConnectionError: broker:9092"
    assert document["relay"]["error"] == "is not connected yet"


def test_lag_and_letters_are_added_up_by_topic() -> None:
    document = look(letters={"orders": 4, "old": 1})
    orders = next(topic for topic in document["topics"] if topic["topic"] == "orders")
    assert (orders["partitions"], orders["lag"], orders["deadLetters"]) == (2, 4, 4)
    assert document["deadLetters"] == 5
    assert states(document)["old"] == "not_followed"


def test_consumers_and_relay_tell_their_numbers_and_no_secret() -> None:
    document = look()
    (reader,) = document["ingest"]
    assert (reader["records"], reader["verdicts"], reader["withoutIds"]) == (14, {"matched": 9}, 2)
    assert (document["relay"]["published"], document["relay"]["oldestSeconds"]) == (3, 1.5)
    assert document["connected"] is True
    assert "verysecret" not in str(document)


def test_a_partition_that_moved_is_told_by_the_actor_that_answers() -> None:
    gone = ingest("kafka-ingest-0", partitions=[row("orders", 0, 1, 9)]) | {"alive": False}
    here = ingest("kafka-ingest-1", partitions=[row("orders", 0, 8, 9)])
    for actors in ([gone, here], [here, gone]):
        (one,) = partitions_of(TopicRouting.of(CONFIG), "default", actors)
        assert (one.actor, one.lag) == ("kafka-ingest-1", 1)


@pytest.mark.parametrize(
    ("actor", "trouble"),
    [
        (ingest(), None),
        (ingest() | {"alive": False}, "does not answer"),
        ({"name": "kafka-ingest-0", "kind": "kafka-ingest", "alive": True}, "is not connected yet"),
        (ingest(error="X: y"), "X: y"),
    ],
)
def test_why_an_actor_does_not_read(actor: dict[str, Any], trouble: str | None) -> None:
    assert error_of(actor) == trouble


def test_health_is_up_when_all_are_connected() -> None:
    report = {"actors": [ingest(), ingest("kafka-ingest-1"), relay()]}
    assert kafka_component(report, 2) == {"status": "UP", "up": 2, "expected": 2}


@pytest.mark.parametrize(
    ("work", "seconds"), [("poll", 31.0), ("store_batch", 31.0), ("commit", 31.0)]
)
def test_ingest_that_does_not_get_on_is_down(work: str, seconds: float) -> None:
    stuck = ingest() | {"stalled": {work: seconds}}
    component = kafka_component({"actors": [stuck, relay()]}, 1)
    assert component == {
        "status": "DOWN",
        "up": 0,
        "expected": 1,
        "detail": f"kafka-ingest-0: {work} stalled for 31 s",
    }


def test_a_relay_that_cannot_be_measured_is_not_up() -> None:
    blind = {name: value for name, value in relay().items() if name != "stalled"}
    component = kafka_component({"actors": [ingest(), blind]}, 1)
    assert component["status"] == "DOWN"
    assert component["detail"] == "kafka-relay: cannot be measured"


def test_health_names_the_trouble_and_no_host() -> None:
    away = ingest("kafka-ingest-1", connected=False, error="KafkaConnectionError: at secret:9092")
    component = kafka_component({"actors": [ingest(), away, relay()]}, 2)
    assert component == {
        "status": "DOWN",
        "up": 1,
        "expected": 2,
        "detail": "kafka-ingest-1 cannot use the brokers (KafkaConnectionError)",
    }
    assert kafka_component({"actors": [ingest()]}, 2)["status"] == "DOWN"
    silent = kafka_component({"actors": [ingest() | {"alive": False}, relay()]}, 1)
    assert silent["detail"] == "kafka-ingest-0 does not answer"


def test_the_status_page_names_no_topic() -> None:
    report = {"placement": "sharded", "actors": [READER]}
    document = document_of(StatusView.of_report(report, 0.0, 1))
    assert document["actors"][0]["stats"]["records"] == 14
    assert "orders" not in str(document)


def test_what_cannot_be_published_is_told_and_makes_nothing_down() -> None:
    component = kafka_component({"actors": [ingest(), relay(held_topics=2, refused=1)]}, 1)
    assert component["status"] == "UP"
    assert component["detail"] == "kafka-relay cannot publish to 2 topics, nor 1 events to others"
