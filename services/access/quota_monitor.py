"""Knows which tenants have used up their storage quota, from readings about once a second.

A check is free, so that every request can make one. A tenant may exceed its quota by what it stores
until writers have reported it and it has been read: about two seconds.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial

import structlog

from core.shared.config import Config
from core.shared.errors import QuotaExceededError
from core.shared.quotas import Quota, QuotaLimits, StoredKind, days_kept, exhausted_quota, limit_of
from services.shared.database import Database
from storage.access import usage
from storage.access.usage import UsageReading, UsageSums
from storage.postgres.pool import Pool

log = structlog.get_logger("quotas")

READ_INTERVAL = 1.0
MAX_TENANTS = 10_000
"""The maximum number of tenants whose usage is read: those that were checked lately."""
FORGET_AFTER = 60.0
READ_BEFORE_EVERY = 60.0
MAX_RETRY_AFTER = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSource:
    """Queries for the storage that tenants use."""

    read_today: Callable[[Sequence[int]], Awaitable[UsageReading]]
    read_before_today: Callable[[Sequence[int]], Awaitable[dict[int, UsageSums]]]


def usage_source(pool: Pool, config: Config) -> UsageSource:
    """Read usage from Postgres, for as many days as this configuration keeps data."""
    kept: Mapping[StoredKind, int] = days_kept(config.early_ttl, config.retention)
    return UsageSource(
        read_today=partial(usage.read_today, pool),
        read_before_today=lambda tenants: usage.read_before_today(pool, tenants, kept),
    )


class QuotaWatch:
    """Refuses requests of tenants whose storage quota is used up."""

    def __init__(
        self,
        limits: QuotaLimits,
        source: UsageSource,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._source = source
        self._monotonic = monotonic
        self._seen: set[int] = set()
        self._seen_before: set[int] = set()
        self._turned_at = monotonic()
        self._day: date | None = None
        self._before: dict[int, UsageSums] = {}
        self._before_at = float("-inf")
        self._exhausted: dict[int, tuple[Quota, int]] = {}
        self._retry_after = MAX_RETRY_AFTER
        self.refused: Counter[str] = Counter()
        """How many requests each quota has refused, by its name."""

    @property
    def exhausted(self) -> Mapping[int, tuple[Quota, int]]:
        """Return the tenants that may store nothing now, each with the quota and its limit."""
        return self._exhausted

    def watch(self, tenant: int) -> None:
        self._seen.add(tenant)

    def check(self, tenant: int) -> None:
        """Check that a tenant may store more.

        Raises:
            QuotaExceededError: The quota is used up.
        """
        self._seen.add(tenant)
        if self._exhausted:
            found = self._exhausted.get(tenant)
            if found is not None:
                self.refused[found[0].value] += 1
                raise QuotaExceededError(found[0].value, found[1], self._retry_after)

    async def refresh(self) -> None:
        tenants = self._recent_tenants()
        if not tenants:
            self._exhausted = {}
            return
        reading = await self._source.read_today(tenants)
        now = self._monotonic()
        is_old = now - self._before_at >= READ_BEFORE_EVERY or reading.today.day != self._day
        if is_old:
            self._before, self._before_at = {}, now
        unread = [tenant for tenant in tenants if tenant not in self._before]
        if unread:
            found = await self._source.read_before_today(unread)
            self._before |= {tenant: found.get(tenant, UsageSums()) for tenant in unread}
        self._day = reading.today.day
        self._retry_after = max(1, min(MAX_RETRY_AFTER, int(reading.today.seconds_left) + 1))
        self._judge(tenants, reading)

    def _judge(self, tenants: Sequence[int], reading: UsageReading) -> None:
        before, self._exhausted = self._exhausted, {}
        for tenant in tenants:
            today = reading.stored_today.get(tenant, UsageSums())
            used = usage.usage_of(today, self._before[tenant])
            found = exhausted_quota(used, self._limits, reading.own_quotas.get(tenant, {}))
            if found is not None:
                self._exhausted[tenant] = found
                if tenant not in before:
                    quota, limit = found
                    log.warning("quota.exhausted", tenant=tenant, quota=quota, limit=limit)

    def _recent_tenants(self) -> list[int]:
        now = self._monotonic()
        if now - self._turned_at >= FORGET_AFTER or len(self._seen) > MAX_TENANTS:
            self._seen_before, self._seen, self._turned_at = self._seen, set(), now
        return sorted(self._seen | self._seen_before)[:MAX_TENANTS]


class CountQuotas:
    """Refuses what would exceed a tenant's quota."""

    def __init__(
        self, database: Database, limits: QuotaLimits, refused: Counter[str] | None = None
    ) -> None:
        self._database = database
        self._limits = limits
        self._refused = Counter() if refused is None else refused

    async def check(self, tenant: int, quota: Quota, adding: int = 1) -> None:
        """Check that a tenant may have `adding` more.

        Raises:
            QuotaExceededError: The quota would be exceeded.
        """
        if adding <= 0:
            return
        own = await self._database.query(usage.own_quotas, tenant)
        limit = limit_of(quota, self._limits, own)
        if limit is None:
            return
        found = await self._database.query(usage.count, tenant, quota, limit)
        if found + adding > limit:
            self._refused[quota.value] += 1
            raise QuotaExceededError(quota.value, limit)

    async def check_declared(self, tenant: int, quota: Quota, codes: Sequence[str]) -> int:
        """Check that a tenant may have these codes; return how many of them are new."""
        known = await self._database.query(usage.count_known, tenant, quota, codes)
        adding = len(set(codes)) - known
        await self.check(tenant, quota, adding)
        return adding
