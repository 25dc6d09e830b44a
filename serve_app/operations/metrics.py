"""Metrics for Prometheus."""

from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import Response

from core.access.permissions import Permission
from serve_app.http.permissions import caller_of, replica_of, requires
from telemetry.registry import CONTENT_TYPE

router = APIRouter(tags=["operations"])


@router.get(
    "/metrics",
    dependencies=[requires(Permission.METRICS_READ)],
    operation_id="scrapeMetrics",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    },
)
async def scrape_metrics(request: Request) -> Response:
    """Return the metrics in Prometheus' text format."""
    replica = replica_of(request)
    tenant = caller_of(request).tenant
    snapshot = replace(await replica.cluster_stats.snapshot(), tenant=tenant)
    snapshot = await replica.kafka.extend_snapshot(snapshot, tenant)
    snapshot = await replica.dispatch.extend_snapshot(snapshot, tenant)
    gate = replica.gate
    page = replica.metrics.render(snapshot, requests=gate.requests, streams=gate.streams)
    return Response(page, headers={"Content-Type": CONTENT_TYPE})
