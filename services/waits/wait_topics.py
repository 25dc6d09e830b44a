"""Registers the topics that waits name for ingest, before the first such wait is acknowledged."""

from collections.abc import Awaitable, Callable, Iterable

from core.waits.spec import Source, WaitSpec

MAX_REMEMBERED_TOPICS = 10_000
# Topics are followed longer than needed, so that a busy topic is registered rarely.
FOLLOW_MARGIN_SECONDS = 86_400.0

NameTopics = Callable[[int, Iterable[str], float], Awaitable[None]]


class WaitTopics:
    """The topics that this replica has registered. Registering a topic twice is harmless."""

    def __init__(self, name: NameTopics, now: Callable[[], float]) -> None:
        self._name = name
        self._now = now
        self._followed_until: dict[tuple[int, str], float] = {}

    def forget(self) -> None:
        """Register all topics again, because the database may have been restored."""
        self._followed_until.clear()

    async def remember(self, tenant: int, specs: Iterable[WaitSpec]) -> None:
        """Ensure that the topics of these waits are followed until their deadlines."""
        now = self._now()
        until: dict[str, float] = {}
        for spec in specs:
            for event in spec.events:
                # A label with a colon is not a topic: it is the type of an event that will be
                # posted.
                if event.source is Source.KAFKA and event.label and ":" not in event.label:
                    until[event.label] = max(until.get(event.label, 0.0), now + spec.timeout)
        new = {
            t: end for t, end in until.items() if self._followed_until.get((tenant, t), 0.0) < end
        }
        if not new:
            return
        last = max(new.values()) + FOLLOW_MARGIN_SECONDS
        await self._name(tenant, new, last)
        if len(self._followed_until) + len(new) > MAX_REMEMBERED_TOPICS:
            self._followed_until.clear()
        self._followed_until |= {(tenant, topic): last for topic in new}
