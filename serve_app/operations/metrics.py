"""Metrics for Prometheus."""

from dataclasses import replace

from starlette.responses import Response

from core.access.permissions import Permission
from serve_app.http.router import Context, HttpRouter
from telemetry.registry import CONTENT_TYPE

router = HttpRouter("/metrics", tag="operations", reads=Permission.METRICS_READ)

_TEXT = {
    "description": "Prometheus text format.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


@router.get(response_class=Response, responses={200: _TEXT})
async def scrape_metrics(context: Context) -> Response:
    """Return the metrics in Prometheus' text format."""
    replica, tenant = context.replica, context.tenant
    snapshot = replace(await replica.cluster_stats.snapshot(), tenant=tenant)
    snapshot = await replica.kafka.extend_snapshot(snapshot, tenant)
    snapshot = await replica.dispatch.extend_snapshot(snapshot, tenant)
    gate = replica.gate
    page = replica.metrics.render(snapshot, requests=gate.requests, streams=gate.streams)
    return Response(page, headers={"Content-Type": CONTENT_TYPE})
