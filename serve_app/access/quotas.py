"""Quotas of the caller's tenant: what is used, and what it may use."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.shared.quotas import COUNTED, PER_DAY, Quota, days_kept, limit_of
from core.shared.timestamps import to_iso
from serve_app.access.quota_models import QuotaList
from serve_app.container import Replica
from serve_app.http.json_io import json_response
from serve_app.http.openapi import describe_responses
from serve_app.http.permissions import caller_of, replica_of, requires
from storage.access import usage
from storage.access.usage import UsageReading, UsageSums

router = APIRouter(tags=["operations"])

COUNT_TO = 1_000_000


@router.get(
    "/api/quotas",
    dependencies=[requires(Permission.METRICS_READ)],
    operation_id="listQuotas",
    responses=describe_responses({200: QuotaList}),
)
async def list_quotas(request: Request) -> Response:
    """List the tenant's quotas: how much is used, how much there is, when it begins anew."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    database, config = replica.database, replica.config
    reading = await database.query(usage.read_today, [tenant])
    kept = days_kept(config.early_ttl, config.retention)
    before = await database.query(usage.read_before_today, [tenant], kept)
    stored = usage.usage_of(
        reading.stored_today.get(tenant, UsageSums()), before.get(tenant, UsageSums())
    )
    used = {quota: stored.of(quota) for quota in Quota if quota not in COUNTED}
    for quota in COUNTED:
        used[quota] = await database.query(usage.count, tenant, quota, COUNT_TO)
    own = reading.own_quotas.get(tenant, {})
    return json_response({"items": [_item(replica, quota, used, own, reading) for quota in Quota]})


def _item(
    replica: Replica,
    quota: Quota,
    used: Mapping[Quota, int],
    own: Mapping[str, int],
    reading: UsageReading,
) -> dict[str, Any]:
    ends = replica.client.clock.now() + reading.today.seconds_left
    document = {
        "name": quota.value,
        "used": used[quota],
        "limit": limit_of(quota, replica.config.quotas, own),
        "own": quota.value in own,
    }
    return document | {"resetsAt": to_iso(round(ends))} if quota in PER_DAY else document
