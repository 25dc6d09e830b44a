"""The FastAPI app: made by a factory, so that it runs under Serve, under uvicorn and in tests."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cached_property, partial
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from actors.client import Gateway
from actors.runtime.actor import settle_memory
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
from serve_app.events import event_type_sync, event_types, events, schemas
from serve_app.gathers import gathers, journals, resources
from serve_app.http import openapi, problems
from serve_app.http.aliases import aliased
from serve_app.http.fast_path import Express, short_ways
from serve_app.http.raw_route import LeanRoute
from serve_app.kafka import dead_letters, kafka
from serve_app.limits.load_limiter import Gate
from serve_app.limits.middleware import Guard
from serve_app.operations import (
    docs,
    health,
    metrics,
    monitoring,
    monitoring_overview,
    pages,
    status,
    warnings,
)
from serve_app.waits import callbacks, inbox, stream, waits
from settings.ingress import IngressOptions
from telemetry.registry import Metrics

OpenGateway = Callable[[], Awaitable[Gateway]]

# Routes are tried in this order: the busiest first.
_ROUTERS = (
    callbacks.router,
    events.lean,
    waits.lean,
    waits.router,
    stream.router,
    journals.router,
    gathers.router,
    resources.router,
    events.router,
    event_types.router,
    event_type_sync.router,
    schemas.router,
    subscriptions.router,
    webhook_secrets.router,
    aliased(subscriptions.router, "/api/subscriptions", "/api/admin/subscriptions"),
    aliased(webhook_secrets.router, "/api/subscriptions", "/api/admin/subscriptions"),
    webhook_secrets.own,
    pools.router,
    aliased(pools.router, "/api/dispatch-pools", "/api/admin/dispatch-pools"),
    declarations.router,
    jobs.router,
    job_actions.router,
    aliased(jobs.router, "/api/dispatch-jobs", "/api/dispatch/jobs"),
    aliased(job_actions.router, "/api/dispatch-jobs", "/api/dispatch/jobs"),
    groups.router,
    monitoring.router,
    monitoring_overview.router,
    warnings.router,
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
    busy = [*callbacks.router.routes, *events.lean.routes]
    routes = [route for route in busy if isinstance(route, LeanRoute)]
    bound = partial(Guard, gate=app.gate, max_body=app.max_body, metrics=app.counters)
    return Express(app, short_ways(routes), bound)
