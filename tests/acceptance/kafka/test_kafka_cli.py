"""`muster kafka` on an instance with a real Kafka: what users see of it, and when it goes away."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.kafka.conftest import DEAD, ENDS, LATE
from tests.support.commands import read
from tests.support.kafka import OwnKafka, unique
from tests.support.product import Product, until
from tests.support.tenants import another_tenant


def kafka_of(muster: Product) -> dict[str, Any]:
    document: dict[str, Any] = muster.http.get("/api/kafka").json()
    return document


def state_of(muster: Product, topic: str) -> str | None:
    states = {one["topic"]: one["state"] for one in kafka_of(muster)["topics"]}
    return states.get(topic)


def topic_of_a_wait(muster: Product, broker: OwnKafka) -> tuple[str, dict[str, Any]]:
    """A topic that is being followed because a wait names it, and the wait."""
    topic = asyncio.run(broker.create_topic(unique("orders"), partitions=2))
    wait = muster.register({"kafkaEvent": {"topic": topic}, "timeout": 60})
    until(f"{topic} is followed", lambda: state_of(muster, topic) == "followed")
    return topic, wait


def produce(muster: Product, topic: str, *words: str) -> dict[str, Any]:
    """Send by the command line; the broker is the one that the instance works with."""
    sent: dict[str, Any] = read(muster.cli("kafka", "produce", topic, *words, "--json"))
    return sent


def test_an_event_from_the_shell_completes_its_wait(muster: Product, broker: OwnKafka) -> None:
    topic, wait = topic_of_a_wait(muster, broker)
    ids = (f"X-Execution-Id={wait['executionId']}", f"X-Correlation-Id={wait['correlationId']}")
    headers = [word for pair in ids for word in ("--header", pair)]
    sent = produce(muster, topic, "-d", '{"paid": 1.10}', "--key", "k", *headers)
    (place,) = sent["partitions"]
    done = muster.show(wait, wait=30)
    assert done["status"] == "completed"
    event = done["events"]["kafka_event"]
    assert event["eventId"] == f"kafka/{topic}/{place['partition']}/{place['first']}"
    # All ends are told, also of a wait that did not ask for it.
    (told,) = asyncio.run(broker.consume(ENDS, 1))
    assert json.loads(told.value)["correlationId"] == wait["correlationId"]


def test_many_are_numbered_and_the_lag_goes_to_nothing(muster: Product, broker: OwnKafka) -> None:
    topic, _ = topic_of_a_wait(muster, broker)
    data = json.dumps({"execution_id": "run-{n}", "correlation_id": topic})
    sent = produce(muster, topic, "-d", data, "--key", "{n}", "--count", "2500")
    assert sum(one["last"] - one["first"] + 1 for one in sent["partitions"]) == 2_500

    def stored() -> int:
        rows = read(muster.cli("kafka", "lag", "--json"))
        mine = [row for row in rows if row["topic"] == topic]
        assert {row["partition"] for row in mine} <= {0, 1}
        return sum(row["stored"] for row in mine)

    until("all is stored", lambda: stored() == 2_500)
    inbox = muster.http.get("/api/inbox", params={"correlationId": topic, "limit": 500}).json()
    assert len(inbox["items"]) == 500
    page = muster.http.get("/metrics").text
    assert f'muster_kafka_lag{{partition="0",topic="{topic}"}} 0.0' in page
    buffered = re.search(r'muster_arrivals_total{path="kafka",.*verdict="buffered"} (\d+)', page)
    assert buffered is not None
    assert int(buffered[1]) >= 2_500
    shown = muster.cli("kafka", "lag").stdout
    assert re.search(rf"{topic} +0 +[\d,]+ +[\d,]+ +0 +kafka-ingest-0", shown)


def test_poison_is_a_dead_letter_that_can_be_tried_and_forgotten(
    muster: Product, broker: OwnKafka, tmp_path: Path
) -> None:
    topic, _ = topic_of_a_wait(muster, broker)
    poison = tmp_path / "poison"
    poison.write_bytes(b"{")
    produce(muster, topic, "--file", str(poison), "--header", "content-type=application/json")
    listing = ("kafka", "dead-letters", "list", "--topic", topic)
    (letter,) = until("it is buried", lambda: read(muster.cli(*listing, "--json"))["items"])
    number = str(letter["letterId"])
    assert "declared as JSON" in muster.cli(*listing).stdout
    (copy,) = asyncio.run(broker.consume(DEAD, 1))
    assert (copy.value, dict(copy.headers)["muster-topic"]) == (b"{", topic.encode())
    assert "base64: not JSON" in muster.cli("kafka", "dead-letters", "show", number).stdout

    again = muster.cli("kafka", "redrive", "--topic", topic, check=False)
    assert again.returncode == 1
    assert again.stdout.startswith("0 handled, 1 failed again\n")
    shown = read(muster.cli("kafka", "dead-letters", "show", number, "--json"))
    assert shown["attempts"] == 2
    (told,) = [one for one in kafka_of(muster)["topics"] if one["topic"] == topic]
    assert told["deadLetters"] == 1

    muster.cli("kafka", "dead-letters", "delete", number)
    assert muster.cli(*listing).stdout == "No dead letters.\n"


def test_the_demo_has_a_scene_by_the_broker(muster: Product, broker: OwnKafka) -> None:
    asyncio.run(broker.create_topic("process.completed", partitions=1))
    told = read(muster.cli("demo", "--fast", "--json"))
    last = told["scenes"][-1]
    assert (told["ok"], last["scene"]) == (True, "kafka-topic"), last
    assert last["verdicts"] == ["callback matched", "topic matched"]


def test_a_topic_that_is_made_late_is_followed(muster: Product, broker: OwnKafka) -> None:
    assert state_of(muster, LATE) == "missing"
    asyncio.run(broker.create_topic(LATE, partitions=1))
    until("it is followed", lambda: state_of(muster, LATE) == "followed")
    row = rf"{LATE} +followed +1 +0 +0"  # once the partition is somebody's, which is a moment later
    until("it is read", lambda: re.search(row, muster.cli("kafka", "status").stdout))
    assert re.search(r"kafka-ingest-0 +up", muster.cli("kafka", "status").stdout)


def test_another_s_topic_is_neither_followed_nor_shown(muster: Product, broker: OwnKafka) -> None:
    topic = asyncio.run(broker.create_topic(unique("theirs")))
    muster.register({"kafkaEvent": {"topic": topic}, "timeout": 60})
    assert state_of(muster, topic) == "not_yours"
    own, _ = topic_of_a_wait(muster, broker)
    with another_tenant(muster) as stranger:
        seen = stranger.http.get("/api/kafka")
        assert seen.json()["topics"] == seen.json()["partitions"] == []
        for path in ("/api/kafka", "/metrics", "/api/status"):
            assert own not in stranger.http.get(path).text, path


def test_producing_to_nowhere_is_one_sentence(muster: Product, broker: OwnKafka) -> None:
    missing = muster.cli("kafka", "produce", unique("nowhere"), check=False)
    assert missing.returncode == 1
    assert "does not exist" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_without_the_broker_health_tells_and_http_goes_on(
    muster: Product, broker: OwnKafka
) -> None:
    def health() -> Any:
        reply = httpx.get(f"{muster.url}/actuator/health", trust_env=False)
        assert reply.status_code == 200, reply.text
        return reply.json()["components"]["kafka"]

    assert health() == {"status": "UP", "up": 1, "expected": 1}
    asyncio.run(broker.stop())
    until("health tells", lambda: health()["status"] == "DOWN", within=60)
    assert "cannot use the brokers" in health()["detail"]
    assert broker.bootstrap not in json.dumps(health())
    shown = muster.cli("kafka", "status").stdout
    assert re.search(r"kafka-ingest-0 +down", shown)
    wait = muster.register()
    assert muster.callback(wait)["verdict"] == "matched"
    assert muster.event(wait)["waitStatus"] == "completed"
    failed = muster.cli("kafka", "produce", LATE, check=False)
    assert failed.returncode == 1
    assert failed.stderr.startswith("The broker at")

    asyncio.run(broker.start())
    until("it is back", lambda: health()["status"] == "UP", within=60)
