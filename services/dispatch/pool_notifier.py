"""Notifies dispatch pools of what operators have changed; no caller waits for it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import structlog

from core.dispatch.job import JobKey
from core.shared.errors import UnavailableError
from services.shared.group_commit import KeyedGroupCommit

log = structlog.get_logger("pool_notifier")

MAX_BATCH = 100_000

# A pool that cannot be notified finds the change by its next scan, a little later.
AskPool = Callable[..., Awaitable[Any]]


class PoolNotifier:
    """Notifies a pool once of all that changes while it still reads."""

    def __init__(self, ask: AskPool) -> None:
        self._ask = ask
        self._commits: KeyedGroupCommit[int, JobKey | None] = KeyedGroupCommit(
            self._notify, MAX_BATCH, MAX_BATCH
        )

    def notify(
        self, pools: Iterable[int], ended: Mapping[int, Iterable[JobKey]] | None = None
    ) -> None:
        """Have these pools read Postgres, and forget the jobs that ended."""
        for pool_no in pools:
            self._commits.add(pool_no, [None, *(ended or {}).get(pool_no, ())])

    async def close(self) -> None:
        await self._commits.close()

    async def _notify(self, pool_no: int, changes: list[JobKey | None]) -> None:
        ended = [key for key in changes if key is not None]
        try:
            if ended:
                await self._ask(pool_no, "let_go", ended)
            await self._ask(pool_no, "refresh")
        except UnavailableError:
            log.warning("pool_notifier.away", pool=pool_no)
        except Exception:  # the pool's next scan makes up for it
            log.exception("pool_notifier.failed", pool=pool_no)
