"""A copy of each dead letter in Kafka, where one is wanted. Postgres has them in any case."""

from collections.abc import Sequence

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from actors.kafka_client import make_producer
from core.kafka_config import KafkaConfig
from core.record import Record

log = structlog.get_logger("kafka")


class DeadLetterTopic:
    """Publishes when a topic is configured; connects with the first letter."""

    def __init__(self, config: KafkaConfig, max_bytes: int) -> None:
        self._config = config
        self._max_bytes = max_bytes
        self._producer: AIOKafkaProducer | None = None

    async def publish(self, letters: Sequence[tuple[Record, str]]) -> None:
        """Send copies, with where they were and why. A failure is told and does not hold up."""
        if self._config.dead_letter_topic is None or not letters:
            return
        try:
            if self._producer is None:
                producer = make_producer(self._config, 2 * self._max_bytes)
                await producer.start()
                self._producer = producer
            for record, error in letters:
                await self._producer.send_and_wait(
                    self._config.dead_letter_topic,
                    record.value,
                    key=record.key,
                    headers=[*record.headers, *_origin(record, error)],
                )
        except (KafkaError, OSError) as error:
            log.warning("kafka.dead_letter_not_copied", error=repr(error), letters=len(letters))

    async def close(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            await self._producer.stop()


def _origin(record: Record, error: str) -> list[tuple[str, bytes]]:
    return [
        ("muster-error", error.encode()),
        ("muster-topic", record.topic.encode()),
        ("muster-partition", str(record.partition).encode()),
        ("muster-offset", str(record.offset).encode()),
    ]
