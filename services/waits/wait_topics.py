"""The topics that waits name, told to ingest before the first wait with one is acknowledged."""

from collections.abc import Awaitable, Callable, Iterable

from core.waits.spec import Source, WaitSpec

MAX_REMEMBERED_TOPICS = 10_000
# So much longer than asked: a busy topic is told of once in a while, not with every wait.
FOLLOW_MARGIN_SECONDS = 86_400.0

NameTopics = Callable[[int, Iterable[str], float], Awaitable[None]]


class WaitTopics:
    """What this replica has told already. Forgetting is harmless: a topic may be told twice."""

    def __init__(self, name: NameTopics, now: Callable[[], float]) -> None:
        self._name = name
        self._now = now
        self._followed_until: dict[tuple[int, str], float] = {}

    def forget(self) -> None:
        """Tell all of them again: the database may have been put back."""
        self._followed_until.clear()

    async def remember(self, tenant: int, specs: Iterable[WaitSpec]) -> None:
        """See that the topics of these waits are followed until their deadlines."""
        now = self._now()
        until: dict[str, float] = {}
        for spec in specs:
            for event in spec.events:
                # A name with a colon is no topic: it is the type of an event that will be posted.
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
