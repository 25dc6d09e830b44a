"""The state of the actors and how much they have to do."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.dispatch.job import ANCHOR
from serve_app.cluster_stats import Report
from serve_app.dispatch.status import DISPATCH_KIND
from serve_app.http.json_io import json_response
from serve_app.http.openapi import describe_responses
from serve_app.http.permissions import caller_of, replica_of, requires
from serve_app.operations.models import StatusView

router = APIRouter(tags=["operations"])

# These name topics, resources and pools of other tenants. GET /api/kafka, /metrics and
# /monitoring show each tenant its part.
_PRIVATE = frozenset({"partitions", "following", "gathers", "resources", "code", "tenant"})
# Of a shared pool, only these fields are shown: its condition, but not its throughput.
_SHARED = frozenset({"pool_no", "status", "behind", "active", "concurrency"})
_SUMS = ("hot", "pending", "registered", "matched", "buffered", "duplicate", "late", "rejected")


@router.get(
    "/api/status",
    dependencies=[requires(Permission.METRICS_READ)],
    operation_id="showStatus",
    responses=describe_responses({200: StatusView}),
)
async def show_status(request: Request) -> Response:
    """Show the actors, their state and how much work waits for them."""
    replica = replica_of(request)
    report = await replica.cluster_stats.report()
    flushes = sum(_stat(actor, "flushes") for actor in report["actors"])
    tenant = caller_of(request).tenant
    return json_response(status_document(report, replica.flush_rate.update(flushes), tenant))


def status_document(report: Report, flushes_per_second: float, tenant: int) -> dict[str, Any]:
    """Render what a tenant may see of the supervisor's report, with sums over all shards."""
    totals = {name: sum(_stat(actor, name) for actor in report["actors"]) for name in _SUMS}
    return {
        "placement": report["placement"],
        "actors": [_actor(actor, tenant) for actor in report["actors"]],
        "totals": {**totals, "flushesPerSecond": round(flushes_per_second, 2)},
    }


def _actor(actor: Report, tenant: int) -> dict[str, Any]:
    shown = ("name", "kind", "alive", "pid", "node", "restarts", "uptime")
    document = {name: actor[name] for name in shown if name in actor}
    if "stats" in actor:
        stats = (
            _pool_stats(actor["stats"], tenant)
            if actor.get("kind") == DISPATCH_KIND
            else actor["stats"]
        )
        document["stats"] = {name: value for name, value in stats.items() if name not in _PRIVATE}
    return document


def _pool_stats(stats: Report, tenant: int) -> Report:
    """Return all stats of the tenant's pool, the condition of a shared one, none of others."""
    match stats.get("tenant"):
        case owner if owner == tenant:
            return stats
        case owner if owner == ANCHOR:
            return {name: value for name, value in stats.items() if name in _SHARED}
        case _:
            return {}


def _stat(actor: Report, name: str) -> int:
    is_shard = actor.get("kind") == "shard"
    return int((actor.get("stats") or {}).get(name, 0)) if is_shard else 0
