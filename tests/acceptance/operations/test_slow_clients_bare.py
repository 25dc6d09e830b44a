"""The same where there is no HAProxy: the replica's own bounds hold behind Serve's proxy."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.product import Product, running_product
from tests.support.slow_senders import SlowSenders, unfinished_post

CALLBACKS = "/api/internal/callbacks/external-service"
DEADLINE = 4
CROWD = 40


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_SERVE_HAPROXY_BINARY_PATH", "/nowhere/haproxy")
        folder = tmp_path_factory.mktemp("bare") / ".muster"
        # Twice as many requests as the crowd: it has its half, and no more.
        with running_product(
            folder,
            "--shards",
            "1",
            request_timeout=str(DEADLINE),
            request_limit=str(2 * CROWD),
        ) as running:
            yield running


@pytest.fixture(scope="module")
def neighbour(product: Product) -> Iterator[httpx.Client]:
    """A client of another tenant."""
    key = product.cli("keys", "first", "neighbour").stdout.split()[-1]
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=product.url, headers=headers, timeout=30, trust_env=False) as http:
        yield http


@pytest.mark.parametrize("sent", [b"{", b'"' + b"x" * 65_535])
def test_a_tenants_unfinished_bodies_leave_the_other_half_and_end_as_408(
    product: Product, neighbour: httpx.Client, sent: bytes
) -> None:
    headers = {"Authorization": f"Bearer {product.key}"}
    beginning = unfinished_post(CALLBACKS, length=1_000_000, sent=sent, headers=headers)
    with SlowSenders(product.url, beginning) as crowd:
        crowd.add(CROWD + 10)
        for _ in range(20):
            assert neighbour.get("/api/wait-states").status_code == 200
        statuses = [(told or b"- -").split(b" ")[1] for told in crowd.answers(DEADLINE + 20)]
    assert set(statuses) == {b"408", b"429"}
    assert statuses.count(b"408") == CROWD


def test_those_without_a_key_are_refused_at_once(product: Product, neighbour: httpx.Client) -> None:
    beginning = unfinished_post(CALLBACKS, length=1_000_000, sent=b"{")
    with SlowSenders(product.url, beginning) as crowd:
        crowd.add(CROWD)
        assert neighbour.get("/api/wait-states").status_code == 200
        answers = crowd.answers(20)
    assert {(told or b"- -").split(b" ")[1] for told in answers} == {b"401"}
