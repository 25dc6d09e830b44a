"""Past every bound: 429 with Retry-After for some, answers for the others, and no trace after."""

import contextlib
import http.client
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from host.paths import instance_paths
from host.processes import find_processes_in
from tests.support.problem import assert_problem
from tests.support.product import Product, new_id, running_product, until

CALLBACKS = "/api/internal/callbacks/external-service"
# What one tenant may have: half of what is set.
REQUESTS, STREAMS, PENDING = 4, 2, 8
BODY, BODIES = 65_536, 131_072
LARGE = 20_000  # more than HAProxy holds back, so that the replica has it under way
PATIENCE = 4
CALLS = 4


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """An instance with narrow bounds."""
    with running_product(
        tmp_path_factory.mktemp("small") / ".muster",
        "--shards",
        "1",
        request_limit=str(2 * REQUESTS),
        stream_limit=str(2 * STREAMS),
        pending_limit=str(PENDING),
        max_body=str(BODY),
        body_budget=str(2 * BODIES),
        request_timeout=str(PATIENCE),
        call_queue=str(CALLS),
    ) as running:
        yield running


class Slow:
    """A callback whose body comes but for the end, and that when the test wants it to."""

    def __init__(self, product: Product, size: int = LARGE) -> None:
        address = urlsplit(product.url)
        self.ids = {"executionId": new_id(), "correlationId": new_id()}
        self._wire = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
        self._wire.putrequest("POST", CALLBACKS)
        for name, value in {
            "Authorization": f"Bearer {product.key}",
            "Content-Type": "application/json",
            "Content-Length": str(size),
            "X-Execution-Id": self.ids["executionId"],
            "X-Correlation-Id": self.ids["correlationId"],
        }.items():
            self._wire.putheader(name, value)
        self._wire.endheaders()
        self._wire.send(b" " * (size - 2))

    def finish(self) -> httpx.Response:
        """Send the end; the answer."""
        self._wire.send(b"{}")
        return self.answer()

    def answer(self) -> httpx.Response:
        """What the product says, however long it takes."""
        reply = self._wire.getresponse()
        return httpx.Response(reply.status, headers=reply.getheaders(), content=reply.read())

    def close(self) -> None:
        """Hang up."""
        self._wire.close()


@contextlib.contextmanager
def slow(product: Product, count: int, size: int = LARGE) -> Iterator[list[Slow]]:
    """Several of them, once all of them are under way."""
    with contextlib.ExitStack() as stack:
        requests = [
            stack.enter_context(contextlib.closing(Slow(product, size))) for _ in range(count)
        ]
        # This one is counted itself.
        until("slow requests are under way", lambda: _under_way(product) == count + 1)
        yield requests
    until("they are gone", lambda: _under_way(product) == 1)


def _under_way(product: Product, kind: str = "request") -> float:
    return _metric(product, "muster_http_in_flight", f'kind="{kind}"')


