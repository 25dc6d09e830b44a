"""What every refusal looks like on the wire, whoever gives it."""

from typing import Any

import httpx

from tests.support.product import Product

MEMBERS = {"type", "title", "status", "detail", "code", "errors", "correlationId", "requestId"}
ALWAYS = {"type", "title", "status", "detail", "code", "requestId"}
_LEAKS = ("Traceback", 'File "', "site-packages", "asyncpg", "pydantic", "msgspec", "RayTaskError")


def assert_problem(reply: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document, once it is known to be one of this status and code."""
    assert reply.status_code == status, f"{reply.status_code}: {reply.text[:500]}"
    assert reply.headers["Content-Type"] == "application/problem+json"
    document: dict[str, Any] = reply.json()
    assert ALWAYS <= set(document) <= MEMBERS
    assert document["status"] == status
    assert document["code"] == code
    assert document["type"] == f"urn:muster:problem:{code}"
    assert document["title"]
    assert document["detail"]
    for fault in document.get("errors", []):
        assert {"field", "expected"} <= set(fault) <= {"field", "expected", "got"}
    leaks = [leak for leak in _LEAKS if leak in reply.text]
    assert not leaks, reply.text
    if status in {429, 503}:
        assert int(reply.headers["Retry-After"]) >= 1
    return document


def faulty_fields(document: dict[str, Any]) -> set[str]:
    """The fields that a problem names."""
    return {fault["field"] for fault in document.get("errors", [])}


def server_errors(product: Product) -> float:
    """How many requests the product itself counts as failed on its side."""
    lines = product.http.get("/metrics").text.splitlines()
    counts = [line for line in lines if line.startswith("muster_http_requests_total{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in counts if 'status="500"' in line)
