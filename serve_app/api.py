"""The FastAPI app: made by a factory, so that it runs under Serve, under uvicorn and in tests."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cached_property, partial
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from actors.gateway import Gateway
from actors.process import settle_memory
from core.config import Config
from serve_app import openapi, problems
from serve_app.aliases import aliased
from serve_app.express import Express, short_ways
from serve_app.gate import Gate
from serve_app.lean import LeanRoute
from serve_app.limits import Guard
from serve_app.options import IngressOptions
from serve_app.replica import Replica
from serve_app.routes import (
    aggregate,
    audit_log,
    cloud_events,
    dead_letters,
    declarations,
    dispatch_groups,
    dispatch_jobs,
    dispatch_pools,
    dispatch_verbs,
    docs,
    event_type_sync,
    event_types,
    events,
    gathers,
    health,
    inbox,
    kafka,
    keys,
    metrics,
    monitoring,
    monitoring_overview,
    monitoring_warnings,
    pages,
    quotas,
    resources,
    sample_webhook,
    schemas,
    status,
    stream,
    subscriptions,
    waits,
    webhook_secrets,
)
from telemetry.metrics import Metrics

OpenGateway = Callable[[], Awaitable[Gateway]]

# Routes are tried in this order: the busiest first.
_ROUTERS = (
    events.router,
    cloud_events.lean,
    waits.lean,
    waits.router,
    stream.router,
    aggregate.router,
    gathers.router,
    resources.router,
    cloud_events.router,
    event_types.router,
    event_type_sync.router,
    schemas.router,
    subscriptions.router,
    webhook_secrets.router,
    aliased(subscriptions.router, "/api/subscriptions", "/api/admin/subscriptions"),
    aliased(webhook_secrets.router, "/api/subscriptions", "/api/admin/subscriptions"),
    webhook_secrets.own,
    dispatch_pools.router,
    aliased(dispatch_pools.router, "/api/dispatch-pools", "/api/admin/dispatch-pools"),
    declarations.router,
    dispatch_jobs.router,
    dispatch_verbs.router,
    aliased(dispatch_jobs.router, "/api/dispatch-jobs", "/api/dispatch/jobs"),
    aliased(dispatch_verbs.router, "/api/dispatch-jobs", "/api/dispatch/jobs"),
    dispatch_groups.router,
    monitoring.router,
    monitoring_overview.router,
    monitoring_warnings.router,
    sample_webhook.router,
    inbox.router,
    dead_letters.lean,
    dead_letters.router,
    kafka.router,
    keys.lean,
    keys.router,
    audit_log.router,
    status.router,
    quotas.router,
    health.router,
    metrics.router,
    docs.router,
    pages.router,
)


class Api(FastAPI):
    """The app with its own OpenAPI document. It has its replica from start to stop."""

    replica: Replica
    gate: Gate
    counters: Metrics
    max_body: int

    @property
    def api_routes(self) -> list[APIRoute]:
        """Every route that takes part in the document."""
        return [r for r in self.routes if isinstance(r, APIRoute) and r.include_in_schema]

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, built once."""
        return self._document

    @cached_property
    def _document(self) -> dict[str, Any]:
        return openapi.build(self, self.api_routes)


def create_app(
    open_gateway: OpenGateway,
    config: Config,
    options: IngressOptions | None = None,
    replica_name: str = "ingress",
) -> Api:
    """Make the app. The gateway is opened when the app starts, in the loop that serves requests."""
    limits = options or IngressOptions()
    gate, counters = Gate(limits), Metrics(replica_name)

    @asynccontextmanager
    async def lifespan(app: Api) -> AsyncIterator[None]:
        app.replica = Replica(await open_gateway(), limits, gate, counters)
        await app.replica.start()
        settle_memory()
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
        # Else FastAPI asks the environment for OpenTelemetry, several times a request.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.gate, app.counters, app.max_body = gate, counters, config.max_body
    for router in _ROUTERS:
        # Not include_router: that nests the routers, and each request then pays for the search.
        app.router.routes.extend(router.routes)
    problems.install(app)
    app.add_middleware(Guard, gate=gate, max_body=config.max_body, metrics=counters)
    return app


def express(app: Api) -> ASGIApp:
    """The app as a replica serves it: events go the short way, within the same bounds."""
    busy = [*events.router.routes, *cloud_events.lean.routes]
    routes = [route for route in busy if isinstance(route, LeanRoute)]
    bound = partial(Guard, gate=app.gate, max_body=app.max_body, metrics=app.counters)
    return Express(app, short_ways(routes), bound)
