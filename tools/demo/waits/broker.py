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
from cli.kafka.broker import find_broker
from cli.shell.client import Client, wait_path
from cli.shell.context import CommandContext
from cli.shell.errors import CommandError
from tools.demo.waits.script import KAFKA
from tools.load.tasks import poll

# Muster follows a new topic within seconds.
BROKER_TIMEOUT = 30.0
_CONNECT_TIMEOUT = 10.0
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

        async def received() -> Mapping[str, Any] | None:
            wait = await self._muster.get(wait_path(execution_id, correlation_id))
            event: Mapping[str, Any] = wait.get("events", {}).get(KAFKA, {})
            return event if event.get("outcome") == "received" else None

        try:
            async with asyncio.timeout(BROKER_TIMEOUT):
                event_id = (await poll(received)).get("eventId")
        except TimeoutError:
            raise CommandError(
                f"The message at {place} did not arrive within {BROKER_TIMEOUT:g} s."
            ) from None
        reply = {"verdict": "matched", "reason": "expected"}
        return {**reply, "eventId": event_id, "detail": place}

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
    muster: Client, shell: CommandContext
) -> AsyncIterator[DemoBroker | None]:
    """Connect to the broker that Muster reads from, if there is one and its address is known."""
    kafka = await muster.get("/api/kafka")
    try:
        config = find_broker(None, shell.data_dir) if kafka.get("connected") else None
    except CommandError:
        config = None  # the broker of an instance on another machine
    if config is None:
        yield None
        return
    # A failure is reported once, in a sentence.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    producer = make_producer(config, _MAX_BYTES)
    completions = AIOKafkaConsumer(
        str(kafka["completionTopic"]),
        **client_options(config),
        group_id=None,  # leaves no consumer group behind
        enable_auto_commit=False,
        # A topic without completion events has nothing that could be read by mistake.
        auto_offset_reset="earliest",
    )
    try:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                await producer.start()
                await completions.start()
                if completions.assignment():
                    await completions.seek_to_end()  # older events belong to others
        except (KafkaError, TimeoutError, OSError) as error:
            sentence = f"No broker can be used at {config.bootstrap}: {error!r}."
            raise CommandError(sentence) from error
        yield DemoBroker(muster, producer, completions)
    finally:
        await producer.stop()
        await completions.stop()
