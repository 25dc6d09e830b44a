"""The actors and how much they have to do."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from core.permissions import Permission
from serve_app.census import Report
from serve_app.documents import answer
from serve_app.guards import replica_of, requires
from serve_app.openapi import described
from serve_app.wire.admin import StatusView

router = APIRouter(tags=["operations"])

# They name topics, resources and pools, which are their tenants' own: GET /api/kafka, /metrics and
# /monitoring show each tenant its part.
_PRIVATE = frozenset({"partitions", "following", "gathers", "resources", "code", "tenant"})
_SUMS = ("hot", "pending", "registered", "matched", "buffered", "duplicate", "late", "rejected")


@router.get(
    "/api/status",
    dependencies=[requires(Permission.METRICS_READ)],
    operation_id="showStatus",
    responses=described({200: StatusView}),
)
async def show_status(request: Request) -> Response:
    """Show the actors, what they hold and what waits for them."""
    replica = replica_of(request)
    report = await replica.census.report()
    flushes = sum(_stat(actor, "flushes") for actor in report["actors"])
    return answer(status_document(report, replica.flush_rate.look(flushes)))


def status_document(report: Report, flushes_per_second: float) -> dict[str, Any]:
    """The supervisor's report, with sums over all shards."""
    totals = {name: sum(_stat(actor, name) for actor in report["actors"]) for name in _SUMS}
    return {
        "placement": report["placement"],
        "actors": [_actor(actor) for actor in report["actors"]],
        "totals": {**totals, "flushesPerSecond": round(flushes_per_second, 2)},
    }


def _actor(actor: Report) -> dict[str, Any]:
    shown = ("name", "kind", "alive", "pid", "node", "restarts", "uptime")
    document = {name: actor[name] for name in shown if name in actor}
    if "stats" in actor:
        stats = actor["stats"].items()
        document["stats"] = {name: value for name, value in stats if name not in _PRIVATE}
    return document


def _stat(actor: Report, name: str) -> int:
    is_shard = actor.get("kind") == "shard"
    return int((actor.get("stats") or {}).get(name, 0)) if is_shard else 0
