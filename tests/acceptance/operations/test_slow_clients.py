"""Clients that dribble, stall, or never read: nobody else notices, and they are told in the end."""

import contextlib
import statistics
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from host.paths import instance_paths
from host.proxy.haproxy_limits import MAX_REQUESTS_PER_REPLICA
from tests.support.instances import IMPATIENCE as DEADLINE
from tests.support.instances import SOURCE_CONNECTIONS as SOURCE
from tests.support.product import Product, until
from tests.support.slow_senders import SlowSenders, unfinished_post

CROWD = MAX_REQUESTS_PER_REPLICA + 72
LENGTH = 1_000_000
PROBES = 60
# What else runs on the machine slows down some of the others as well, but not each time.
ATTEMPTS = 3


@pytest.fixture(scope="module")
def product(impatient: Product) -> Product:
    return impatient


@pytest.fixture(scope="module")
def quiet(product: Product) -> float:
    """What 19 of 20 requests take at most without anybody else."""
    _latencies(product)
    return _p95(_latencies(product))


def _latencies(product: Product) -> list[float]:
    """How long one of the others waits, each time served."""
    taken = []
    for number in range(PROBES):
        began = time.monotonic()
        if number % 3 == 0:
            product.register()
        else:
            assert product.http.get("/api/wait-states?limit=1").status_code == 200
        taken.append(time.monotonic() - began)
    return taken


def _p95(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=20)[18]


def _assert_served(
    product: Product,
    quiet: float,
    *beginnings: bytes,
    count: int = CROWD,
    read_buffer: int | None = None,
    told: int | None = None,
) -> None:
    """Beside a crowd of each, nobody waits much longer; all of them are told `told` in the end."""
    bound = 3 * quiet + 0.25
    taken: list[float] = []
    while len(taken) < ATTEMPTS and (not taken or taken[-1] > bound):
        with contextlib.ExitStack() as stack:
            crowds = [SlowSenders(product.url, one, read_buffer) for one in beginnings]
            for crowd in crowds:
                stack.enter_context(crowd).add(count)
            # Whoever finds no place at a replica is refused, after half a second: seen each time.
            taken.append(_p95(_latencies(product)))
            for crowd in crowds if told else []:
                _assert_all_told(crowd, told)
    assert min(taken) <= bound


def _assert_all_told(crowd: SlowSenders, status: int | None) -> None:
    told = crowd.answers(DEADLINE + 20)
    assert {(answer or b"- -").split(b" ")[1] for answer in told} == {str(status).encode()}
    assert all(b"application/problem+json" in answer for answer in told if answer)


SENDERS = ["nobody", "key", "token"]


def _headers(product: Product, sender: str) -> dict[str, str]:
    """Who sends slowly: anybody, the holder of a key, a third party with one callback URL."""
    if sender == "nobody":
        return {}
    if sender == "key":
        return {"Authorization": f"Bearer {product.key}"}
    return {"X-Callback-Token": _token(product)}


def _token(product: Product) -> str:
    url = product.register()["callbackUrl"]
    return str(urlsplit(url).query.removeprefix("token="))


CALLBACKS = "/api/internal/callbacks/external-service"


@pytest.mark.parametrize(
    ("length", "sent"), [(LENGTH, b"{"), (LENGTH, b""), (100, b"{"), (None, b"1\r\n{\r\n")]
)
def test_bodies_that_do_not_come_take_no_place(
    product: Product, quiet: float, length: int | None, sent: bytes
) -> None:
    beginnings = [
        unfinished_post(CALLBACKS, length=length, sent=sent, headers=_headers(product, sender))
        for sender in SENDERS
    ]
    _assert_served(product, quiet, *beginnings, told=408)


@pytest.mark.parametrize("sender", SENDERS)
def test_bodies_that_stall_half_way_take_no_place(
    product: Product, quiet: float, sender: str
) -> None:
    """More than HAProxy can hold back: these reach the replica, which has bounds of its own."""
    sent = b'"' + b"x" * 65_535
    headers = _headers(product, sender)
    beginning = unfinished_post(CALLBACKS, length=LENGTH, sent=sent, headers=headers)
    _assert_served(product, quiet, beginning, told=408 if headers else 401)


def test_a_body_in_drips_is_cut_off(product: Product, quiet: float) -> None:
    beginning = unfinished_post("/api/events", length=LENGTH)
    with SlowSenders(product.url, beginning) as crowd:
        crowd.add(CROWD)
        began = time.monotonic()
        while crowd.send(b" ") and time.monotonic() - began < DEADLINE + 20:
            time.sleep(0.5)
        assert DEADLINE - 1 < time.monotonic() - began < DEADLINE + 20
        _assert_all_told(crowd, 408)
        _assert_served(product, quiet)


