"""What to do while Postgres or another server is away: try again with growing pauses, or skip."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import structlog

from core.shared.backoff import backoff
from storage.postgres.error_class import SERVER_ERRORS

log = structlog.get_logger("process")

T = TypeVar("T")

# Work that ran this long before it failed had succeeded at first, so the pauses start anew.
RUNS_WELL_AFTER = 10.0


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long to wait after each failure: twice as long each time, up to `cap`, with jitter."""

    base: float = 0.05
    cap: float = 1.0
    chance: Callable[[], float] = random.random

    def seconds(self, attempt: int) -> float:
        return backoff(attempt, base=self.base, cap=self.cap, jitter=self.chance())


_PAUSES = Pauses()


async def pause(
    attempt: int,
    *,
    base: float = 0.05,
    cap: float = 1.0,
    chance: Callable[[], float] = random.random,
) -> None:
    """Sleep before attempt `attempt` + 1."""
    await asyncio.sleep(Pauses(base, cap, chance).seconds(attempt))


def log_outage(error: Exception, pause: float = 0.0, **about: object) -> None:
    log.warning("database.away", error=type(error).__name__, pause=round(pause, 2), **about)


@contextmanager
def skip_during_outage(who: str) -> Iterator[None]:
    """Log that Postgres is away instead of raising its errors: a later round makes up for it."""
    try:
        yield
    except SERVER_ERRORS as error:
        log_outage(error, who=who)


async def retrying(
    work: Callable[[], Awaitable[T]],
    *,
    errors: tuple[type[Exception], ...] = SERVER_ERRORS,
    failed: Callable[[Exception, float], object] = log_outage,
    pauses: Pauses = _PAUSES,
) -> T:
    """Run `work`, and try again after each of these errors.

    `failed` gets the error and the seconds of the pause that follows; it may raise to give up.
    """
    attempt = 0
    while True:
        began = time.monotonic()
        try:
            return await work()
        except errors as error:
            if time.monotonic() - began > RUNS_WELL_AFTER:
                attempt = 0
            seconds = pauses.seconds(attempt)
            failed(error, seconds)
        attempt += 1
        await asyncio.sleep(seconds)
