"""Streams of one replica: each correlation is read once, however many readers it has here.

The log in Postgres is the buffer. A channel reads committed entries, renders each once and wakes
its readers; each reader has a cursor and reads on at its speed. A reader further behind than the
channel's memory reads the log from Postgres.
"""

import asyncio
import contextlib
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

import structlog

from actors.client import ActorClient
from core.shared.address import Address
from core.shared.errors import TransientError, UnavailableError
from core.waits.messages import RefusedReply
from core.waits.state import Wait, WaitLogEntry
from serve_app.http.sse import FROM_START, HEARTBEAT_FRAME, OPENING_FRAME
from services.shared.process import BackgroundTasks
from services.shared.retry import log_outage
from services.shared.time_slice import offload_if_large
from storage.postgres.error_class import SERVER_ERRORS
from storage.waits import waits
from telemetry.logging import about

log = structlog.get_logger("stream")

RETRY_SECONDS = 1.0
# Attempts to tell a correlation that its last reader disconnected.
MAX_ABANDON_ATTEMPTS = 5
# Retry-After of a response whose end could not be read, in seconds.
END_RETRY_SECONDS = 2
# What is read at once, and about what a channel caches: limits the memory of a correlation.
READ_AHEAD_BYTES = 256 * 1024

Frame: TypeAlias = tuple[int, bytes]
_number_of = itemgetter(0)


@dataclass(frozen=True, slots=True)
class LogUpdate:
    """What one read of a log returned; `counted` is None if the log has more entries.

    Once the wait has ended, `counted` has the entries of the result, if the format includes them.
    """

    wait: Wait
    entries: list[WaitLogEntry]
    counted: list[WaitLogEntry] | None

    def entries_after(self, cursor: int) -> list[WaitLogEntry]:
        """Return the entries that a reader at `cursor` has not seen.

        The wait was read before the entries, so entries up to its length are complete. Entries
        beyond it may follow an end that the wait does not show yet, so they are left for later.
        """
        end = end_sequence_of(self.wait)
        return [entry for entry in self.entries if cursor < entry.seq < end]


def end_sequence_of(wait: Wait) -> int:
    """Return the number of the end of a wait, or the next free number if it has not ended."""
    return wait.ending.seq if wait.ending is not None else wait.log_length + 1


# Renders the frames for a reader at a cursor.
FrameRenderer: TypeAlias = Callable[[int, LogUpdate], list[Frame]]


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """A format of a stream. `includes_result`: its last event contains the result."""

    name: str
    render: FrameRenderer
    includes_result: bool = False


def is_at_end(cursor: int, wait: Wait) -> bool:
    return wait.ending is not None and cursor >= wait.ending.seq


