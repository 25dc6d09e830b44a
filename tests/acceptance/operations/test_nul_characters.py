"""A NUL in any text of any request: whatever the answer is, it is none of a fault on this side.

Requests that the OpenAPI document allows, each sent once for every text in it, with a NUL there.
"""

import copy
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode

from tests.acceptance.operations.test_openapi import SEED, STREAMS, bounded, fuzzed, load
from tests.support.product import Product

__all__ = ["fuzzed"]


NUL = "a\x00b"
EXAMPLES = 3
MOST_TEXTS = 25
# A path that is a request to another server by now: the client itself cannot write it.
PARTS = ("query", "path_parameters", "body")


def with_nuls(value: Any) -> Iterator[Any]:
    """The value, again and again, each time with a NUL in another of its texts."""
    if isinstance(value, str):
        yield NUL
        return
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        for changed in with_nuls(item):
            whole = copy.copy(value)
            whole[key] = changed
            yield whole


def cases(case: schemathesis.Case[Any]) -> Iterator[schemathesis.Case[Any]]:
    """The request with a NUL in each of its texts, a bounded number of them."""
    for part in PARTS:
        given_ = getattr(case, part)
        for value in islice(with_nuls(given_), MOST_TEXTS):
            setattr(case, part, value)
            yield case
        setattr(case, part, given_)


def test_a_nul_in_any_text_is_never_a_fault_of_ours(fuzzed: Product) -> None:
    failures: list[str] = []
    sent = 0

    def send(case: schemathesis.Case[Any]) -> None:
        nonlocal sent
        for one in cases(case):
            reply = one.call(headers={"Authorization": f"Bearer {fuzzed.key}"}, timeout=30)
            sent += 1
            if reply.status_code >= 500:
                failures.append(f"{reply.status_code} {one.as_curl_command()}\n{reply.text}")

    with bounded(fuzzed):
        for found in load(fuzzed).exclude(path=STREAMS).get_all_operations():
            strategy = found.ok().as_strategy(generation_mode=GenerationMode.POSITIVE)
            _each(strategy, send)
    assert sent > 500
    assert not failures, "\n\n".join(failures[:20])


def _each(strategy: Any, send: Any) -> None:
    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(case: schemathesis.Case[Any]) -> None:
        send(case)

    run()


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("GET", "/api/resources?cursor=%00", None, "cursor"),
        ("GET", "/api/wait-states?executionId=a%00", None, "executionId"),
        ("GET", "/api/resources/a%00b", None, "path"),
        ("GET", "/api/wait-states/%00/c", None, "path"),
        ("GET", "/api/wait-states/%00/c/stream", None, "path"),
        ("GET", "/api/events/%00", None, "path"),
        ("GET", "/api/dead-letters/%31%00", None, "path"),
        ("POST", "/api/internal/callbacks/%00", {}, "path"),
        ("POST", "/api/internal/events/%00", {}, "path"),
        (
            "POST",
            "/api/wait-states",
            {"data": {"apiCall": {"url": "http://127.0.0.1:9/", "correlationIdField": NUL}}},
            "data.apiCall.correlationIdField",
        ),
        ("PUT", "/api/resources/r", {"url": "http://127.0.0.1:9/", "method": NUL}, "method"),
    ],
)
def test_the_field_is_named(
    product: Product, method: str, path: str, body: Any, field: str
) -> None:
    reply = product.http.request(method, path, json=body)
    assert reply.status_code == 422, reply.text
    assert field in {fault["field"] for fault in reply.json()["errors"]}
