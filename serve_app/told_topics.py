"""The topics that waits want to be told on: a tenant writes to its own only."""

from collections.abc import Awaitable, Callable, Iterable

from core.kafka_config import KafkaConfig
from core.topics import TopicBook

SlugOf = Callable[[int], Awaitable[str | None]]


class ToldTopics:
    """Checks what is asked for; nothing is where there is no Kafka."""

    def __init__(self, kafka: KafkaConfig | None, slug_of: SlugOf) -> None:
        self._book = TopicBook.of(kafka) if kafka is not None else None
        self._slug_of = slug_of

    async def check(self, tenant: int, wanted: Iterable[str | None]) -> None:
        """See that these topics are the tenant's, or the one that all are told on.

        Raises:
            InvalidError: One of them is another's.
        """
        named = {topic for topic in wanted if topic is not None}
        if self._book is not None and named:
            self._book.check_told(sorted(named), await self._slug_of(tenant))
