"""Copies dead letters to a Kafka topic, if one is configured; Postgres has them in any case."""

import asyncio
from collections.abc import Sequence

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from actors.kafka.client import make_producer
from core.kafka.message import KafkaMessage
from core.shared.kafka_config import KafkaConfig

log = structlog.get_logger("kafka")

# Postgres has the dead letters already, so ingest waits no longer than this for their copies.
COPY_WITHIN = 10.0


class DeadLetterTopic:
    """Publishes if a topic is configured; connects with the first dead letter."""

    def __init__(self, config: KafkaConfig, max_bytes: int) -> None:
        self._config = config
        self._max_bytes = max_bytes
        self._producer: AIOKafkaProducer | None = None
        self._connecting = asyncio.Lock()

    async def publish(self, letters: Sequence[tuple[KafkaMessage, str]]) -> None:
        """Send copies with their origin and error; log failures instead of raising them."""
        topic = self._config.dead_letter_topic
        if topic is None or not letters:
            return
        try:
            async with asyncio.timeout(COPY_WITHIN):
                producer = await self._connected()
                await asyncio.gather(*[_copy(producer, topic, *letter) for letter in letters])
        except (KafkaError, OSError, TimeoutError) as error:
            log.warning("kafka.dead_letter_not_copied", error=repr(error), letters=len(letters))
        except Exception:
            # A message that the client rejects must not end the ingest.
            log.exception("kafka.dead_letter_not_copied", letters=len(letters))

    async def _connected(self) -> AIOKafkaProducer:
        async with self._connecting:
            if self._producer is None:
                producer = make_producer(self._config, 2 * self._max_bytes)
                try:
                    await producer.start()
                except BaseException:
                    await producer.stop()
                    raise
                self._producer = producer
        return self._producer

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.stop()


async def _copy(producer: AIOKafkaProducer, topic: str, record: KafkaMessage, error: str) -> None:
    # The client refuses a message with neither key nor value, so it gets an empty value.
    empty = b"" if record.key is None else None
    await producer.send_and_wait(
        topic,
        empty if record.value is None else record.value,
        key=record.key,
        headers=[*record.headers, *_origin(record, error)],
    )


def _origin(record: KafkaMessage, error: str) -> list[tuple[str, bytes]]:
    return [
        ("muster-error", error.encode(errors="replace")),
        ("muster-topic", record.topic.encode()),
        ("muster-partition", str(record.partition).encode()),
        ("muster-offset", str(record.offset).encode()),
    ]
