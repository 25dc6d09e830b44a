"""Routes for hot paths, and a dispatcher that skips FastAPI's and Starlette's layers.

FastAPI's parameter handling costs more than all the rest of a callback (110 against 50 µs), so an
endpoint here gets only the request. The app has the same route object: permissions, metrics and
the OpenAPI document (through `openapi_extra`) apply to it.
"""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import request_response
from starlette.types import ASGIApp, Receive, Scope, Send

Endpoint = Callable[[Request], Awaitable[Response]]
Check = Callable[[Request], Awaitable[None]]


class RawRoute(APIRoute):
    """Runs its dependencies, whose only parameter is the request, then its endpoint."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        checks = [cast("Check", dependency.dependency) for dependency in self.dependencies]
        call = cast("Endpoint", endpoint)

        async def handle(request: Request) -> Response:
            for check in checks:
                await check(request)
            return await call(request)

        self.call = handle
        self.app = request_response(handle)


class FastPath:
    """Sends `POST PREFIX/name` or `POST PATH` straight to its route, other requests to the app."""

    def __init__(
        self,
        app: ASGIApp,
        routes: dict[str, tuple[str, RawRoute]],
        with_limits: Callable[[ASGIApp], ASGIApp],
    ) -> None:
        self._app = app
        self._routes = routes
        self._limited = with_limits(_run)

    def route_of(self, scope: Scope) -> tuple[RawRoute, dict[str, str]] | None:
        """Return the route and its path parameter; None if the request must go to the app."""
        if scope["type"] != "http" or scope["method"] != "POST":
            return None
        found = self._routes.get(scope["path"])
        if found is not None and not found[0]:
            return found[1], {}
        prefix, _, name = scope["path"].rpartition("/")
        found = self._routes.get(prefix)
        if found is None or not found[0] or not name:
            return None
        return found[1], {found[0]: name}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self.route_of(scope)
        if found is None:
            await self._app(scope, receive, send)
        else:
            scope["app"] = self._app
            scope["route"], scope["path_params"] = found
            await self._limited(scope, receive, send)


async def _run(scope: Scope, receive: Receive, send: Send) -> None:
    response = await scope["route"].call(Request(scope, receive, send))
    await response(scope, receive, send)


def fast_routes(routes: list[RawRoute]) -> dict[str, tuple[str, RawRoute]]:
    """Map routes without a parameter by their path, others by the prefix of their only one."""
    fast: dict[str, tuple[str, RawRoute]] = {}
    for route in routes:
        prefix, _, last = route.path.rpartition("/")
        if "{" in prefix or route.methods != {"POST"}:
            continue
        if last.startswith("{"):
            fast[prefix] = (last.strip("{}"), route)
        else:
            fast[route.path] = ("", route)
    return fast
