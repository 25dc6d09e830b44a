"""Fires deadlines: near ones are in memory, all are in Postgres, and none is missed.

The timer reads ahead by index, and shards send it deadlines nearer than it has read. A slow sweep
reads everything again since the watermark, the time up to which all deadlines were answered.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from actors.timers.deadline_heap import DeadlineHeap
from core.shared.address import Address
from core.shared.config import Config
from core.shared.errors import TransientError
from core.waits.messages import Expire, RefusalKind, RefusedReply, Reply, WaitMessage
from storage.waits.deadlines import DeadlineStore

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


@dataclass(eq=False, repr=False)
class Timer:
    """Fires each deadline once it has passed on the database's clock."""

    _config: Config
    _deadlines: DeadlineStore
    _send_many: Callable[[list[WaitMessage]], Awaitable[list[Reply]]]
    _now: Callable[[], float]
    _new_turn_id: Callable[[], str]
    _heap: DeadlineHeap = field(default_factory=DeadlineHeap)
    _firing: dict[bytes, float] = field(default_factory=dict)
    # The start time of each task, the oldest first.
    _tasks: dict[asyncio.Task[None], float] = field(default_factory=dict)
    _read_until: float = 0.0
    _counts: dict[str, float] = field(
        default_factory=lambda: {"fired": 0, "retried": 0, "skew_sum": 0.0, "skew_max": 0.0}
    )

    def arm(self, due: list[tuple[Address, float]]) -> None:
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
        except Exception as error:
            # On any error, fire again: a deadline that stays under way would never fire.
            bug = None if isinstance(error, TransientError) else error
            log.warning("timer.fire_failed", error=repr(error), waits=len(due), exc_info=bug)
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
