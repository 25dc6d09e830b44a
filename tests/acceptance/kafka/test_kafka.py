"""The product on a real Kafka: events reach their waits, ends are told, killed actors come back."""

import asyncio
import json
import os
import random
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

import asyncpg
import pytest

from core.shared.address import Address
from host.postgres import embedded
from tests.support.instances import COMPLETION_TOPIC as ENDS
from tests.support.kafka import Kafka, MessageToProduce, unique
from tests.support.product import Product, new_id, until

T = TypeVar("T")
CALL = {"url": "http://127.0.0.1:9/process"}


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@pytest.fixture(scope="module")
def on_kafka(impatient: Product) -> Product:
    """An instance with three ingest actors. Its first tests: they count all that it holds."""
    return impatient


def wait_on(product: Product, topic: str, **more: Any) -> dict[str, Any]:
    config = {"apiCall": CALL, "kafkaEvent": {"topic": topic}, "timeout": 600, **more}
    return product.register(config)


def event(wait: dict[str, Any], **data: Any) -> bytes:
    ids = {"execution_id": wait["executionId"], "correlation_id": wait["correlationId"]}
    return json.dumps({**ids, **data}).encode()


def test_a_topic_that_a_wait_names_is_read_from_then_on(on_kafka: Product, kafka: Kafka) -> None:
    """Even one that is made after the wait."""
    topic = unique("late")
    wait = wait_on(on_kafka, topic)
    on_kafka.callback(wait, {"by": "api"})
    run(kafka.create_topic(topic))
    run(kafka.produce(topic, [event(wait, n=7)]))
    shown = on_kafka.show(wait, wait=30)
    assert shown["status"] == "completed"
    assert shown["output"]["kafka_event"] == {"n": 7}


def test_ids_in_headers_and_in_cloudevents_of_both_modes(on_kafka: Product, kafka: Kafka) -> None:
    topic = run(kafka.create_topic())
    waits = [wait_on(on_kafka, topic) for _ in range(3)]
    plain, binary, structured = waits
    envelope = {
        "specversion": "1.0",
        "id": "1",
        "type": "x",
        "source": "/x",
        "executionid": structured["executionId"],
        "correlationid": structured["correlationId"],
        "data": {"n": 3},
    }
    messages = [
        MessageToProduce(value=b'{"n":1}', headers=_headers("X-{}-Id", plain)),
        MessageToProduce(value=b'{"n":2}', headers=[("ce_id", b"1"), *_headers("ce_{}id", binary)]),
        MessageToProduce(
            value=json.dumps(envelope).encode(),
            headers=[("content-type", b"application/cloudevents+json")],
        ),
    ]
    run(kafka.produce(topic, messages))
    for number, wait in enumerate(waits, start=1):
        on_kafka.callback(wait)
        assert on_kafka.show(wait, wait=30)["output"]["kafka_event"] == {"n": number}


def _headers(pattern: str, wait: dict[str, Any]) -> list[tuple[str, bytes]]:
    return [
        (pattern.format(name), wait[f"{name.lower()}Id"].encode())
        for name in ("Execution", "Correlation")
    ]


def test_the_end_of_a_wait_is_told_with_its_result(on_kafka: Product, kafka: Kafka) -> None:
    topic = run(kafka.create_topic())
    before = run(kafka.end_offsets(ENDS))
    silent = wait_on(on_kafka, topic)
    telling = wait_on(on_kafka, topic, publishCompletion=True)
    for wait in (silent, telling):
        on_kafka.callback(wait, {"by": "api"})
    run(kafka.produce(topic, [event(wait, n=1) for wait in (silent, telling)]))
    for wait in (silent, telling):
        assert on_kafka.show(wait, wait=30)["status"] == "completed"
    until(
        "the end is told", lambda: sum(run(kafka.end_offsets(ENDS)).values()) > sum(before.values())
    )
    records = run(kafka.consume(ENDS, sum(before.values()) + 1))
    told = [r for r in records if json.loads(r.value)["correlationId"] == telling["correlationId"]]
    assert len(told) == 1
    document = json.loads(told[0].value)
    assert document["output"]["api_response"] == {"by": "api"}
    assert dict(told[0].headers)["ce_type"] == b"muster.correlation.completed"
    assert silent["correlationId"] not in {json.loads(r.value)["correlationId"] for r in records}


