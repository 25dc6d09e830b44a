"""Fires deadlines: near ones are in memory, all are in Postgres, and none is missed.

The timer reads ahead by index, and shards send it deadlines nearer than it has read. A slow sweep
reads everything again since the watermark, the time up to which all deadlines were answered.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import structlog

from actors.timers.deadline_heap import DeadlineHeap
from core.shared.address import Address
from core.shared.config import Config
from core.shared.errors import TransientError
from core.waits.messages import Expire, RefusalKind, RefusedReply, Reply, WaitMessage
from storage.waits.deadlines import DueWait

log = structlog.get_logger("timer")

FIRE_CHUNK = 500
# The maximum of concurrent chunks; more would only fill the queues of the shards.
MAX_CHUNKS_UNDER_WAY = 8
# A row can be committed this many seconds after its deadline was computed.
SLACK = 60.0
# A watermark in the future means that the database's clock was set back by an unknown amount, so
# this many seconds of the past are read again.
PUT_BACK = 3_600.0
# The pause before a deadline fires again whose wait cannot be read or written.
REFUSED_PAUSE = 5.0


class Deadlines(Protocol):
    """The deadlines and the watermark in Postgres."""

    def due_between(self, after: float, until: float) -> AsyncIterator[list[DueWait]]:
        """Yield pages of waiting correlations with a deadline in (after, until], soonest first."""
        ...

    async def read_watermark(self) -> float | None:
        """Return the time up to which all deadlines were answered."""
        ...

    async def write_watermark(self, swept_until: float) -> None:
        """Store the watermark, which may also move back."""
        ...


class Timer:
    """Fires each deadline once it has passed on the database's clock."""

    def __init__(
        self,
        config: Config,
        deadlines: Deadlines,
        send_many: Callable[[list[WaitMessage]], Awaitable[list[Reply]]],
        now: Callable[[], float],
        new_turn_id: Callable[[], str],
    ) -> None:
        self._config = config
        self._deadlines = deadlines
        self._send_many = send_many
        self._now = now
        self._new_turn_id = new_turn_id
        self._heap = DeadlineHeap()
        self._firing: dict[bytes, float] = {}
        # The start time of each task, the oldest first.
        self._tasks: dict[asyncio.Task[None], float] = {}
        self._read_until = 0.0
        self._counts = {"fired": 0, "retried": 0, "skew_sum": 0.0, "skew_max": 0.0}

    def arm(self, due: list[tuple[Address, float]]) -> None:
        """Add deadlines that a shard has just committed."""
        for address, due_at in due:
            self._put(address, due_at)

    def snapshot(self) -> dict[str, Any]:
        return {**self._counts, "near": len(self._heap), "firing": len(self._firing)}

    @property
    def stalled_seconds(self) -> float:
        """Return for how long the oldest fired deadline has not been answered, in seconds."""
        oldest = next(iter(self._tasks.values()), None)
        return 0.0 if oldest is None else asyncio.get_running_loop().time() - oldest

    async def start(self) -> None:
        """Read all deadlines since the watermark, and the near future."""
        mark = await self._deadlines.read_watermark()
        await self._read(0.0 if mark is None else self._since(mark))

    async def read_ahead(self) -> None:
        """Read the next deadlines up to the horizon."""
        await self._read(self._read_until)

    async def sweep(self) -> None:
        """Read deadlines again that may have been committed late, and move the watermark."""
        mark = await self._deadlines.read_watermark()
        await self._read(self._since(mark or self._now()), keep_horizon=True)
        open_since = [self._now(), *self._firing.values()]
        earliest = self._heap.earliest()
        if earliest is not None:
            open_since.append(earliest)
        await self._deadlines.write_watermark(min(open_since))

    def tick(self) -> None:
        """Fire due deadlines within the limit of chunks; the rest follows as shards answer."""
        while len(self._tasks) < MAX_CHUNKS_UNDER_WAY:
            due = self._heap.take_due(self._now(), FIRE_CHUNK)
            if not due:
                return
            for address, due_at in due:
                self._firing[address.key] = due_at
            task = asyncio.create_task(self._fire(due))
            self._tasks[task] = asyncio.get_running_loop().time()
            task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled():
            self.tick()

    async def settled(self) -> None:
        """Wait until all fired deadlines are answered."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def _read(self, after: float, *, keep_horizon: bool = False) -> None:
        until = self._now() + self._config.timer_horizon
        async for page in self._deadlines.due_between(after, until):
            for due in page:
                self._put(due.address, due.due_at)
        if not keep_horizon:
            self._read_until = until

    def _since(self, mark: float) -> float:
        """Return the time since which deadlines may not have been answered."""
        now = self._now()
        return max(0.0, (mark if mark <= now else now - PUT_BACK) - SLACK)

    def _put(self, address: Address, due_at: float) -> None:
        if self._firing.get(address.key) != due_at:
            self._heap.put(address, due_at)

    async def _fire(self, due: list[tuple[Address, float]]) -> None:
        now = self._now()
        messages: list[WaitMessage] = [
            Expire(address=address, turn_id=self._new_turn_id(), at=now) for address, _ in due
        ]
        try:
            replies = await self._send_many(messages)
        except TransientError as error:
            log.warning("timer.fire_failed", error=str(error), waits=len(due))
            replies = [_AGAIN] * len(due)
        except Exception:
            # On any error, fire again: a deadline that stays under way would never fire.
            log.exception("timer.fire_crashed", waits=len(due))
            replies = [_AGAIN] * len(due)
        for (address, due_at), reply in zip(due, replies, strict=True):
            self._firing.pop(address.key, None)
            if isinstance(reply, RefusedReply) and reply.is_transient:
                self._counts["retried"] += 1
                is_its_own = reply.kind is RefusalKind.FAILED
                self._heap.put(address, self._now() + (REFUSED_PAUSE if is_its_own else 0.2))
            else:
                self._record(now - due_at)

    def _record(self, skew: float) -> None:
        self._counts["fired"] += 1
        self._counts["skew_sum"] += skew
        self._counts["skew_max"] = max(self._counts["skew_max"], skew)


_AGAIN = RefusedReply(kind=RefusalKind.OVERLOADED, detail="no answer; fires again")
