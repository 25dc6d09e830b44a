"""Tells pools what people have changed, without anybody waiting for it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import structlog

from core.dispatch.job import JobKey
from core.shared.errors import UnavailableError

log = structlog.get_logger("pool_bell")

# A pool that does not hear it looks by itself, a little later.
AskPool = Callable[..., Awaitable[Any]]


class PoolNotifier:
    """Rings once for all that happens while a pool still looks."""

    def __init__(self, ask: AskPool) -> None:
        self._ask = ask
        self._again: set[int] = set()
        self._ended: dict[int, list[JobKey]] = {}
        self._notifying: dict[int, asyncio.Task[None]] = {}

    def notify(
        self, pools: Iterable[int], ended: Mapping[int, Iterable[JobKey]] | None = None
    ) -> None:
        """Something changed in these pools; of jobs that ended they are told which."""
        for pool_no, keys in (ended or {}).items():
            self._ended.setdefault(pool_no, []).extend(keys)
        for pool_no in pools:
            if pool_no in self._notifying:
                self._again.add(pool_no)
            else:
                self._notifying[pool_no] = asyncio.create_task(self._notify(pool_no))

    async def close(self) -> None:
        """Ring no more."""
        tasks = list(self._notifying.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _notify(self, pool_no: int) -> None:
        try:
            while True:
                self._again.discard(pool_no)
                await self._send(pool_no)
                if pool_no not in self._again:
                    return
        finally:
            self._again.discard(pool_no)
            self._ended.pop(pool_no, None)
            del self._notifying[pool_no]

    async def _send(self, pool_no: int) -> None:
        ended = self._ended.pop(pool_no, None)
        try:
            if ended:
                await self._ask(pool_no, "let_go", ended)
            await self._ask(pool_no, "refresh")
        except UnavailableError:
            log.warning("pool_bell.away", pool=pool_no)
        except Exception:  # whatever it was, the pool's next look makes up for it
            log.exception("pool_bell.failed", pool=pool_no)
