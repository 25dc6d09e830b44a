"""Dead letters put into the database of a running instance, as ingest would bury them."""

from collections.abc import Sequence
from itertools import count

from core.kafka.message import KafkaMessage
from storage.access import keys
from storage.kafka import dead_letters
from storage.postgres.pool import Pool
from tests.support.product import Product, new_id
from tests.support.tenants import in_database

JSON_HEADER = ("content-type", b"application/json")
_OFFSETS = count(1)


def record(topic: str, value: bytes | None, **more: object) -> KafkaMessage:
    """A record at a place of its own."""
    fields = {"topic": topic, "partition": 0, "offset": next(_OFFSETS), "value": value, **more}
    return KafkaMessage(**fields)  # type: ignore[arg-type]


def record_for_wait(topic: str, wait: dict[str, str]) -> KafkaMessage:
    """A record for this wait."""
    ids = {"x-execution-id": wait["executionId"], "x-correlation-id": wait["correlationId"]}
    headers = tuple((name, value.encode()) for name, value in ids.items())
    return record(topic, b'{"settled":true}', headers=headers)


def undecodable_record(topic: str) -> KafkaMessage:
    """A record that says it is JSON and is not: it fails every time."""
    return record(topic, b"{", headers=(JSON_HEADER,))


def store_dead_letters(
    product: Product, records: Sequence[KafkaMessage], error: str = "boom", tenant: str = "default"
) -> list[int]:
    """Bury them for a tenant; their ids in the order of the records."""

    async def work(pool: Pool) -> list[int]:
        number = await keys.create_tenant(pool, tenant)
        await dead_letters.add(pool, number, [(one, error) for one in records])
        ids = {}
        for topic in {one.topic for one in records}:
            chosen = dead_letters.DeadLetterFilter(topic=topic)
            for letter in (await dead_letters.page(pool, number, chosen, None, 10_000)).items:
                ids[letter.topic, letter.partition, letter.offset] = letter.letter_id
        return [ids[one.topic, one.partition, one.offset] for one in records]

    found: list[int] = in_database(product, work)
    return found


def new_topic() -> str:
    """A topic nobody has used."""
    return f"topic-{new_id()[:12]}"
