"""Looks after deliveries that do not get on, and says so before anybody asks."""

from core.dispatch.health import BACKLOG, Backlog
from storage.dispatch import stats
from storage.dispatch.stats import BacklogRow
from storage.operations import warnings
from storage.operations.warnings import NewWarning, Severity
from storage.postgres.pool import Pool

EVERY = 30.0
# Enough to see that it is too much, and by how much it grows.
COUNT_TO = 20_000
ERRORS = 10_000


class DispatchWatch:
    """Remembers no more than the last sizes: after a restart it sees growth a little later."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._backlogs: dict[tuple[int, int], Backlog] = {}

    async def check(self) -> int:
        """One look at everything; how many warnings it led to."""
        found = [*await self._crowded(), *await self._blocked()]
        for warning in found:
            await warnings.warn(self._pool, warning)
        return len(found)

    async def _crowded(self) -> list[NewWarning]:
        rows = {
            (row.pool_no, row.tenant): row for row in await stats.backlogs(self._pool, COUNT_TO)
        }
        self._backlogs = {key: self._backlogs.get(key) or Backlog() for key in rows}
        found: list[NewWarning] = []
        for key, row in rows.items():
            is_large, grown = self._backlogs[key].look(row.jobs)
            if is_large:
                message = f"{_many(row.jobs)} jobs wait in pool {row.code}, more than {BACKLOG}"
                found.append(_warning(row, "QUEUE_BACKLOG", message))
            if grown is not None:
                message = f"{grown} more jobs wait in pool {row.code} than 90 seconds ago"
                found.append(_warning(row, "QUEUE_GROWING", message))
        return found

    async def _blocked(self) -> list[NewWarning]:
        return [
            NewWarning(
                tenant=row.tenant,
                category="GROUP_BLOCKED",
                severity=Severity.ERROR,
                source=row.code,
                message=f"a failed job holds {row.groups} group(s) of pool {row.code}, among them "
                f"{row.example[:200]}",
            )
            for row in await stats.blocked(self._pool, ERRORS)
        ]


def _warning(row: BacklogRow, category: str, message: str) -> NewWarning:
    return NewWarning(
        tenant=row.tenant,
        category=category,
        severity=Severity.WARNING,
        source=row.code,
        message=message,
    )


def _many(jobs: int) -> str:
    return f"at least {jobs}" if jobs >= COUNT_TO else str(jobs)
