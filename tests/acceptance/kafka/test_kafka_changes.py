"""Kafka is told what happens to records."""

import asyncio
import json

from tests.acceptance.records.test_records import make_orders
from tests.support.kafka import Kafka
from tests.support.product import Product

CHANGES = "emf.record.changed"


def test_kafka_is_told_of_every_change(impatient: Product, kafka: Kafka) -> None:
    asyncio.run(kafka.create_topic(CHANGES, partitions=3))
    orders = make_orders(impatient.http)
    made = orders.create(card="4111 1111")
    path = f"{orders.path}/{made['id']}"
    impatient.http.patch(path, json={"status": "paid"})
    impatient.http.delete(path)
    records = asyncio.run(kafka.consume(CHANGES, 3))
    assert {record.key for record in records} == {f"default:{orders.name}".encode()}
    told = [json.loads(record.value) for record in records]
    assert [one["changeType"] for one in told] == ["CREATED", "UPDATED", "DELETED"]
    assert [one["version"] for one in told] == [1, 2, 3]
    assert told[1]["changedFields"] == ["status"]
    assert told[1]["previousData"]["status"] == "open"
    assert not any(b"4111" in record.value for record in records)
    assert impatient.http.get("/metrics").status_code == 200