class Channel:
    """The stream of one correlation in one format."""

    def __init__(
        self, client: ActorClient, address: Address, stream_format: StreamFormat, heartbeat: float
    ) -> None:
        self._client = client
        self._address = address
        self._format = stream_format
        self._heartbeat = heartbeat
        self._frames: list[Frame] = []
        self._size = 0
        self._from = FROM_START
        self._read_to = FROM_START
        self._changed = asyncio.Event()
        self._beats = 0
        self.over = False
        # Whether an unexpected error stopped the channel before the end.
        self.broken = False
        # The end; None if the channel broke or the correlation was deleted before its end.
        self.result: LogUpdate | None = None
        self.readers = 0
        self._task = asyncio.create_task(self._follow())

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def frames(self, cursor: int) -> AsyncGenerator[bytes]:
        """Yield the frames after `cursor`, until the correlation has ended."""
        yield OPENING_FRAME
        beats = self._beats
        while True:
            changed = self._changed
            if cursor < self._from:
                frames, cursor = await self._catch_up(cursor)
            else:
                frames = self._frames[bisect_right(self._frames, cursor, key=_number_of) :]
                cursor = frames[-1][0] if frames else cursor
            if frames:
                yield b"".join([chunk for _, chunk in frames])
            elif self.over and cursor >= self._from:
                return
            elif beats != self._beats:
                beats = self._beats
                yield HEARTBEAT_FRAME
            elif cursor >= self._from:
                await changed.wait()

    async def _catch_up(self, cursor: int) -> tuple[list[Frame], int]:
        """Read entries that are no longer cached; return their frames and the new cursor."""
        try:
            update = await self._read(cursor)
        except SERVER_ERRORS:
            await asyncio.sleep(RETRY_SECONDS)
            return [], cursor
        if update is None:
            return [], self._from
        return await self._render(cursor, update), _read_to(cursor, update)

    async def _render(self, cursor: int, update: LogUpdate) -> list[Frame]:
        size = waits.size_of([*update.entries, *(update.counted or ())])
        return await offload_if_large(lambda: self._format.render(cursor, update), size)

    async def ended(self) -> None:
        while not self.over:
            await self._changed.wait()

    async def ended_within(self, timeout_seconds: float) -> None:
        """Return when the correlation has ended; raise UnavailableError after `timeout_seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self.ended()
        if self.broken or not self.over:
            raise UnavailableError(
                "the result could not be read in time; it may be complete", END_RETRY_SECONDS
            )

    async def _follow(self) -> None:
        try:
            await self._read_on()
        except Exception:
            # The channel ends, so that its readers reconnect after the last id they saw.
            log.exception("stream.broken", **about(self._address))
            self.over = self.broken = True
            self._wake()

    async def _read(self, cursor: int) -> LogUpdate | None:
        stream_format = self._format
        return await read_log_update(
            self._client, self._address, cursor, with_result=stream_format.includes_result
        )

    async def _read_on(self) -> None:
        pause = self._heartbeat
        async with self._client.watch(self._address) as watch:
            while not self.over:
                if not await watch.changed(timeout=pause):
                    self._beats += 1
                # Read at every heartbeat too, in case a notification is lost.
                pause = self._heartbeat
                try:
                    update = await self._read(self._read_to)
                except SERVER_ERRORS as error:
                    log_outage(error, RETRY_SECONDS, who="stream", **about(self._address))
                    pause = RETRY_SECONDS
                    self._wake()  # so that readers send a heartbeat
                    continue
                await self._apply(update)
                if update is not None and update.counted is None:
                    watch.wake()  # only a part was read: go on at once
                self._wake()

    async def _apply(self, update: LogUpdate | None) -> None:
        if update is None:  # past retention
            self.over = True
            return
        for frame in await self._render(self._read_to, update):
            self._frames.append(frame)
            self._size += len(frame[1])
        self._read_to = _read_to(self._read_to, update)
        while self._size > READ_AHEAD_BYTES and len(self._frames) > 1:
            number, chunk = self._frames.pop(0)
            self._size -= len(chunk)
            self._from = number
        if is_at_end(self._read_to, update.wait):
            self.over, self.result = True, update

    def _wake(self) -> None:
        woken, self._changed = self._changed, asyncio.Event()
        woken.set()


def _read_to(cursor: int, update: LogUpdate) -> int:
    """Return the number up to which all entries are known."""
    wait, lines = update.wait, update.entries_after(cursor)
    if update.counted is None:
        return lines[-1].seq if lines else cursor
    return wait.ending.seq if wait.ending is not None else max(cursor, wait.log_length)


async def read_log_update(
    client: ActorClient, address: Address, cursor: int, *, with_result: bool
) -> LogUpdate | None:
    """Read what is committed after `cursor`; return None if the correlation does not exist."""
    async with asyncio.timeout(client.config.request_timeout):
        wait_row = await waits.read(client.pool, address)
        if wait_row is None:
            return None
        wait = wait_row.wait
        page = waits.LogPage([], more=False)
        if wait.log_length > max(cursor, 0):
            page = await waits.read_log(client.pool, address.key, max(cursor, 0), READ_AHEAD_BYTES)
        if page.more and page.entries[-1].seq + 1 < end_sequence_of(wait):
            return LogUpdate(wait, page.entries, None)
        is_told = with_result and wait.ending is not None
        counted = await waits.read_counted(client.pool, wait) if is_told else []
        return LogUpdate(wait, page.entries, counted)


# A correlation's key and the name of a format.
_ChannelKey: TypeAlias = tuple[bytes, str]


class StreamHub:
    """All channels of this replica; a channel exists while it has readers."""

    def __init__(self, client: ActorClient, heartbeat: float) -> None:
        self._client = client
        self._heartbeat = heartbeat
        self._channels: dict[_ChannelKey, Channel] = {}
        self._readers: Counter[bytes] = Counter()
        # How many of the readers are disconnected ones that may reconnect.
        self._away: Counter[bytes] = Counter()
        # For tasks that outlive the request of a disconnected reader.
        self._follow_ups = BackgroundTasks()
        self.follow_up = self._follow_ups.start

    @contextlib.asynccontextmanager
    async def open(
        self, address: Address, stream_format: StreamFormat, grace: float | None = None
    ) -> AsyncIterator[Channel]:
        """Follow a correlation while the context is open.

        Without readers it is abandoned after `grace` seconds, unless that is None.
        """
        channel_key = (address.key, stream_format.name)
        channel = self._enter(channel_key, address, stream_format)
        try:
            yield channel
        finally:
            if grace is not None and not channel.over and self._present(address) == 1:
                self._away[address.key] += 1
                self.follow_up(self._wait_and_abandon(channel_key, address, grace))
            else:
                await self._exit(channel_key)

    async def frames(
        self, address: Address, stream_format: StreamFormat, cursor: int, grace: float | None = None
    ) -> AsyncGenerator[bytes]:
        """Yield the frames of a correlation; the caller is a reader until it stops reading."""
        async with (
            self.open(address, stream_format, grace) as channel,
            contextlib.aclosing(channel.frames(cursor)) as frames,
        ):
            async for frame in frames:
                yield frame

    @property
    def readers(self) -> int:
        """Return the number of connected readers."""
        return self._readers.total() - self._away.total()

    async def close(self) -> None:
        await self._follow_ups.close()
        for channel in list(self._channels.values()):
            await channel.close()

    def _enter(
        self, channel_key: _ChannelKey, address: Address, stream_format: StreamFormat
    ) -> Channel:
        channel = self._channels.get(channel_key)
        if channel is None:
            channel = Channel(self._client, address, stream_format, self._heartbeat)
            self._channels[channel_key] = channel
        channel.readers += 1
        self._readers[channel_key[0]] += 1
        return channel

    def _present(self, address: Address) -> int:
        return self._readers[address.key] - self._away[address.key]

    async def _exit(self, channel_key: _ChannelKey) -> None:
        key, channel = channel_key[0], self._channels[channel_key]
        channel.readers -= 1
        _decrement(self._readers, key)
        if not channel.readers:
            del self._channels[channel_key]
            await channel.close()

    async def _wait_and_abandon(
        self, channel_key: _ChannelKey, address: Address, grace: float
    ) -> None:
        """Keep the last reader's place for `grace` seconds, then abandon the correlation."""
        channel = self._channels[channel_key]
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await channel.ended()
        finally:
            _decrement(self._away, address.key)
            await self._exit(channel_key)
        if not channel.over:
            await self._abandon(address)

    async def _abandon(self, address: Address) -> None:
        """Tell the correlation that it has no readers, unless a reader has come back.

        A failed attempt is repeated; if all attempts fail, the deadline ends the correlation.
        """
        for _ in range(MAX_ABANDON_ATTEMPTS):
            if address.key in self._readers:
                return
            with contextlib.suppress(TransientError):
                reply = await self._client.abandon(address)
                if not (isinstance(reply, RefusedReply) and reply.is_transient):
                    return
            await asyncio.sleep(RETRY_SECONDS)


def _decrement(counts: Counter[bytes], key: bytes) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
