"""Follows the streams of some waits and keeps all that they show.

Unlike `cli.shell.follow` it drops nothing: what is shown twice is kept twice, for `reconcile.py`
to find.
"""

import functools
from collections import Counter
from collections.abc import AsyncIterator

from cli.shell.client import Client, UnreachableError, wait_path
from cli.shell.problems import ProblemResponseError
from cli.shell.sse import EventDecoder, ServerEvent
from tools.chaos.database_audit import origin_of
from tools.chaos.load import TRANSIENT_STATUSES, status_and_code
from tools.chaos.reconcile import ENDED, ObservedEvent
from tools.chaos.requests import CorrelationKey
from tools.chaos.scenario import ChaosScenario
from tools.load.tasks import TaskSet, poll

MAX_STREAMS = 80  # streams; the HTTP client has a hundred connections
_MAX_SILENCE = 40.0  # the server says something every 15 s
_PAUSE = 0.2


class StreamFollower:
    """Follows every `each`-th wait that is registered, up to `MAX_STREAMS` at once."""

    def __init__(self, client: Client, *, each: int) -> None:
        self.observed: dict[CorrelationKey, list[ObservedEvent]] = {}
        self.unexpected: Counter[str] = Counter()
        self._client = client
        self._each = each
        self._offered = 0
        self._readers = TaskSet()

    def offer(self, scenario: ChaosScenario) -> None:
        """Take note of a registered wait, and follow it if it is its turn."""
        self._offered += 1
        key, is_due = scenario.correlation_key, self._offered % self._each == 0
        if is_due and len(self._readers) < MAX_STREAMS and key not in self.observed:
            self.observed[key] = []
            self._readers.start(self._follow(key, self.observed[key]))

    @property
    def under_way(self) -> int:
        """How many streams have not come to their end."""
        return len(self._readers)

    async def finish(self, within: float) -> None:
        """Read the streams under way to their end, or until the time is up."""
        await self._readers.finish(within)

    async def _follow(self, correlation_key: CorrelationKey, lines: list[ObservedEvent]) -> None:
        # Once more after the end: a reader that comes back must not be shown it again.
        for _ in ("until it has ended", "after the end"):
            await poll(functools.partial(self._read, correlation_key, lines), _PAUSE)

    async def _read(self, correlation_key: CorrelationKey, lines: list[ObservedEvent]) -> bool:
        """Read one connection; return False if it broke off."""
        headers = {"Accept": "text/event-stream"}
        if lines:
            headers["Last-Event-ID"] = str(lines[-1].number)
        path = wait_path(*correlation_key, "stream")
        try:
            async with self._client.stream(path, headers, max_silence=_MAX_SILENCE) as chunks:
                async for event in _events(chunks):
                    lines.append(observed_event(event))  # noqa: PERF401 - a break keeps what came
        except UnreachableError:
            return False
        except ProblemResponseError as problem:
            if problem.status not in TRANSIENT_STATUSES:
                self.unexpected[status_and_code(problem)] += 1
            return False
        return any(line.kind == ENDED for line in lines)


def observed_event(event: ServerEvent) -> ObservedEvent:
    """Convert an event of a stream for the reconciliation."""
    entry, number = event.data(), int(event.event_id or -1)
    if event.kind == ENDED:
        output = entry.get("output") or {}
        owners = {origin_of(data)["of"] for data in output.values() if isinstance(data, dict)}
        of = " and ".join(sorted(owners)) or None
        return ObservedEvent(number=number, kind=event.kind, event_id="", of=of)
    event_id = str(entry.get("eventId", ""))
    origin = origin_of(entry["data"]) if "data" in entry else {}
    return ObservedEvent(number=number, kind=event.kind, event_id=event_id, **origin)


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[ServerEvent]:
    decoder = EventDecoder()
    async for chunk in chunks:
        for event in decoder.feed(chunk):
            yield event
