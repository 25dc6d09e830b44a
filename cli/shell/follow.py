"""Event streams followed over broken connections, without a gap and without a repeat."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from cli.shell.client import Client, UnreachableError, wait_path
from cli.shell.context import err
from cli.shell.problems import ProblemResponseError
from cli.shell.sse import EventDecoder, ServerEvent

ENDED = "ended"
_MAX_SILENCE = 60.0  # the server says something every 15 s
_FIRST_DELAY, _MAX_DELAY = 0.25, 5.0
_MAX_TRIES = 20
_TRANSIENT_STATUSES = {429, 502, 503, 504}


@dataclass(slots=True)
class StreamProgress:
    """How far a stream was read: decides what is new, where to continue, and when to give up."""

    last_id: str | None = None
    last_kind: str = ENDED
    has_begun: bool = False
    """Whether the server ever answered."""
    ended: bool = False
    retry: float | None = None
    failures: int = 0
    seen_ids: set[str] = field(default_factory=set)

    @property
    def headers(self) -> dict[str, str]:
        accept = {"Accept": "text/event-stream"}
        return accept if self.last_id is None else accept | {"Last-Event-ID": self.last_id}

    def accept(self, event: ServerEvent) -> bool:
        """Note an event; return False if it was read before."""
        if event.event_id is not None:
            if event.event_id in self.seen_ids:
                return False
            self.seen_ids.add(event.event_id)
            self.last_id = event.event_id
        self.failures = 0
        self.ended = self.ended or event.kind == self.last_kind
        return True

    def pause(self) -> float | None:
        """Return the delay before the next try, or None after the last."""
        self.failures += 1
        if self.failures > _MAX_TRIES:
            return None
        first = _FIRST_DELAY if self.retry is None else self.retry
        return min(_MAX_DELAY, first * float(1 << (self.failures - 1)))


def follow(
    client: Client,
    execution_id: str,
    correlation_id: str,
    *,
    on_break: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[ServerEvent]:
    """Yield every entry of a wait state's log, the past ones first, until the wait has ended."""
    path = wait_path(execution_id, correlation_id, "stream")
    return follow_stream(client, path, last_kind=ENDED, on_break=on_break)


async def follow_stream(
    client: Client,
    path: str,
    *,
    last_kind: str,
    on_break: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[ServerEvent]:
    """Yield every event of the stream at `path`, up to one of the kind `last_kind`."""
    progress = StreamProgress(last_kind=last_kind)
    while True:
        reason = f"{client.instance.url} closed the stream."
        try:
            async for event in _read_once(client, path, progress):
                yield event
        except (UnreachableError, ProblemResponseError) as error:
            if not _is_transient(error, progress):
                raise
            reason = error.sentence
        if progress.ended:
            return
        pause = progress.pause()
        if pause is None:
            raise UnreachableError(f"Gave up following after {_MAX_TRIES} tries: {reason}")
        on_break(reason)
        await asyncio.sleep(pause)


async def _read_once(
    client: Client, path: str, progress: StreamProgress
) -> AsyncIterator[ServerEvent]:
    decoder = EventDecoder()
    async with client.stream(path, progress.headers, max_silence=_MAX_SILENCE) as chunks:
        progress.has_begun = True
        async for chunk in chunks:
            for event in decoder.feed(chunk):
                progress.retry = decoder.retry or progress.retry
                if progress.accept(event):
                    yield event
                if progress.ended:
                    return


def _is_transient(error: UnreachableError | ProblemResponseError, progress: StreamProgress) -> bool:
    """Return whether the same request may succeed soon; a refused first connection will not."""
    if isinstance(error, ProblemResponseError):
        return error.status in _TRANSIENT_STATUSES
    return progress.has_begun


def print_reconnecting(reason: str) -> None:
    """Say that a stream broke and is being continued."""
    err.print(f"{reason} Reconnecting …", style="yellow", markup=False, soft_wrap=True)
