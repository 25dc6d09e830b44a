"""Warns about growing backlogs and blocked groups of deliveries."""

from core.dispatch.health import LARGE_BACKLOG, BacklogTrend
from storage.dispatch import stats
from storage.dispatch.stats import BacklogRow
from storage.operations import warnings
from storage.operations.warnings import NewWarning, Severity
from storage.postgres.pool import Pool

CHECK_INTERVAL = 30.0
# Enough to see that there are too many, and how fast they grow.
MAX_COUNTED_JOBS = 20_000
MAX_FAILED_JOBS = 10_000


class BacklogMonitor:
    """Remembers only the last sizes; after a restart it notices growth a little later."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._backlogs: dict[tuple[int, int], BacklogTrend] = {}

    async def check(self) -> int:
        """Check all pools and groups; return how many warnings were written."""
        found = [*await self._crowded(), *await self._blocked()]
        for warning in found:
            await warnings.warn(self._pool, warning)
        return len(found)

    async def _crowded(self) -> list[NewWarning]:
        backlogs = await stats.backlogs(self._pool, MAX_COUNTED_JOBS)
        rows = {(row.pool_no, row.tenant): row for row in backlogs}
        self._backlogs = {key: self._backlogs.get(key) or BacklogTrend() for key in rows}
        found: list[NewWarning] = []
        for key, row in rows.items():
            is_large, grown = self._backlogs[key].observe(row.jobs)
            if is_large:
                many = f"at least {row.jobs}" if row.jobs >= MAX_COUNTED_JOBS else str(row.jobs)
                message = f"{many} jobs wait in pool {row.code}, more than {LARGE_BACKLOG}"
                found.append(_warning(row, "QUEUE_BACKLOG", message))
            if grown is not None:
                message = f"{grown} more jobs wait in pool {row.code} than 90 seconds ago"
                found.append(_warning(row, "QUEUE_GROWING", message))
        return found

    async def _blocked(self) -> list[NewWarning]:
        found: list[NewWarning] = []
        for row in await stats.blocked(self._pool, MAX_FAILED_JOBS):
            held = f"{row.groups} group(s) of pool {row.code}, among them {row.example[:200]}"
            message = f"a failed job holds {held}"
            new = NewWarning(row.tenant, "GROUP_BLOCKED", Severity.ERROR, row.code, message)
            found.append(new)
        return found


def _warning(row: BacklogRow, category: str, message: str) -> NewWarning:
    return NewWarning(row.tenant, category, Severity.WARNING, row.code, message)
