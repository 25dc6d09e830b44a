from typing import Any

import pytest

from serve_app.events import events
from serve_app.http.raw_route import FastPath, RawRoute, fast_routes
from serve_app.waits import callbacks

BUSY = [*callbacks.router.routes, *events.router.routes]
ROUTES = [route for route in BUSY if isinstance(route, RawRoute)]


async def _app(*_: Any) -> None:
    raise NotImplementedError


def way(method: str, path: str) -> str | None:
    express = FastPath(_app, fast_routes(ROUTES), lambda app: app)
    found = express.route_of({"type": "http", "method": method, "path": path})
    return None if found is None else f"{found[0].operation_id} {found[1]}"


def test_events_take_the_short_way() -> None:
    assert way("POST", "/api/internal/callbacks/bank") == "sendCallback {'service': 'bank'}"
    assert way("POST", "/api/internal/events/orders.v1") == "sendEvent {'topic': 'orders.v1'}"
    assert way("POST", "/api/events") == "createEvent {}"
    assert way("POST", "/api/events/batch") == "createEvents {}"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/internal/callbacks/bank"),
        ("OPTIONS", "/api/internal/callbacks/bank"),
        ("POST", "/api/internal/callbacks/"),
        ("POST", "/api/internal/callbacks"),
        ("POST", "/api/internal/callbacks/bank/batch"),
        ("POST", "/api/internal/callbacks/a/b"),
        ("POST", "/api/wait-states"),
        ("GET", "/api/events"),
        ("POST", "/api/events/"),
        ("POST", "/api/events/other"),
        ("POST", "/api/events/batch/more"),
        ("POST", "/"),
    ],
)
def test_everything_else_goes_through_the_app(method: str, path: str) -> None:
    assert way(method, path) is None


def test_what_is_no_request_goes_through_the_app() -> None:
    assert (
        FastPath(_app, fast_routes(ROUTES), lambda app: app).route_of({"type": "lifespan"}) is None
    )
