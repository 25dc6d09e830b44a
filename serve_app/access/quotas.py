"""Quotas of the caller's tenant: what the tenant uses, and how much it may use."""

from pydantic import Field

from core.access.permissions import Permission
from core.shared.quotas import COUNTED, PER_DAY, Quota, days_kept, limit_of
from serve_app.http.fields import IsoTime, optional
from serve_app.http.models import View
from serve_app.http.page import Page
from serve_app.http.router import Context, HttpRouter
from storage.access import usage
from storage.access.usage import UsageSums

COUNT_TO = 1_000_000

router = HttpRouter("/api/quotas", tag="operations")


class QuotaView(View):
    """How much of one quota is used. Stored rows are counted about once a second."""

    name: Quota
    used: int
    limit: int | None = Field(None, description="Null: there is none.")
    own: bool = Field(description="Whether this limit is the tenant's own, not that of all.")
    resets_at: IsoTime | None = optional(
        "When it begins anew; left out where it frees as things go."
    )


@router.get(needs=Permission.METRICS_READ)
async def list_quotas(context: Context) -> Page[QuotaView]:
    """List the tenant's quotas: how much is used, the limit, and when the quota resets."""
    tenant, config, database = context.tenant, context.replica.config, context.replica.database
    reading = await database.query(usage.read_today, [tenant])
    kept = days_kept(config.early_ttl, config.retention)
    before = await database.query(usage.read_before_today, [tenant], kept)
    stored = usage.usage_of(
        reading.stored_today.get(tenant, UsageSums()), before.get(tenant, UsageSums())
    )
    used = {quota: stored.of(quota) for quota in Quota if quota not in COUNTED}
    for quota in COUNTED:
        used[quota] = await context.read(usage.count, quota, COUNT_TO)
    own = reading.own_quotas.get(tenant, {})
    day_ends = round(context.replica.client.clock.now() + reading.today.seconds_left)
    return Page[QuotaView].of_all(
        [
            {
                "name": quota,
                "used": used[quota],
                "limit": limit_of(quota, config.quotas, own),
                "own": quota.value in own,
                "resets_at": day_ends if quota in PER_DAY else None,
            }
            for quota in Quota
        ]
    )
