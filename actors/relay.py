"""The outbox, published: in the order it was written, removed when the broker has it.

A crash between the two publishes a row again, under the same event id.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from core.completion import Completion
from storage.outbox import OutgoingRow

log = structlog.get_logger("relay")

BATCH = 500
IDLE = 0.1


class Outbox(Protocol):
    """Postgres as the relay sees it."""

    async def upcoming(self, limit: int) -> list[OutgoingRow]:
        """The next rows, in the order they were written."""
        ...

    async def completions(self, rows: Sequence[OutgoingRow]) -> list[Completion | None]:
        """The events these rows stand for; None where the wait is gone."""
        ...

    async def confirm(self, outbox_ids: Sequence[int]) -> None:
        """The broker has these."""
        ...


class Publish(Protocol):
    """Kafka as the relay sees it."""

    async def __call__(self, completion: Completion) -> Awaitable[object]:
        """Hand an event over; what is returned ends when the broker has it."""
        ...


@dataclass(slots=True)
class RelayTally:
    """What the relay counts."""

    published: int = 0
    batches: int = 0
    failures: int = 0
    vanished: int = 0


class Relay:
    """Publishes batch after batch."""

    def __init__(
        self, outbox: Outbox, publish: Publish, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._outbox = outbox
        self._publish = publish
        self._sleep = sleep
        self.tally = RelayTally()

    async def run_forever(self) -> None:
        """Publish what there is, then look again soon."""
        while True:
            if not await self.publish_some():
                await self._sleep(IDLE)

    async def publish_some(self) -> int:
        """Publish one batch; how many rows left the outbox.

        Of each key only what comes before its first failure is confirmed: the rest goes again,
        in its order.
        """
        rows = await self._outbox.upcoming(BATCH)
        if not rows:
            return 0
        found = await self._outbox.completions(rows)
        # One after the other, so that each key keeps its order; the broker confirms them together.
        handed = [await self._publish(one) if one else asyncio.sleep(0) for one in found]
        results = await asyncio.gather(*handed, return_exceptions=True)
        done = self._confirmed(rows, found, results)
        if done:
            await self._outbox.confirm(done)
        return len(done)

    def _confirmed(
        self,
        rows: list[OutgoingRow],
        found: list[Completion | None],
        results: list[object],
    ) -> list[int]:
        done: list[int] = []
        failed: set[tuple[str, str]] = set()
        for row, completion, result in zip(rows, found, results, strict=True):
            key = (row.topic, row.record_key)
            if isinstance(result, BaseException):
                self.tally.failures += 1
                failed.add(key)
                log.warning("relay.not_published", topic=row.topic, error=repr(result))
            elif key not in failed:
                done.append(row.outbox_id)
                self.tally.published += completion is not None
                self.tally.vanished += completion is None
        self.tally.batches += 1
        return done