def _metric(product: Product, name: str, label: str = "") -> float:
    reply = product.http.get("/metrics")
    assert reply.status_code == 200, reply.text
    lines = [line for line in reply.text.splitlines() if line.startswith(name) and label in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def test_a_full_replica_refuses_more_and_recovers_at_once(small: Product) -> None:
    shed = _metric(small, "muster_http_shed_total")
    with slow(small, REQUESTS) as held:
        for method, path in (("GET", "/api/wait-states"), ("POST", CALLBACKS)):
            problem = assert_problem(small.http.request(method, path), 429, "overloaded")
            assert "your tenant has half" in problem["detail"]
        assert _metric(small, "muster_http_shed_total") == shed + 2
        # Others have the other half.
        assert_problem(small.http.get("/nowhere"), 404, "not_found")
        for path in ("/actuator/health", "/actuator/health/readiness", "/metrics"):
            assert small.http.get(path).status_code == 200, path
        # Those that were let in are served.
        assert held[0].finish().json()["verdict"] == "buffered"
        assert small.http.get("/api/wait-states").status_code == 200
        for request in held[1:]:
            assert request.finish().json()["verdict"] == "buffered"
    assert small.http.get("/api/wait-states").status_code == 200


def test_a_body_that_never_comes_is_408_and_frees_its_place(small: Product) -> None:
    with slow(small, REQUESTS) as held:
        began = time.monotonic()
        for request in held:
            assert_problem(request.answer(), 408, "request_timeout")
        assert time.monotonic() - began < PATIENCE + 10
        assert small.http.get("/api/wait-states").status_code == 200


def test_a_client_that_hangs_up_frees_its_place(small: Product) -> None:
    with slow(small, REQUESTS) as held:
        assert_problem(small.http.get("/api/wait-states"), 429, "overloaded")
        for request in held:
            request.close()
        until("the places are free", lambda: small.http.get("/api/wait-states").status_code == 200)


def test_a_burst_gets_429_or_an_answer_and_who_comes_back_is_served(small: Product) -> None:
    """Sixty clients at once that heed Retry-After: each event counts exactly once."""
    waits = [small.register() for _ in range(60)]
    refusals: list[int] = []
    barrier = threading.Barrier(len(waits))

    def client(wait: dict[str, Any]) -> str:
        ids = {"X-Execution-Id": wait["executionId"], "X-Correlation-Id": wait["correlationId"]}
        barrier.wait()

        def attempt() -> Any:
            # A connection each: sixty threads on one pool would test the pool.
            reply = httpx.post(
                small.url + CALLBACKS,
                json={},
                headers=ids | {"X-Event-Id": "once", "Authorization": f"Bearer {small.key}"},
                timeout=30,
                trust_env=False,
            )
            if reply.status_code == 200:
                return reply.json()
            assert_problem(reply, 429, "overloaded")
            refusals.append(int(reply.headers["Retry-After"]))
            return None

        verdict: str = until("an answer", attempt, within=60)["verdict"]
        return verdict

    # All places are taken at first, so that sixty are too many however fast it is.
    with slow(small, REQUESTS) as held, ThreadPoolExecutor(len(waits)) as pool:
        verdicts = pool.map(client, waits)
        until("some are refused", lambda: refusals)
        for request in held[1:]:
            request.finish()
        assert set(verdicts) == {"matched"}
    assert small.http.get("/api/wait-states").status_code == 200
    assert small.http.get("/actuator/health").json()["status"] == "UP"


def test_more_than_a_shard_may_hold_is_refused_item_by_item(small: Product) -> None:
    def send(count: int) -> list[dict[str, Any]]:
        ids = [{"executionId": new_id(), "correlationId": new_id()} for _ in range(count)]
        body = {"items": [{**one, "body": {}} for one in ids]}
        reply = small.http.post(f"{CALLBACKS}/batch", json=body)
        assert reply.status_code == 200, reply.text
        results: list[dict[str, Any]] = reply.json()["results"]
        assert len(results) == count
        return results

    refused = send(PENDING + 1)
    assert {result["status"] for result in refused} == {429}
    assert {result["problem"]["code"] for result in refused} == {"overloaded"}
    assert {result["status"] for result in send(PENDING)} == {200}
    with ThreadPoolExecutor(REQUESTS) as pool:
        results = [result for some in pool.map(send, [PENDING // 2] * 20) for result in some]
    assert {result["status"] for result in results} <= {200, 429}
    assert {result["status"] for result in send(PENDING)} == {200}


def test_streams_and_long_polls_have_a_bound_of_their_own(small: Product) -> None:
    wait = small.register()
    path = f"/api/wait-states/{wait['executionId']}/{wait['correlationId']}"
    with contextlib.ExitStack() as stack:
        for _ in range(STREAMS):
            stream = stack.enter_context(small.http.stream("GET", f"{path}/stream"))
            assert stream.status_code == 200
        assert_problem(small.http.get(f"{path}/stream"), 429, "overloaded")
        assert_problem(small.http.get(path, params={"wait": 10}), 429, "overloaded")
        # They take no place from the others.
        assert _under_way(small, "stream") == STREAMS
        with slow(small, REQUESTS - 1):
            assert small.show(wait)["status"] == "waiting"
    until("the streams are closed", lambda: _under_way(small, "stream") == 0)
    with small.http.stream("GET", f"{path}/stream") as stream:
        assert stream.status_code == 200


def test_bodies_have_a_budget_for_all_of_them_together(small: Product) -> None:
    with slow(small, BODIES // BODY, size=BODY) as held:
        reply = small.http.post(CALLBACKS, json={"one": "more"})
        assert_problem(reply, 429, "overloaded")
        assert small.http.get("/api/wait-states").status_code == 200
        for request in held:
            assert request.finish().json()["verdict"] == "buffered"
    reply = small.http.post(CALLBACKS, content=b" " * (BODY + 1))
    assert_problem(reply, 413, "too_large")


def test_without_any_http_process_it_is_503_until_they_are_back(small: Product) -> None:
    """HAProxy is left alone to answer. Kept last: Serve takes a while to come back."""
    wait = small.register()
    for process in find_processes_in(instance_paths(Path(small.data_dir)).run_dir):
        if process.name().startswith(("ray::ServeReplica", "ray::ProxyActor")):
            os.kill(process.pid, signal.SIGKILL)
    seen: set[int] = set()

    def back() -> bool:
        try:
            reply = small.http.get("/api/wait-states")
        except httpx.RemoteProtocolError:  # it was under way when the replica died
            return False
        seen.add(reply.status_code)
        if reply.status_code == 503:
            assert reply.headers["Content-Type"] == "application/problem+json"
            assert reply.json()["code"] == "unavailable"
            assert int(reply.headers["Retry-After"]) >= 1
        return reply.status_code == 200

    until("requests are answered again", back, within=60)
    assert seen <= {200, 503}
    assert small.show(wait)["status"] == "waiting"
    assert small.callback(wait)["verdict"] == "matched"


def test_gathers_beyond_what_a_pool_keeps_come_again_later(small: Product) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        asks = [{"name": f"r{n}", "url": url} for n in range(CALLS // 2)]
        wish = {"resources": asks, "timeoutMs": 20_000, "onDisconnect": "detach"}

        def ask() -> httpx.Response:
            return small.http.post("/api/gathers", json=wish)

        first = ask()
        assert first.status_code == 202, first.text
        refused = ask()
        assert_problem(refused, 429, "overloaded")
        assert int(refused.headers["Retry-After"]) > 0
        cancel = f"/api/gathers/{first.json()['id']}"
        assert small.http.delete(cancel).status_code == 200
        last = until("there is room again", lambda: _if_taken(ask()))
        assert small.http.delete(f"/api/gathers/{last}").status_code == 200


def _if_taken(reply: httpx.Response) -> str | None:
    return str(reply.json()["id"]) if reply.status_code == 202 else None
