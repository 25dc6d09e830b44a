"""Quotas on the number of keys, types, subscriptions and so on, checked before one is created.

Concurrent requests may pass together, so a tenant can exceed a quota by a few.
"""

from collections import Counter
from collections.abc import Sequence

from core.shared.errors import QuotaExceededError
from core.shared.quotas import Quota, QuotaLimits, limit_of
from services.shared.database import Database
from storage.access import usage


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
