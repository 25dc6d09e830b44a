"""The FastAPI app: made by a factory, so that it runs under Serve, under uvicorn and in tests."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cached_property, partial
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from actors.client import ActorClient
from actors.metrics import ACTOR_METRICS
from core.shared.config import Config
from serve_app.access import audit_log, keys, quotas
from serve_app.container import Replica
from serve_app.dispatch import (
    declarations,
    groups,
    job_actions,
    jobs,
    pools,
    sample_webhook,
    subscriptions,
    webhook_secrets,
)
from serve_app.events import event_types, events, schemas
from serve_app.gathers import gathers, journals, resources
from serve_app.http import openapi, problems
from serve_app.http.raw_route import FastPath, RawRoute, fast_routes
from serve_app.http.router import HttpRouter, alias_routes
from serve_app.kafka import dead_letters, kafka
from serve_app.limits.load_limiter import LoadLimiter
from serve_app.limits.middleware import LimitsMiddleware
from serve_app.operations import health, metrics, monitoring, pages, status, warnings
from serve_app.records import (
    collections,
    data_paths,
    expressions,
    record_batch,
    record_listings,
    records,
    templates,
)
from serve_app.triggers import idempotency
from serve_app.waits import callbacks, inbox, stream, waits
from services.shared.process import freeze_gc
from settings.ingress import IngressOptions
from telemetry.registry import Metrics

OpenClient = Callable[[], Awaitable[ActorClient]]

# Routes are tried in this order, so the busiest come first.
_ROUTERS: tuple[APIRouter | HttpRouter, ...] = (
    callbacks.router,
    events.router,
    waits.router,
    stream.router,
    journals.router,
    gathers.router,
    resources.router,
    event_types.router,
    event_types.sync_router,
    schemas.router,
    subscriptions.router,
    webhook_secrets.router,
    alias_routes(subscriptions.router, "/api/subscriptions", "/api/admin/subscriptions"),
    alias_routes(webhook_secrets.router, "/api/subscriptions", "/api/admin/subscriptions"),
    webhook_secrets.own_router,
    pools.router,
    alias_routes(pools.router, "/api/dispatch-pools", "/api/admin/dispatch-pools"),
    declarations.router,
    jobs.router,
    job_actions.router,
    alias_routes(jobs.router, "/api/dispatch-jobs", "/api/dispatch/jobs"),
    alias_routes(job_actions.router, "/api/dispatch-jobs", "/api/dispatch/jobs"),
    groups.router,
    data_paths.router,
    expressions.router,
    templates.router,
    idempotency.router,
    monitoring.router,
    warnings.router,
    sample_webhook.router,
    record_listings.router,
    record_batch.router,
    records.router,
    collections.router,
    inbox.router,
    dead_letters.router,
    kafka.router,
    keys.router,
    audit_log.router,
    status.router,
    quotas.router,
    health.router,
    metrics.router,
    pages.router,
)


class Api(FastAPI):
    """The FastAPI app with a generated OpenAPI document; `replica` is set while the app runs."""

    replica: Replica
    gate: LoadLimiter
    counters: Metrics
    max_body: int

    @property
    def api_routes(self) -> list[APIRoute]:
        """Return every route that is in the OpenAPI document."""
        return [r for r in self.routes if isinstance(r, APIRoute) and r.include_in_schema]

    def openapi(self) -> dict[str, Any]:
        return self._document

    @cached_property
    def _document(self) -> dict[str, Any]:
        return openapi.build(self, self.api_routes)


def create_app(
    open_client: OpenClient,
    config: Config,
    options: IngressOptions | None = None,
    replica_name: str = "ingress",
) -> Api:
    """Make the app. Its client is opened when the app starts, in the loop that serves requests."""
    limits = options or IngressOptions()
    gate, counters = LoadLimiter(limits), Metrics(replica_name, ACTOR_METRICS)

    @asynccontextmanager
    async def lifespan(app: Api) -> AsyncIterator[None]:
        app.replica = Replica(await open_client(), limits, gate, counters)
        await app.replica.start()
        freeze_gc()
        try:
            yield
        finally:
            await app.replica.close()

    app = Api(
        title="Muster",
        version=version("muster"),
        description="Gathers the events that belong together and acts once.",
        lifespan=lifespan,
        openapi_url=None,
        redirect_slashes=False,
        # Otherwise FastAPI looks for OpenTelemetry several times a request.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.gate, app.counters, app.max_body = gate, counters, config.max_body
    for router in _ROUTERS:
        # include_router would nest the routers and make the search for a route slower.
        app.router.routes.extend(router.routes)
    problems.install_handlers(app)
    app.add_middleware(LimitsMiddleware, gate=gate, max_body=config.max_body, metrics=counters)
    return app


def with_fast_path(app: Api) -> ASGIApp:
    """Wrap the app so that events skip the framework's layers; the same limits apply to them."""
    busy = [*callbacks.router.routes, *events.router.routes]
    routes = [route for route in busy if isinstance(route, RawRoute)]
    bound = partial(LimitsMiddleware, gate=app.gate, max_body=app.max_body, metrics=app.counters)
    return FastPath(app, fast_routes(routes), bound)