def test_announced_bodies_take_nothing_from_what_others_may_send(product: Product) -> None:
    """Twice the budget is announced; a body of a megabyte is taken all the same."""
    sent = b'"' + b"x" * 20_000
    headers = {"Authorization": f"Bearer {product.key}"}
    beginning = unfinished_post(CALLBACKS, length=LENGTH, sent=sent, headers=headers)
    with SlowSenders(product.url, beginning) as crowd:
        crowd.add(256)
        event = {"type": "big", "source": "test", "data": "x" * 900_000}
        assert product.http.post("/api/events", json=event).status_code == 201


@pytest.mark.parametrize("beginning", [b"", b"POST /api/events HTTP/1.1\r\nHo"])
def test_connections_that_say_nothing_shut_nobody_out(
    product: Product, quiet: float, beginning: bytes
) -> None:
    _assert_served(product, quiet, beginning, count=SOURCE // 2)


def test_answers_that_nobody_reads_take_no_place(product: Product, quiet: float) -> None:
    beginning = b"GET /openapi.json HTTP/1.1\r\nHost: muster\r\n\r\n"
    _assert_served(product, quiet, beginning, read_buffer=4_096)


def test_a_caller_that_reads_nothing_leaves_places_to_other_callers(
    product: Product, quiet: float
) -> None:
    wait = product.register()
    product.callback(wait, "x" * 900_000)
    path = f"/api/wait-states/{wait['executionId']}/{wait['correlationId']}"
    greedy = _key(product)
    head = f"GET {path} HTTP/1.1\r\nHost: muster\r\nAuthorization: Bearer {greedy}\r\n\r\n"
    _assert_served(product, quiet, head.encode(), read_buffer=4_096)


def _key(product: Product) -> str:
    reply = product.http.post("/api/keys", json={"name": "greedy", "permissions": ["waits:read"]})
    assert reply.status_code == 201, reply.text
    return str(reply.json()["key"])


def test_one_address_has_so_many_connections_and_no_more(product: Product) -> None:
    # Who is too late with its head is told so; hung up on without a word is who was one too many.
    told: dict[int, bytes] = {}

    def too_many() -> bool:
        for number, answer in enumerate(crowd.answers(0.2)):
            if answer is not None:
                told.setdefault(number, answer)
        assert kept.get("/api/wait-states").status_code == 200
        return list(told.values()).count(b"") >= 50

    with _one_connection(product) as kept:
        assert kept.get("/api/wait-states").status_code == 200  # its connection is one of them
        with SlowSenders(product.url, b"POST /api/events HTTP/1.1\r\nHo") as crowd:
            crowd.add(SOURCE + 50)
            until("those beyond the bound are hung up on", too_many)
    until("others may come again", lambda: _asks_anew(product))


def _one_connection(product: Product) -> httpx.Client:
    """A client that keeps its connection for as long as the product does."""
    limits = httpx.Limits(max_connections=1, keepalive_expiry=None)
    headers = {"Authorization": f"Bearer {product.key}"}
    return httpx.Client(
        base_url=product.url, headers=headers, limits=limits, timeout=30, trust_env=False
    )


def _asks_anew(product: Product) -> bool:
    try:
        with _one_connection(product) as client:
            return client.get("/actuator/health").status_code == 200
    except httpx.TransportError:  # the bound is still reached
        return False


@pytest.mark.parametrize("way", ["query", "header"])
def test_no_log_holds_a_callback_token(product: Product, way: str) -> None:
    url = product.register()["callbackUrl"]
    token = urlsplit(url).query.removeprefix("token=")
    assert len(token) > 40
    if way == "query":
        reply = product.http.post(url, json={}, headers={"Authorization": ""})
    else:
        bare = url.partition("?")[0]
        reply = product.http.post(bare, json={}, headers={"X-Callback-Token": token})
    assert reply.json()["verdict"] == "matched", reply.text
    product.http.post(f"{url}x", json={}, headers={"Authorization": ""})  # a forged one, too
    places = instance_paths(Path(product.data_dir))
    for folder in (places.run_dir, places.data_dir):
        for file in _logs(folder):
            assert token.encode() not in file.read_bytes(), file


def _logs(folder: Path) -> list[Path]:
    names = ("*.log", "*.out", "*.err", "*.cfg", "*.txt", "*.json")
    found = [file for name in names for file in folder.rglob(name) if file.is_file()]
    assert found
    return [file for file in found if "pg" not in file.parts]
