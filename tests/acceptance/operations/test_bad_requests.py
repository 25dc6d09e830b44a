"""Parameters, paths and methods that lead nowhere, and what is not HTTP at all."""

import http.client
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, until

pytestmark = pytest.mark.usefixtures("never_a_500")

WAITS = "/api/wait-states"
CALLBACKS = "/api/internal/callbacks/external-service"


def _path(wait: dict[str, Any]) -> str:
    return f"{WAITS}/{wait['executionId']}/{wait['correlationId']}"


# Parameters


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (f"{WAITS}?cursor=zzz", "cursor"),
        (f"{WAITS}?cursor=", "cursor"),
        (f"{WAITS}?cursor=f_8AAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "cursor"),
        (f"{WAITS}?cursor={'A' * 5_000}", "cursor"),
        (f"{WAITS}?limit=0", "limit"),
        (f"{WAITS}?limit=501", "limit"),
        (f"{WAITS}?limit=-5", "limit"),
        (f"{WAITS}?limit=many", "limit"),
        (f"{WAITS}?limit=9999999999999999999999", "limit"),
        (f"{WAITS}?status=pending", "status"),
        (f"{WAITS}?strategy=some", "strategy"),
        (f"{WAITS}?olderThan=-1", "olderThan"),
        (f"{WAITS}?olderThan=inf", "olderThan"),
        (f"{WAITS}?olderThan=nan", "olderThan"),
        (f"{WAITS}?olderThan=1e300", "olderThan"),
        (f"{WAITS}?executionId=a%00b", "executionId"),
        (f"{WAITS}?order=asc", "order"),
        ("/api/inbox?cursor=abc", "cursor"),
        ("/api/resources?cursor=%00", "cursor"),
        ("/api/inbox?cursor=-1", "cursor"),
        ("/api/inbox?cursor=99999999999999999999", "cursor"),
        ("/api/inbox?limit=501", "limit"),
        ("/api/inbox?verdict=maybe", "verdict"),
        ("/api/inbox?reason=because", "reason"),
        ("/api/inbox?correlationId=%00", "correlationId"),
        ("/api/inbox/abc", "inboxId"),
        ("/api/inbox/0", "inboxId"),
        ("/api/inbox/-1", "inboxId"),
        ("/api/inbox/99999999999999999999", "inboxId"),
    ],
)
def test_a_bad_parameter_is_422_and_named(product: Product, path: str, field: str) -> None:
    assert faulty_fields(assert_problem(product.http.get(path), 422, "invalid")) == {field}


@pytest.mark.parametrize("wait", ["-1", "61", "inf", "nan", "long", "", "1e400"])
def test_a_bad_wait_is_422(product: Product, wait: str) -> None:
    reply = product.http.get(_path(product.register()), params={"wait": wait})
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {"wait"}


@pytest.mark.parametrize("last", ["-1", "two", "1.5", "", "99999999999", "0x1"])
def test_a_bad_last_event_id_is_422(product: Product, last: str) -> None:
    path = f"{_path(product.register())}/stream"
    by_header = product.http.get(path, headers={"Last-Event-ID": last})
    by_parameter = product.http.get(path, params={"lastEventId": last})
    assert faulty_fields(assert_problem(by_header, 422, "invalid")) == {"Last-Event-ID"}
    assert faulty_fields(assert_problem(by_parameter, 422, "invalid")) == {"lastEventId"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"permissions": ["waits:read"]}, "name"),
        ({"name": "", "permissions": ["waits:read"]}, "name"),
        ({"name": "a\x00", "permissions": ["waits:read"]}, "name"),
        ({"name": "n" * 101, "permissions": ["waits:read"]}, "name"),
        ({"name": "n", "permissions": []}, "permissions"),
        ({"name": "n", "permissions": "waits:read"}, "permissions"),
        ({"name": "n", "permissions": ["waits:fly"]}, "permissions[0]"),
        ({"name": "n", "permissions": ["waits:read"], "expiresInSeconds": 0}, "expiresInSeconds"),
        (
            {"name": "n", "permissions": ["waits:read"], "expiresInSeconds": 1e12},
            "expiresInSeconds",
        ),
        ({"name": "n", "permissions": ["waits:read"], "tenant": 2}, "tenant"),
    ],
    ids=str,
)
def test_a_bad_key_is_422(product: Product, body: dict[str, Any], field: str) -> None:
    problem = assert_problem(product.http.post("/api/keys", json=body), 422, "invalid")
    assert faulty_fields(problem) == {field}


