"""Bodies and batches that cannot be right: one problem document each, never a 500."""

import gzip
import json
from typing import Any

import pytest

from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import BOTH, Product, id_headers, new_id

pytestmark = pytest.mark.usefixtures("never_a_500")

WAITS = "/api/wait-states"
CALLBACKS = "/api/internal/callbacks/external-service"
EVENTS = "/api/internal/events/process.completed"
JSON = {"Content-Type": "application/json"}
MIB = 1024 * 1024

# Bodies that are not JSON


@pytest.mark.parametrize("path", [WAITS, f"{WAITS}/batch", CALLBACKS, EVENTS, "/api/keys"])
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"data": }',
        b"{'data': 1}",
        b"{} {}",
        b"\xff\xfe\x00",
        b'"\xc3\x28"',
        b"\xef\xbb\xbf{}",
        b'{"a": "\\ud800"}',
        b'{"a": "\\x"}',
        b'{"a": "raw \x01 control"}',
        b'{"a": 01}',
        b'{"a": ' + b"9" * 5_000 + b"}",
        b"[" * 60_000,
        b'{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ],
    ids=lambda body: repr(body[:16]),
)
def test_malformed_json_is_400(product: Product, path: str, body: bytes) -> None:
    reply = product.http.post(path, content=body, headers=JSON | id_headers())
    assert_problem(reply, 400, "malformed_json")


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_numbers_that_json_does_not_have_are_not_stored(product: Product, number: bytes) -> None:
    reply = product.http.post(CALLBACKS, content=b'{"a": %s}' % number, headers=JSON | id_headers())
    assert_problem(reply, 400, "malformed_json")


@pytest.mark.parametrize("body", [b"[]", b"1", b"null", b"true", b'"text"'])
@pytest.mark.parametrize("path", [WAITS, f"{WAITS}/batch", f"{CALLBACKS}/batch", "/api/keys"])
def test_a_body_that_must_be_an_object_is_422(product: Product, path: str, body: bytes) -> None:
    problem = assert_problem(product.http.post(path, content=body, headers=JSON), 422, "invalid")
    assert "object" in problem["detail"]


@pytest.mark.parametrize("body", [b"", b"[]", b"17", b"null", b'"text"', b'{"a": "\\u0000"}'])
def test_an_event_may_carry_any_json(product: Product, body: bytes) -> None:
    wait = product.register()
    reply = product.http.post(CALLBACKS, content=body, headers=JSON | id_headers(wait))
    assert reply.json()["verdict"] == "matched", reply.text
    stored = product.show(wait)["events"]["api_response"].get("data")
    assert stored == (json.loads(body) if body else None)


def test_numbers_of_any_length_and_depth_up_to_the_bound_are_kept(product: Product) -> None:
    wait = product.register()
    nested: Any = 12345678901234567890123456789
    for _ in range(60):
        nested = [nested]
    product.callback(wait, nested)
    assert product.show(wait)["events"]["api_response"]["data"] == nested


# Bodies in a form that is not taken


@pytest.mark.parametrize("path", [WAITS, CALLBACKS])
def test_a_body_over_the_limit_is_413_with_and_without_its_length(
    product: Product, path: str
) -> None:
    body = b'{"a": "' + b"x" * MIB + b'"}'
    chunks = (body[at : at + 65_536] for at in range(0, len(body), 65_536))
    for content in (body, chunks):
        reply = product.http.post(path, content=content, headers=JSON | id_headers())
        problem = assert_problem(reply, 413, "too_large")
        assert "1048576" in problem["detail"]


def test_a_body_at_the_limit_is_taken(product: Product) -> None:
    body = b'"' + b"x" * (MIB - 2) + b'"'
    for content in (body, iter((body[:17], body[17:]))):
        reply = product.http.post(CALLBACKS, content=content, headers=JSON | id_headers())
        assert reply.json()["verdict"] == "buffered", reply.text


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate, gzip", "nonsense"])
def test_a_compressed_body_is_refused_unread(product: Product, encoding: str) -> None:
    bomb = gzip.compress(b"0" * MIB)
    reply = product.http.post(
        CALLBACKS, content=bomb, headers=JSON | id_headers() | {"Content-Encoding": encoding}
    )
    problem = assert_problem(reply, 415, "unsupported_media_type")
    assert encoding in problem["detail"]
    assert reply.headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("path", [WAITS, f"{WAITS}/batch", CALLBACKS, f"{EVENTS}/batch"])
@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "application/x-www-form-urlencoded", "application/xml", "json", ""],
)
def test_another_content_type_is_415(product: Product, path: str, media_type: str) -> None:
    reply = product.http.post(
        path, content=b"{}", headers=id_headers() | {"Content-Type": media_type}
    )
    assert_problem(reply, 415, "unsupported_media_type")


@pytest.mark.parametrize(
    "media_type", ["application/json; charset=utf-8", "application/cloudevents+json", None]
)
def test_json_by_any_name_is_taken(product: Product, media_type: str | None) -> None:
    named = {"Content-Type": media_type} if media_type else {}
    reply = product.http.post(CALLBACKS, content=b"{}", headers=id_headers() | named)
    assert reply.json()["verdict"] == "buffered", reply.text


# Batches


@pytest.mark.parametrize("path", [f"{WAITS}/batch", f"{CALLBACKS}/batch", f"{EVENTS}/batch"])
def test_a_batch_has_1_to_1000_items(product: Product, path: str) -> None:
    for count in (0, 1_001):
        reply = product.http.post(path, json={"items": [{}] * count})
        problem = assert_problem(reply, 422, "invalid")
        assert faulty_fields(problem) == {"items"}
        assert "1 to 1000" in problem["detail"]
    others: list[Any] = [{}, {"items": {}}, {"items": None}, {"items": [{}], "more": 1}]
    for other in others:
        assert_problem(product.http.post(path, json=other), 422, "invalid")


def test_each_item_of_a_batch_is_refused_on_its_own(product: Product) -> None:
    items: list[Any] = [
        {"data": BOTH},
        {"data": BOTH | {"nope": 1}},
        7,
        {"data": BOTH, "executionId": "a\nb"},
        {"data": BOTH | {"timeout": -1}},
    ]
    results = product.http.post(f"{WAITS}/batch", json={"items": items}).json()["results"]
    assert [result["status"] for result in results] == [201, 422, 422, 422, 422]
    assert results[1]["problem"]["errors"][0]["field"] == "data.nope"
    ids = {"executionId": new_id(), "correlationId": new_id()}
    events: list[Any] = [
        {**ids, "body": {"a": 1}},
        {"body": {"a": 1}},
        {**ids, "eventId": "x" * 201},
        {**ids, "bodi": 1},
        "event",
        {**ids, "body": _nested(70)},
    ]
    results = product.http.post(f"{CALLBACKS}/batch", json={"items": events}).json()["results"]
    assert [result["status"] for result in results] == [200, 400, 422, 422, 422, 400]
    assert results[1]["problem"]["code"] == "missing_id"


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value
