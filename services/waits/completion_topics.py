"""Checks the topics that waits name: a tenant may only use its own ones."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace

from core.kafka.topic_routing import TENANT_PLACEHOLDER, TopicRouting, completion_topic
from core.shared.kafka_config import KafkaConfig
from core.waits.config import WaitConfig

SlugOf = Callable[[int], Awaitable[str | None]]


class CompletionTopics:
    """Checks requested topics; without Kafka there is nothing to check."""

    def __init__(self, kafka: KafkaConfig | None, slug_of: SlugOf) -> None:
        self._kafka = kafka
        self._routing = TopicRouting.of(kafka) if kafka is not None else None
        self._slug_of = slug_of

    async def check(self, tenant: int, waits: Iterable[WaitConfig]) -> None:
        """Check that waits complete to topics of their tenant, and await no reserved topic.

        Raises:
            InvalidError: A topic belongs to another tenant, or to none.
        """
        if self._routing is None:
            return
        requested: set[str] = set()
        for wait in waits:
            self._routing.check_awaited(_awaited(wait))
            if wait.completion_topic is not None:
                requested.add(wait.completion_topic)
        if requested:
            self._routing.check_completion_topics(sorted(requested), await self._slug_of(tenant))

    async def config_of(self, tenant: int) -> KafkaConfig | None:
        """Return the configuration with the completion topic of one tenant."""
        kafka = self._kafka
        if kafka is None or TENANT_PLACEHOLDER not in kafka.completion_topic:
            return kafka
        own = completion_topic(kafka.completion_topic, await self._slug_of(tenant) or "")
        return replace(kafka, completion_topic=own)


def _awaited(wait: WaitConfig) -> Iterator[tuple[str, str]]:
    """Yield the topics that a wait awaits, each with the field that names it."""
    if wait.kafka_event is not None and wait.kafka_event.topic:
        yield "data.kafkaEvent.topic", wait.kafka_event.topic
    for index, event in enumerate(wait.events):
        if event.topic:
            yield f"data.events[{index}].topic", event.topic
