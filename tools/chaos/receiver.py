"""A reader of streams: follows a sample of the waits and writes down all that it is shown.

Unlike `cli.shell.follow` it forgives nothing: what is shown twice is kept twice, for
`reconcile.py` to find.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

from cli.shell.client import Client, UnreachableError, wait_path
from cli.shell.problems import ProblemResponseError
from cli.shell.sse import EventDecoder, ServerEvent
from tools.chaos.database_audit import origin_of
from tools.chaos.load import TRANSIENT_STATUSES, status_and_code
from tools.chaos.reconcile import ENDED, CorrelationKey, ObservedEvent
from tools.chaos.scenario import ChaosScenario

MAX_STREAMS = 80  # streams; the HTTP client has a hundred connections
_MAX_SILENCE = 40.0  # the server says something every 15 s
_PAUSE = 0.2


class StreamFollower:
    """Follows every `each`-th wait that it is told of, as long as it has room."""

    def __init__(self, client: Client, *, each: int) -> None:
        self.observed: dict[CorrelationKey, list[ObservedEvent]] = {}
        self.breaks = 0
        self.unexpected: Counter[str] = Counter()
        self._client = client
        self._each = each
        self._offered = 0
        self._readers: set[asyncio.Task[None]] = set()

    def offer(self, story: ChaosScenario) -> None:
        """Follow every n-th registered wait."""
        self._offered += 1
        correlation_key = story.execution_id, story.correlation_id
        if (
            self._offered % self._each
            or len(self._readers) >= MAX_STREAMS
            or correlation_key in self.observed
        ):
            return
        self.observed[correlation_key] = []
        task = asyncio.create_task(self._follow(correlation_key, self.observed[correlation_key]))
        self._readers.add(task)
        task.add_done_callback(self._readers.discard)

    @property
    def under_way(self) -> int:
        """Streams that have not come to their end."""
        return len(self._readers)

    async def finish(self, within: float) -> None:
        """Read the streams under way to their end, or until the time is up."""
        readers = set(self._readers)
        if not readers:
            return
        done, pending = await asyncio.wait(readers, timeout=within)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            task.result()

    async def _follow(self, correlation_key: CorrelationKey, lines: list[ObservedEvent]) -> None:
        # Once more after the end: who comes back must not be told of it again.
        for _ in ("until it has ended", "after the end"):
            while not await self._read(correlation_key, lines):
                self.breaks += 1
                await asyncio.sleep(_PAUSE)

    async def _read(self, correlation_key: CorrelationKey, lines: list[ObservedEvent]) -> bool:
        """One connection; False if it broke off."""
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
    told = origin_of(entry["data"]) if "data" in entry else {}
    return ObservedEvent(
        number=number, kind=event.kind, event_id=str(entry.get("eventId", "")), **told
    )


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[ServerEvent]:
    decoder = EventDecoder()
    async for chunk in chunks:
        for event in decoder.feed(chunk):
            yield event
