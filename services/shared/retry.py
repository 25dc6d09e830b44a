"""Repeats work that failed, with growing pauses."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from core.shared.backoff import backoff
from storage.postgres.error_class import SERVER_ERRORS

log = structlog.get_logger("process")

T = TypeVar("T")

AWAY_PAUSE = 0.2


async def pause(
    attempt: int,
    *,
    base: float = 0.05,
    cap: float = 1.0,
    chance: Callable[[], float] = random.random,
) -> None:
    """Sleep before attempt `attempt` + 1: twice as long each time, up to `cap`, with jitter."""
    await asyncio.sleep(backoff(attempt, base=base, cap=cap, jitter=chance()))


async def retry_while_away(work: Callable[[], Awaitable[T]], who: str = "") -> T:
    """Run `work`, and try again while Postgres is away."""
    while True:
        try:
            return await work()
        except SERVER_ERRORS as error:
            log.warning("process.database_away", actor=who, error=type(error).__name__)
            await asyncio.sleep(AWAY_PAUSE)