# Routes


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", WAITS, "GET, POST"),
        ("DELETE", WAITS, "GET, POST"),
        ("PATCH", f"{WAITS}/e/c", "DELETE, GET"),
        ("POST", f"{WAITS}/e/c/stream", "GET"),
        ("GET", CALLBACKS, "POST"),
        ("GET", "/api/internal/events/t/batch", "POST"),
        ("PUT", "/api/inbox/1", "DELETE, GET"),
        ("GET", "/api/inbox/1/retry", "POST"),
        ("PATCH", "/api/keys", "GET, POST"),
        ("GET", "/api/keys/abc", "DELETE"),
        ("POST", "/api/status", "GET"),
        ("POST", "/metrics", "GET"),
        ("DELETE", "/actuator/health", "GET"),
        ("POST", "/docs", "GET"),
        ("OPTIONS", WAITS, "GET, POST"),
        ("TRACE", WAITS, "GET, POST"),
    ],
)
def test_another_method_is_405_and_told_which(
    product: Product, method: str, path: str, allowed: str
) -> None:
    reply = product.http.request(method, path)
    assert_problem(reply, 405, "method_not_allowed")
    assert reply.headers["Allow"] == allowed


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api",
        "/favicon.ico",
        f"{WAITS}/",
        f"{WAITS}/only-one-id",
        f"{WAITS}/e/c/unknown",
        f"{WAITS}//c",
        "/api/Wait-States",
        "/api/internal/callbacks",
        "/api/internal/callbacks/",
        "/actuator",
        "/actuator/env",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/api/wait-states%2Fe%2Fc",
        "/redoc",
    ],
)
def test_an_unknown_route_is_404(product: Product, path: str) -> None:
    for method in ("GET", "POST"):
        assert_problem(product.http.request(method, path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{WAITS}/nobody/nothing"),
        ("DELETE", f"{WAITS}/nobody/nothing"),
        ("GET", f"{WAITS}/nobody/nothing?wait=30"),
        ("GET", f"{WAITS}/nobody/nothing/stream"),
        ("GET", f"{WAITS}/nobody/nothing/log"),
        ("GET", f"{WAITS}/nobody/nothing/explain"),
        ("GET", "/api/inbox/9223372036854775807"),
        ("DELETE", "/api/inbox/9223372036854775807"),
        ("POST", "/api/inbox/9223372036854775807/retry"),
        ("DELETE", "/api/keys/0000"),
    ],
)
def test_what_does_not_exist_is_404(product: Product, method: str, path: str) -> None:
    assert_problem(product.http.request(method, path), 404, "not_found")


# What never reaches the application


@pytest.mark.parametrize(
    "lines",
    [
        ("hello",),
        (f"POST {WAITS} HTTP/1.1", "Content-Length: many"),
        (f"POST {WAITS} HTTP/1.1", "Content-Length: -1"),
        (f"GET {WAITS} HTTP/1.1", "X-Long: " + "x" * 100_000),
        (f"GET {WAITS}?cursor={'x' * 100_000} HTTP/1.1",),
        (f"GET {WAITS} HTTP/1.1", "X-Nul: a\x00b"),
        (f"GET {WAITS} HTTP/1.1", "no colon"),
    ],
    ids=lambda lines: lines[-1][:30],
)
def test_what_is_not_http_is_400_and_nothing_more(product: Product, lines: tuple[str, ...]) -> None:
    """HAProxy refuses it with a page of its own, which cannot be changed."""
    reply = _speak(product, *lines)
    assert reply.status_code == 400
    assert len(reply.text) < 200


def test_a_declared_length_is_refused_before_the_body_comes(product: Product) -> None:
    reply = _speak(product, f"POST {CALLBACKS} HTTP/1.1", "Content-Length: 999999999999")
    assert_problem(reply, 413, "too_large")


def _speak(product: Product, *lines: str) -> httpx.Response:
    """Say these lines to the port as they are."""
    address = urlsplit(product.url)
    told = (*lines, f"Authorization: Bearer {product.key}", "Host: muster")
    with socket.create_connection((address.hostname, address.port), timeout=60) as wire:
        wire.sendall("\r\n".join((*told, "", "")).encode("latin-1"))
        answer = http.client.HTTPResponse(wire)
        answer.begin()
        return httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())


def test_an_event_whose_sender_hangs_up_half_way_is_none_and_may_be_sent_again(
    product: Product,
) -> None:
    """That it is no failure of ours is for `never_a_500` to see."""
    wait, address = product.register(), urlsplit(product.url)
    head = (
        f"POST {CALLBACKS} HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Authorization: Bearer {product.key}\r\nContent-Type: application/json\r\n"
        f"X-Execution-Id: {wait['executionId']}\r\nX-Correlation-Id: {wait['correlationId']}\r\n"
        "X-Event-Id: again\r\nContent-Length: 100000\r\n\r\n"
    )
    half = b'{"half": "' + b"x" * 50_000  # more than HAProxy keeps to itself until the rest comes
    before = hang_ups(product)

    def is_counted() -> bool:
        with socket.create_connection((address.hostname, address.port), timeout=10) as sender:
            sender.sendall(head.encode() + half)
            time.sleep(0.2)  # one that never gets past HAProxy shows nothing
        return hang_ups(product) > before

    until("one of them is counted", is_counted)
    assert product.show(wait)["receivedEvents"] == []
    assert product.callback(wait, {"whole": True}, X_Event_Id="again")["verdict"] == "matched"


def hang_ups(product: Product) -> float:
    """How many callbacks ended before they were whole."""
    lines = product.http.get("/metrics").text.splitlines()
    told = [line for line in lines if 'callbacks/{service}",status="499"' in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in told)