def test_an_end_is_not_told_on_another_s_topic(on_kafka: Product) -> None:
    config = {"apiCall": CALL, "timeout": 600, "completionTopic": "acme.orders"}
    for path, body in (
        ("/api/wait-states", {"data": config}),
        ("/api/wait-states/batch", {"items": [{"data": config}]}),
    ):
        reply = on_kafka.http.post(path, json=body)
        assert reply.status_code == 422, reply.text
        assert "data.completionTopic" in reply.text


@pytest.mark.parametrize("topic", [ENDS, "__consumer_offsets"])
def test_a_topic_that_is_for_several_tenants_is_nobodys_to_wait_on(
    on_kafka: Product, topic: str
) -> None:
    config = {"kafkaEvent": {"topic": topic}, "timeout": 600}
    named = {"events": [{"name": "a", "topic": topic}], "timeout": 600}
    for field, data in (("data.kafkaEvent.topic", config), ("data.events[0].topic", named)):
        reply = on_kafka.http.post("/api/wait-states", json={"data": data})
        assert reply.status_code == 422, reply.text
        assert reply.json()["errors"][0]["field"] == field
        assert topic in reply.json()["detail"]
    assert topic not in {one["topic"] for one in on_kafka.http.get("/api/kafka").json()["topics"]}


def test_ten_thousand_correlations_shuffled_with_duplicates_and_kills(
    on_kafka: Product, kafka: Kafka
) -> None:
    """Both events by Kafka, in any order, some twice; ingest actors and a shard die meanwhile."""
    left, right = run(kafka.create_topic("sure-" + new_id(), partitions=6)), unique("sure")
    run(kafka.create_topic(right, partitions=6))
    rng, size = random.Random(11), 10_000
    config = {
        "events": [{"name": "left", "topic": left}, {"name": "right", "topic": right}],
        "timeout": 3600,
    }
    waits: list[dict[str, Any]] = []
    for start in range(0, size, 500):
        items = [{"data": config} for _ in range(min(500, size - start))]
        reply = on_kafka.http.post("/api/wait-states/batch", json={"items": items})
        assert reply.status_code == 200, reply.text
        waits += [result["body"] for result in reply.json()["results"]]

    async def produce_all() -> None:
        for topic in (left, right):
            messages = [event(wait, of=wait["correlationId"]) for wait in waits]
            messages += rng.sample(messages, size // 20)
            rng.shuffle(messages)
            await kafka.produce(topic, messages, linger_ms=20)

    for name in ("kafka-ingest-0", "kafka-ingest-1", "shard-0", "kafka-ingest-2"):
        os.kill(on_kafka.running_pid(name), signal.SIGKILL)
        if name == "kafka-ingest-1":
            run(produce_all())
    until("all have ended", lambda: not _open_waits(on_kafka), within=180)
    # Every event is accounted for exactly once, whatever was delivered again.
    keys = [Address(1, wait["executionId"], wait["correlationId"]).key for wait in waits]
    counted = (
        "select count(*), count(distinct (wait_key, event)) from wait_state_events"
        " where kind = 'received' and wait_key = any($1)"
    )
    assert run(_row(on_kafka, counted, keys)) == (2 * size, 2 * size)
    assert run(_row(on_kafka, "select count(*) from dead_letters")) == (0,)
    for wait in rng.sample(waits, 200):
        shown = on_kafka.show(wait)
        assert shown["status"] == "completed"
        for name in ("left", "right"):
            assert shown["output"][name] == {"of": wait["correlationId"]}, "no contamination"


def _open_waits(product: Product) -> int:
    listed = product.http.get("/api/wait-states", params={"status": "waiting", "limit": 1})
    return len(listed.json()["items"])


async def _row(product: Product, query: str, *arguments: Any) -> tuple[Any, ...]:
    server = embedded.running(product.data_dir)
    assert server is not None
    conn = await asyncpg.connect(server.dsn)
    try:
        row = await conn.fetchrow(query, *arguments)
    finally:
        await conn.close()
    assert row is not None
    return tuple(row)
