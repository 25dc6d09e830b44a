"""SASL and TLS against a real broker: those who prove who they are come in, nobody else."""

import asyncio
import logging

import pytest
from aiokafka.errors import KafkaError

from actors.kafka.client import describe_error, make_producer
from core.shared.kafka_config import KafkaConfig
from core.waits.messages import OfferReply, Reason, Reply, Verdict, WaitMessage
from core.waits.strategy import Status
from tests.integration.kafka.test_kafka_ingest import event
from tests.support.ingest import ingesting
from tests.support.kafka import unique
from tests.support.secured_kafka import PASSWORD, SecuredKafka
from tests.support.shards import address


async def send_one(config: KafkaConfig, topic: str, value: bytes) -> None:
    producer = make_producer(config, 1_000_000)
    try:
        async with asyncio.timeout(30):
            await producer.start()
            await producer.send_and_wait(topic, value)
    finally:
        await producer.stop()


@pytest.mark.parametrize("door", ["plain", "scram", "tls"])
async def test_events_pass_each_door_in_and_out(
    secured_kafka: SecuredKafka, database: str, door: str
) -> None:
    topic = await secured_kafka.create_topic()
    taken = asyncio.Event()

    async def take(messages: list[WaitMessage]) -> list[Reply]:
        taken.set()
        matched = OfferReply(
            verdict=Verdict.MATCHED, reason=Reason.EXPECTED, status=Status.COMPLETED
        )
        return [matched for _ in messages]

    await send_one(secured_kafka.config(door), topic, event(address()))
    options = {**secured_kafka.credentials(door), "group": unique("g")}
    async with ingesting(secured_kafka.at(door), database, take, [topic], **options):
        await asyncio.wait_for(taken.wait(), 30)


@pytest.mark.parametrize(
    ("door", "changed"),
    [
        ("plain", {"sasl_password": "guessed"}),
        ("scram", {"sasl_password": "guessed"}),
        ("plain", {"security_protocol": "PLAINTEXT"}),
        ("tls", {"tls_certificate": None, "tls_key": None}),
        ("tls", {"tls_ca": None}),
    ],
)
async def test_who_cannot_prove_it_stays_outside_and_no_secret_is_told(
    secured_kafka: SecuredKafka,
    door: str,
    changed: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    config = secured_kafka.config(door, **changed)
    with pytest.raises((KafkaError, OSError)) as caught:
        await send_one(config, "any", b"x")
    told = caplog.text + describe_error(caught.value) + repr(config)
    assert PASSWORD not in told
    assert "guessed" not in told
