"""The broker of the demo's last scenario: a message in, a completion event out."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from actors.kafka.client import client_options, make_producer
from cli.shell.client import Client, wait_path
from cli.shell.errors import CommandError
from core.shared.kafka_config import KafkaConfig
from tools.demo.waits.scenario import KAFKA

# Muster follows a new topic within seconds.
BROKER_TIMEOUT = 30.0
_PAUSE = 0.1
_CONNECT_WITHIN = 10.0
_MAX_BYTES = 1024 * 1024


class DemoBroker:
    """Writes to a topic as the external service would, and reads completion events."""

    def __init__(
        self, muster: Client, producer: AIOKafkaProducer, completions: AIOKafkaConsumer
    ) -> None:
        self._muster = muster
        self._producer = producer
        self._completions = completions

    async def produce(
        self, topic: str, execution_id: str, correlation_id: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Send a message and wait until the correlation has received it."""
        value = json.dumps(body).encode()
        try:
            sent = await self._producer.send_and_wait(topic, value, key=correlation_id.encode())
        except KafkaError as error:
            raise CommandError(f"Kafka refused the message: {error!r}.") from error
        place = f"{sent.topic}, partition {sent.partition}, offset {sent.offset}"
        path = wait_path(execution_id, correlation_id)
        deadline = asyncio.get_running_loop().time() + BROKER_TIMEOUT
        while asyncio.get_running_loop().time() < deadline:
            event = (await self._muster.get(path)).get("events", {}).get(KAFKA, {})
            if event.get("outcome") == "received":
                reply = {"verdict": "matched", "reason": "expected"}
                return {**reply, "eventId": event.get("eventId"), "detail": place}
            await asyncio.sleep(_PAUSE)
        raise CommandError(f"The message at {place} did not arrive within {BROKER_TIMEOUT:g} s.")

    async def wait_for_completion_event(self, execution_id: str, correlation_id: str) -> str:
        """Wait for the completion event of this correlation; return its place and status."""
        wanted = f"{execution_id}:{correlation_id}".encode()
        try:
            async with asyncio.timeout(BROKER_TIMEOUT):
                async for record in self._completions:
                    if record.key == wanted:
                        status = json.loads(record.value)["status"]
                        return f"{record.topic}, offset {record.offset}: {status}"
        except TimeoutError:
            pass
        raise CommandError(f"No completion event came within {BROKER_TIMEOUT:g} s.")


@asynccontextmanager
async def open_demo_broker(
    muster: Client, config: KafkaConfig, topic: str
) -> AsyncIterator[DemoBroker]:
    """Connect to the broker that Muster reads from; completion events come on `topic`."""
    # A failure is reported once, in a sentence.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    producer = make_producer(config, _MAX_BYTES)
    completions = AIOKafkaConsumer(
        topic,
        **client_options(config),
        group_id=None,  # leaves no consumer group behind
        enable_auto_commit=False,
        # A topic without completion events has nothing that could be read by mistake.
        auto_offset_reset="earliest",
    )
    try:
        await _connect(producer, completions, config.bootstrap)
        yield DemoBroker(muster, producer, completions)
    finally:
        await producer.stop()
        await completions.stop()


async def _connect(
    producer: AIOKafkaProducer, completions: AIOKafkaConsumer, bootstrap: str
) -> None:
    try:
        async with asyncio.timeout(_CONNECT_WITHIN):
            await producer.start()
            await completions.start()
            if completions.assignment():
                await completions.seek_to_end()  # older events belong to others
    except (KafkaError, TimeoutError, OSError) as error:
        raise CommandError(f"No broker can be used at {bootstrap}: {error!r}.") from error
