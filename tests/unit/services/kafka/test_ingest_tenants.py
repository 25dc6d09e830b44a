"""Records of several tenants in one batch: none waits for another tenant's to be stored."""

import asyncio
from collections.abc import Sequence

import pytest

from actors.kafka.ingest_actor import KafkaIngestActor
from core.kafka.message import KafkaMessage
from core.shared.config import Config
from core.shared.kafka_config import KafkaConfig
from services.kafka.ingest import IngestResult

BUSY, QUIET = 1, 2


class Ingest:
    """Stores at once, or only when it may; notes the order of each tenant's records."""

    def __init__(self) -> None:
        self.may_store = asyncio.Event()
        self.stored: dict[int, list[int]] = {}

    async def handle(self, tenant: int, records: Sequence[KafkaMessage]) -> IngestResult:
        if tenant == BUSY:
            await self.may_store.wait()
        self.stored.setdefault(tenant, []).extend(record.offset for record in records)
        return IngestResult(unplaced=len(records))


class Letters:
    """No dead letters are copied."""

    async def publish(self, letters: Sequence[tuple[KafkaMessage, str]]) -> None:
        assert not letters


def an_actor(ingest: Ingest, monkeypatch: pytest.MonkeyPatch) -> KafkaIngestActor:
    kafka = KafkaConfig(bootstrap="127.0.0.1:9", topics=("busy=busy", "quiet=quiet"))
    actor = KafkaIngestActor("kafka-ingest-0", Config(dsn="postgresql:///none", kafka=kafka))
    monkeypatch.setattr(actor, "_ingest", ingest, raising=False)
    monkeypatch.setattr(actor, "_dead_letter_topic", Letters(), raising=False)
    monkeypatch.setattr(actor, "_tenants", {"busy": BUSY, "quiet": QUIET})
    return actor


async def test_a_tenant_with_many_records_does_not_delay_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ingest = Ingest()
    actor = an_actor(ingest, monkeypatch)
    topics = ["busy"] * 400 + ["quiet", "quiet"]
    records = [
        KafkaMessage(topic=one, partition=0, offset=at, value=b"") for at, one in enumerate(topics)
    ]
    handling = asyncio.create_task(actor._handle(records))
    for _ in range(10):
        await asyncio.sleep(0)
    assert ingest.stored == {QUIET: [400, 401]}
    assert not handling.done(), "acknowledged before all of it was stored"
    ingest.may_store.set()
    await handling
    assert ingest.stored[BUSY] == list(range(400))
    assert actor._counters.unplaced == 402
