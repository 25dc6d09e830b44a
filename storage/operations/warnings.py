"""Warnings: problems to look at, each stored once however often it happens."""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from storage.postgres.pool import Pool
from storage.postgres.queries import Q

MAX_MESSAGE_CHARS = 2_000
# Postgres text cannot contain NUL; a message may quote one.
_STORABLE = {0: "\ufffd"}


class Severity(StrEnum):
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


@dataclass(frozen=True, slots=True)
class NewWarning:
    """A warning to raise. The same `category` and `source` again is the same warning."""

    tenant: int
    category: str
    severity: Severity
    source: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningRow:
    warning_id: int
    category: str
    severity: Severity
    source: str
    message: str
    count: int
    first_at: float
    last_at: float
    acknowledged_at: float | None
    acknowledged_by: str | None

    @property
    def is_acknowledged(self) -> bool:
        return self.acknowledged_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningFilter:
    is_open: bool = False
    severity: Severity | None = None


async def warn(pool: Pool, new: NewWarning) -> int:
    """Raise a warning, or increment the count of the open one; return its id."""
    message = new.message.translate(_STORABLE)[:MAX_MESSAGE_CHARS]
    source = new.source.translate(_STORABLE)
    warning_id: int = await pool.fetchval(
        Q["raise_warning"], new.tenant, new.category, new.severity, source, message
    )
    return warning_id


async def page(
    pool: Pool, tenant: int, chosen: WarningFilter, before: int | None, limit: int
) -> list[WarningRow]:
    """Read the next warnings of a listing, newest first."""
    rows = await pool.fetch(
        Q["list_warnings"], tenant, chosen.is_open, chosen.severity, before, limit
    )
    return [msgspec.convert(dict(row), WarningRow) for row in rows]


async def count_recent(pool: Pool, tenant: int | None, within: float) -> dict[int, int]:
    """Count open warnings of the last `within` seconds by tenant."""
    rows = await pool.fetch(Q["count_recent_warnings"], tenant, within)
    return {row["tenant_id"]: row["warnings"] for row in rows}


async def count_open(pool: Pool, tenant: int) -> dict[str, int]:
    """Count a tenant's open warnings by severity."""
    rows = await pool.fetch(Q["count_open_warnings"], tenant)
    return {row["severity"]: row["warnings"] for row in rows}


async def acknowledge(pool: Pool, tenant: int, warning_id: int, by: str) -> WarningRow | None:
    row = await pool.fetchrow(Q["acknowledge_warning"], tenant, warning_id, by)
    return msgspec.convert(dict(row), WarningRow) if row else None


async def drop(pool: Pool, tenant: int, older_than: float | None = None) -> int:
    """Delete a tenant's warnings, or those that have not come for so many seconds; count them."""
    return len(await pool.fetch(Q["drop_warnings"], tenant, older_than))


async def acknowledge_old(pool: Pool, older_than: float) -> int:
    """Acknowledge warnings that have not come again for so many seconds; count them."""
    return len(await pool.fetch(Q["acknowledge_old_warnings"], older_than))


async def forget(pool: Pool, older_than: float) -> int:
    """Delete acknowledged warnings that have not come again since; count them."""
    return len(await pool.fetch(Q["forget_warnings"], older_than))
