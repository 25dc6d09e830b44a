"""The topics that waits name: each tenant is told on its own only, and awaits nobody else's."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace

from core.kafka.topic_routing import TENANT_PLACEHOLDER, TopicRouting, completion_topic
from core.shared.kafka_config import KafkaConfig
from core.waits.config import WaitConfig

SlugOf = Callable[[int], Awaitable[str | None]]


class CompletionTopics:
    """Checks what is asked for; nothing is where there is no Kafka."""

    def __init__(self, kafka: KafkaConfig | None, slug_of: SlugOf) -> None:
        self._kafka = kafka
        self._book = TopicRouting.of(kafka) if kafka is not None else None
        self._slug_of = slug_of

    async def check(self, tenant: int, waits: Iterable[WaitConfig]) -> None:
        """See that these waits are told of on topics of the tenant's, and await no reserved one.

        Raises:
            InvalidError: One of the topics is another's, or nobody's.
        """
        if self._book is None:
            return
        requested: set[str] = set()
        for wait in waits:
            self._book.check_awaited(_awaited(wait))
            if wait.completion_topic is not None:
                requested.add(wait.completion_topic)
        if requested:
            self._book.check_completion_topics(sorted(requested), await self._slug_of(tenant))

    async def config_of(self, tenant: int) -> KafkaConfig | None:
        """The configuration as it is for one tenant: with the topic where its ends are told."""
        kafka = self._kafka
        if kafka is None or TENANT_PLACEHOLDER not in kafka.completion_topic:
            return kafka
        own = completion_topic(kafka.completion_topic, await self._slug_of(tenant) or "")
        return replace(kafka, completion_topic=own)


def _awaited(wait: WaitConfig) -> Iterator[tuple[str, str]]:
    """The topics of a wait, each with the field that names it."""
    if wait.kafka_event is not None and wait.kafka_event.topic:
        yield "data.kafkaEvent.topic", wait.kafka_event.topic
    for index, event in enumerate(wait.events):
        if event.topic:
            yield f"data.events[{index}].topic", event.topic
