"""The short way for events: past the layers that only other routes need.

A callback's own work is a fifth of what the replica spends on it; of the rest, FastAPI's and
Starlette's layers are what can be left out. The route is the same object that stands in the app, so
permissions, documents and metrics are too.
"""

from collections.abc import Callable

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from serve_app.http.raw_route import RawRoute


class FastPath:
    """Sends `POST PREFIX/name`, or `POST PATH`, straight to its route; all else to the app."""

    def __init__(
        self,
        app: ASGIApp,
        routes: dict[str, tuple[str, RawRoute]],
        bound: Callable[[ASGIApp], ASGIApp],
    ) -> None:
        self._app = app
        self._routes = routes
        self._bounded = bound(_run)

    def route_of(self, scope: Scope) -> tuple[RawRoute, dict[str, str]] | None:
        """The route and its path parameter, if this request can take the short way."""
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
        """Handle one request."""
        found = self.route_of(scope)
        if found is None:
            await self._app(scope, receive, send)
        else:
            scope["app"] = self._app
            scope["route"], scope["path_params"] = found
            await self._bounded(scope, receive, send)


async def _run(scope: Scope, receive: Receive, send: Send) -> None:
    response = await scope["route"].call(Request(scope, receive, send))
    await response(scope, receive, send)


def fast_routes(routes: list[RawRoute]) -> dict[str, tuple[str, RawRoute]]:
    """Routes without a parameter by their path; others by what stands before their only one."""
    ways = {}
    for route in routes:
        prefix, _, last = route.path.rpartition("/")
        if "{" in prefix or route.methods != {"POST"}:
            continue
        if last.startswith("{"):
            ways[prefix] = (last.strip("{}"), route)
        else:
            ways[route.path] = ("", route)
    return ways
