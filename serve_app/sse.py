"""Server-sent events from a correlation's log: no gap, no repeat, over any restart.

The log in Postgres is the buffer. A stream remembers one number, reads what is committed after it,
and sleeps until the correlation may have changed; a slow client holds up its own reading only.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import msgspec
import structlog
from starlette.responses import StreamingResponse
from starlette.types import Send

from actors.gateway import Gateway
from core.address import Address
from core.wait import Entry, Wait
from serve_app.wire.mapper import ended_document, entry_document, registered_document
from storage import waits
from storage.pool import CONNECTION_ERRORS
from telemetry.logging import about

log = structlog.get_logger("stream")

MEDIA_TYPE = "text/event-stream"
BEAT = b": beat\n\n"
OPENING = b"retry: 1000\n\n"
FROM_START = -1
RETRY_AFTER = 1.0
# What one stream reads ahead of its client: a reader that stops reading must not cost more.
READ_AHEAD = 256 * 1024
_LINE_END = re.compile(rb"\r\n|\r|\n")


def frame(kind: str, number: int, document: Any) -> bytes:
    """One event. Stored JSON may stand on several lines; each gets its own `data:`."""
    data = msgspec.json.encode(document)
    if b"\n" in data or b"\r" in data:  # rare, and to look costs far less than to replace
        data = _LINE_END.sub(b"\ndata: ", data)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, kind.encode(), data)


def frames_after(
    cursor: int, wait: Wait, entries: list[Entry], counted: list[Entry] | None = None
) -> list[tuple[int, bytes]]:
    """What a reader at `cursor` has not seen, with the number it is at afterwards.

    `wait` must have been read before `entries`: lines up to its length are then complete. Lines
    beyond it may lie after an end that `wait` does not show yet, so they are left for later.
    The end itself is told once `counted` is there, the lines whose data is its result.
    """
    frames: list[tuple[int, bytes]] = []
    if cursor < 0:
        frames.append((0, frame("registered", 0, registered_document(wait))))
    end = wait.ending.seq if wait.ending else wait.log_length + 1
    frames.extend(
        (entry.seq, frame(entry.kind, entry.seq, entry_document(entry)))
        for entry in entries
        if cursor < entry.seq < end
    )
    if wait.ending is not None and counted is not None and cursor < wait.ending.seq:
        document = ended_document(wait, wait.ending, counted)
        frames.append((wait.ending.seq, frame("ended", wait.ending.seq, document)))
    return frames


def has_all(cursor: int, wait: Wait) -> bool:
    """Whether nothing more will come for a reader at `cursor`."""
    return wait.ending is not None and cursor >= wait.ending.seq


class EventStream(StreamingResponse):
    """Closes its generator in any case: a client that vanished must not stay a watcher."""

    def __init__(self, frames: AsyncGenerator[bytes]) -> None:
        super().__init__(
            frames,
            media_type=MEDIA_TYPE,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
        self._frames = frames

    async def stream_response(self, send: Send) -> None:
        """Send all frames."""
        async with contextlib.aclosing(self._frames):
            await super().stream_response(send)


async def stream(
    gateway: Gateway, address: Address, cursor: int, heartbeat: float
) -> AsyncGenerator[bytes]:
    """Frames until the wait has ended. Its reader resumes by the last id it saw."""
    yield OPENING
    pause = heartbeat
    async with gateway.watch(address) as watch:
        while True:
            if not await watch.changed(timeout=pause):
                yield BEAT
            # Read after a beat as well, should a change ever go unheard.
            pause = heartbeat
            try:
                async with asyncio.timeout(gateway.config.request_timeout):
                    news = await _read(gateway, address, cursor)
            except CONNECTION_ERRORS as error:
                log.warning("stream.database_away", error=type(error).__name__, **about(address))
                pause = RETRY_AFTER
                continue
            if news is None:
                return
            for number, chunk in frames_after(cursor, *news):
                yield chunk
                cursor = number
            if has_all(cursor, news.wait):
                return
            if news.counted is None:
                watch.wake()  # only a part was read: go on at once


class _News(NamedTuple):
    """What was read at once; `counted` only if that was all there is."""

    wait: Wait
    entries: list[Entry]
    counted: list[Entry] | None


async def _read(gateway: Gateway, address: Address, cursor: int) -> _News | None:
    seen = await waits.read(gateway.pool, address)
    if seen is None:
        return None
    wait = seen.wait
    page = waits.LogPage([], more=False)
    if wait.log_length > max(cursor, 0):
        page = await waits.read_log(gateway.pool, address.key, max(cursor, 0), READ_AHEAD)
    if page.more:
        return _News(wait, page.entries, None)
    counted = await waits.read_counted(gateway.pool, wait) if wait.ending else []
    return _News(wait, page.entries, counted)
