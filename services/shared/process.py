"""What every process needs: turn ids, a name, repeated work, the database's clock."""

import asyncio
import gc
import os
import socket
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from services.shared.retry import retry_while_away
from storage.postgres.clock import DatabaseClock
from storage.postgres.error_class import SERVER_ERRORS
from storage.postgres.pool import Pool

log = structlog.get_logger("process")

SYNC_EVERY = 5.0


class _TurnIdGenerator:
    """Creates random ids, and fetches the randomness for many at once.

    Each system call releases the interpreter's lock. Getting the lock back from Ray's threads took
    as long as the rest of finding an event's correlation.
    """

    SIZE, AHEAD = 16, 256

    def __init__(self) -> None:
        self._left: list[str] = []
        os.register_at_fork(after_in_child=self._left.clear)

    def __call__(self) -> str:
        """Make an id for a turn."""
        try:
            return self._left.pop()
        except IndexError:
            fresh = os.urandom(self.SIZE * self.AHEAD).hex()
            width = 2 * self.SIZE
            self._left.extend(fresh[at : at + width] for at in range(width, len(fresh), width))
            return fresh[:width]


new_turn_id = _TurnIdGenerator()


def owner_name(name: str) -> str:
    """Name this incarnation of an actor, as the owner of the rows that it writes."""
    return f"{name}@{socket.gethostname()}:{os.getpid()}"


def freeze_gc() -> None:
    """Exempt loaded objects from garbage collection, because they stay for good."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


async def repeat(name: str, seconds: float, work: Callable[[], Awaitable[object]]) -> None:
    """Run `work` for ever, with a pause after each round; a failed round is logged."""
    while True:
        try:
            await work()
        except SERVER_ERRORS as error:
            log.warning("process.database_away", actor=name, error=type(error).__name__)
        except Exception:
            log.exception("process.round_failed", actor=name)
        await asyncio.sleep(seconds)


async def sync_forever(name: str, clock: DatabaseClock, pool: Pool) -> None:
    """Follow the database's clock in a process that is not an actor."""
    await repeat(name, SYNC_EVERY, partial(clock.sync, pool))


async def sync_until_done(clock: DatabaseClock, pool: Pool) -> None:
    """Read the database's clock, which must be known before any decision."""
    while not clock.synced:
        await retry_while_away(partial(clock.sync, pool))
