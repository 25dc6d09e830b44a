"""Bodies, configurations and ids that cannot be right: one problem document each, never a 500."""

import gzip
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.problem import assert_problem, faulty_fields, server_errors
from tests.support.product import BOTH, Product, new_id

WAITS = "/api/wait-states"
CALLBACKS = "/api/internal/callbacks/external-service"
EVENTS = "/api/internal/events/process.completed"
JSON = {"Content-Type": "application/json"}
MIB = 1024 * 1024
THREE: list[dict[str, Any]] = [{"name": name} for name in ("a", "b", "c")]
CALL: dict[str, Any] = {"url": "http://127.0.0.1:9/"}


@pytest.fixture(scope="module", autouse=True)
def _never_a_500(product: Product) -> Iterator[None]:
    """The product's own count of its failures must not grow while these tests run."""
    before = server_errors(product)
    yield
    assert server_errors(product) == before


def _ids(wait: dict[str, Any] | None = None) -> dict[str, str]:
    wait = wait or {"executionId": new_id(), "correlationId": new_id()}
    return {"X-Execution-Id": wait["executionId"], "X-Correlation-Id": wait["correlationId"]}


def _path(wait: dict[str, Any]) -> str:
    ids = (quote(wait[name], safe="") for name in ("executionId", "correlationId"))
    return "/".join((WAITS, *ids))


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
        b"[" * 200_000,
        b'{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ],
    ids=lambda body: repr(body[:16]),
)
def test_malformed_json_is_400(product: Product, path: str, body: bytes) -> None:
    reply = product.http.post(path, content=body, headers=JSON | _ids())
    assert_problem(reply, 400, "malformed_json")


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_numbers_that_json_does_not_have_are_not_stored(product: Product, number: bytes) -> None:
    reply = product.http.post(CALLBACKS, content=b'{"a": %s}' % number, headers=JSON | _ids())
    assert_problem(reply, 400, "malformed_json")


@pytest.mark.parametrize("body", [b"[]", b"1", b"null", b"true", b'"text"'])
@pytest.mark.parametrize("path", [WAITS, f"{WAITS}/batch", f"{CALLBACKS}/batch", "/api/keys"])
def test_a_body_that_must_be_an_object_is_422(product: Product, path: str, body: bytes) -> None:
    problem = assert_problem(product.http.post(path, content=body, headers=JSON), 422, "invalid")
    assert "object" in problem["detail"]


@pytest.mark.parametrize("body", [b"", b"[]", b"17", b"null", b'"text"', b'{"a": "\\u0000"}'])
def test_an_event_may_carry_any_json(product: Product, body: bytes) -> None:
    wait = product.register()
    reply = product.http.post(CALLBACKS, content=body, headers=JSON | _ids(wait))
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
        reply = product.http.post(path, content=content, headers=JSON | _ids())
        problem = assert_problem(reply, 413, "too_large")
        assert "1048576" in problem["detail"]


def test_a_body_at_the_limit_is_taken(product: Product) -> None:
    body = b'"' + b"x" * (MIB - 2) + b'"'
    for content in (body, iter((body[:17], body[17:]))):
        reply = product.http.post(CALLBACKS, content=content, headers=JSON | _ids())
        assert reply.json()["verdict"] == "buffered", reply.text


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate, gzip", "nonsense"])
def test_a_compressed_body_is_refused_unread(product: Product, encoding: str) -> None:
    bomb = gzip.compress(b"0" * MIB)
    reply = product.http.post(
        CALLBACKS, content=bomb, headers=JSON | _ids() | {"Content-Encoding": encoding}
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
    reply = product.http.post(path, content=b"{}", headers=_ids() | {"Content-Type": media_type})
    assert_problem(reply, 415, "unsupported_media_type")


@pytest.mark.parametrize(
    "media_type", ["application/json; charset=utf-8", "application/cloudevents+json", None]
)
def test_json_by_any_name_is_taken(product: Product, media_type: str | None) -> None:
    named = {"Content-Type": media_type} if media_type else {}
    reply = product.http.post(CALLBACKS, content=b"{}", headers=_ids() | named)
    assert reply.json()["verdict"] == "buffered", reply.text


# Configurations that could never work


@pytest.mark.parametrize(
    ("request_body", "fields"),
    [
        ({}, {"data"}),
        ({"data": None}, {"data"}),
        ({"data": [BOTH]}, {"data"}),
        ({"data": BOTH, "typ": "wait_events"}, {"typ"}),
        ({"data": BOTH, "type": "sleep"}, {"type"}),
        ({"data": BOTH | {"timeOut": 3, "retries": 1}}, {"data.timeOut", "data.retries"}),
        ({"data": {"apiCall": CALL | {"urll": "x"}}}, {"data.apiCall.urll"}),
        ({"data": {"kafkaEvent": {"topic": "t", "group": "g"}}}, {"data.kafkaEvent.group"}),
        ({"data": {"events": [{"name": "a", "topik": "t"}]}}, {"data.events[0].topik"}),
    ],
    ids=str,
)
def test_missing_and_unknown_fields_are_named(
    product: Product, request_body: dict[str, Any], fields: set[str]
) -> None:
    reply = product.http.post(WAITS, json=request_body)
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == fields


@pytest.mark.parametrize("timeout", [0, -1, -0.5, "300", True, None, [], 90 * 86_400 + 1, 1e308])
@pytest.mark.parametrize("place", ["timeout", "apiCall.timeout"])
def test_a_bad_timeout_is_422(product: Product, place: str, timeout: Any) -> None:
    if place == "timeout":
        config = BOTH | {"timeout": timeout}
    else:
        config = BOTH | {"apiCall": CALL | {"timeout": timeout}}
    reply = product.http.post(WAITS, json={"data": config})
    if (place, timeout) == ("apiCall.timeout", None):
        assert reply.status_code == 201  # none of its own
        return
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {f"data.{place}"}


@pytest.mark.parametrize("timeout", [b"Infinity", b"-Infinity", b"NaN", b"1e999"])
def test_a_timeout_that_is_no_number_is_422(product: Product, timeout: bytes) -> None:
    body = b'{"data": {"apiCall": {"url": "http://127.0.0.1:9/"}, "timeout": %s}}' % timeout
    reply = product.http.post(WAITS, content=body, headers=JSON)
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {"data.timeout"}


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (BOTH | {"aggregationStrategy": "sometimes"}, "required_only"),
        (BOTH | {"aggregationStrategy": "ALL"}, "required_only"),
        (BOTH | {"onTimeout": "shrug"}, "continue_with_partial"),
        (BOTH | {"aggregationStrategy": "custom"}, "at least one"),
        (BOTH | {"aggregationStrategy": "custom", "requiredEvents": []}, "at least one"),
        (BOTH | {"aggregationStrategy": "custom", "requiredEvents": ["nobody"]}, "nobody"),
        (
            {
                "apiCall": CALL,
                "kafkaEvent": {"enabled": False, "topic": "t"},
                "aggregationStrategy": "custom",
                "requiredEvents": ["api_response", "kafka_event"],
            },
            "kafka_event",
        ),
        (
            BOTH | {"aggregationStrategy": "custom", "requiredEvents": ["api_response"] * 2},
            "repeat",
        ),
        (
            {"apiCall": CALL | {"required": False}, "aggregationStrategy": "required_only"},
            "required: true",
        ),
        ({"events": THREE, "aggregationStrategy": "quorum"}, "between 1 and the 3"),
        ({"events": THREE, "aggregationStrategy": "quorum", "quorum": 4}, "between 1 and the 3"),
        ({"events": THREE, "aggregationStrategy": "quorum", "quorum": 0}, "quorum"),
        ({"events": THREE, "aggregationStrategy": "quorum", "quorum": 1.5}, "quorum"),
        ({"events": THREE, "quorum": 2}, "quorum"),
        ({"events": [THREE[0], THREE[0]]}, "different names"),
        ({"events": [{"name": "api_response"}]}, "apiCall"),
        ({"events": [{"name": "a", "service": "s", "topic": "t"}]}, "not both"),
        ({"events": [{"name": "two words"}]}, "pattern"),
        ({"events": [{"name": f"e{i}"} for i in range(101)]}, "100"),
        ({"apiCall": {}}, "url"),
        ({"apiCall": CALL | {"method": "BREW"}}, "method"),
        ({"apiCall": CALL | {"headers": {"a b": "c"}}}, "headers"),
        ({"apiCall": CALL | {"correlationIdField": "a..b"}}, "path"),
        ({"kafkaEvent": {}}, "topic"),
        ({"kafkaEvent": {"topic": "no spaces"}}, "topic"),
        ({"kafkaEvent": {"topic": "t" * 250}}, "249"),
    ],
    ids=lambda value: json.dumps(value)[-40:] if isinstance(value, dict) else value,
)
def test_a_configuration_that_cannot_work_is_422(
    product: Product, config: dict[str, Any], told: str
) -> None:
    problem = assert_problem(product.http.post(WAITS, json={"data": config}), 422, "invalid")
    assert told in json.dumps(problem)


# Ids


@pytest.mark.parametrize("field", ["executionId", "correlationId", "nodeId"])
@pytest.mark.parametrize(
    "value",
    ["", " ", " a", "a\n", "a\x00b", "a\x7f", "\u2028", "x" * 256, 7, True, ["a"]],
    ids=repr,
)
def test_what_cannot_be_an_id_is_422(product: Product, field: str, value: Any) -> None:
    reply = product.http.post(WAITS, json={"data": BOTH, field: value})
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {field}


@pytest.mark.parametrize(
    ("headers", "body", "missing"),
    [
        ({}, {}, "correlation_id"),
        ({}, None, "correlation_id"),
        ({}, [1], "correlation_id"),
        ({"X-Correlation-Id": "c"}, {}, "execution_id"),
        ({"X-Execution-Id": "e"}, {}, "correlation_id"),
        ({}, {"correlation_id": "c"}, "execution_id"),
        ({}, {"correlation_id": None, "execution_id": "e"}, "correlation_id"),
        ({}, {"correlation_id": "", "execution_id": "e"}, "correlation_id"),
        ({}, {"correlation_id": "a\nb", "execution_id": "e"}, "correlation_id"),
        ({}, {"correlation_id": "a\x00b", "execution_id": "e"}, "correlation_id"),
        ({}, {"correlation_id": {"id": 1}, "execution_id": "e"}, "correlation_id"),
        ({}, {"correlation_id": True, "execution_id": "e"}, "correlation_id"),
        ({}, {"correlation_id": 1.5, "execution_id": "e"}, "correlation_id"),
        ({"X-Correlation-Id": "x" * 256, "X-Execution-Id": "e"}, {}, "correlation_id"),
    ],
    ids=str,
)
@pytest.mark.parametrize("path", [CALLBACKS, EVENTS])
def test_a_missing_id_is_named_and_the_event_is_kept(
    product: Product, path: str, headers: dict[str, str], body: Any, missing: str
) -> None:
    event_id = new_id()
    reply = product.http.post(path, json=body, headers=headers | {"X-Event-Id": event_id})
    problem = assert_problem(reply, 400, "missing_id")
    assert faulty_fields(problem) == {missing}
    header = "X-Correlation-Id" if missing == "correlation_id" else "X-Execution-Id"
    assert f"header {header}" in problem["detail"]
    assert f"body field {missing}" in problem["detail"]
    page = product.http.get("/api/inbox", params={"reason": "missing_id", "limit": 1}).json()
    kept = page["items"][0]
    assert kept["eventId"].endswith(event_id)
    assert kept["verdict"] == "rejected"
    assert product.http.get(f"/api/inbox/{kept['inboxId']}").json().get("data") == body


def test_an_event_without_ids_can_be_retried_and_stays_without_them(product: Product) -> None:
    product.http.post(CALLBACKS, json={"lost": True})
    page = product.http.get("/api/inbox", params={"reason": "missing_id", "limit": 1}).json()
    path = f"/api/inbox/{page['items'][0]['inboxId']}"
    assert_problem(product.http.post(f"{path}/retry"), 400, "missing_id")
    assert product.http.get(path).status_code == 200


@pytest.mark.parametrize("event_id", ["x" * 201, "tab\there"])
@pytest.mark.parametrize("header", ["X-Event-Id", "Idempotency-Key"])
def test_a_bad_event_id_is_422(product: Product, header: str, event_id: str) -> None:
    reply = product.http.post(CALLBACKS, json={}, headers=_ids() | {header: event_id})
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {header.lower()}


@pytest.mark.parametrize("service", ["a%20b", "a%2Fb", "%00", "x" * 256, "a%0Ab", "%F0%9F%92%A9"])
def test_a_bad_service_or_topic_is_422(product: Product, service: str) -> None:
    for kind, field in (("callbacks", "service"), ("events", "topic")):
        reply = product.http.post(f"/api/internal/{kind}/{service}", json={}, headers=_ids())
        assert faulty_fields(assert_problem(reply, 422, "invalid")) == {field}


@pytest.mark.parametrize(
    ("execution", "correlation"),
    [
        ("a/b", "c/d"),
        ("/", "//"),
        ("100%", "%2F"),
        ("?q=1", "#frag"),
        ("a b", "ä € 漢 🦀"),
        (".", ".."),
        ("stream", "explain"),
        ("e" * 255, "漢" * 255),
    ],
)
def test_ids_of_any_printable_letters_work_in_paths(
    product: Product, execution: str, correlation: str
) -> None:
    unique = new_id()[:8]
    # Dots alone are cut out of paths by every client, so they get company.
    names: dict[str, Any] = {
        "executionId": f"{execution[: 255 - 8]}{unique}",
        "correlationId": f"{correlation[: 255 - 8]}{unique}",
    }
    wait = product.register(**names)
    assert {name: wait[name] for name in names} == names
    shown = product.http.get(_path(wait))
    assert shown.status_code == 200, shown.text
    assert shown.json()["correlationId"] == names["correlationId"]
    for rest in ("log", "explain"):
        assert product.http.get(f"{_path(wait)}/{rest}").status_code == 200
    body = {"execution_id": names["executionId"], "correlation_id": names["correlationId"]}
    assert product.http.post(CALLBACKS, json=body).json()["verdict"] == "matched"
    with httpx.Client(trust_env=False) as sender:
        assert sender.post(wait["callbackUrl"], json={}).json()["verdict"] == "duplicate"
    assert product.http.delete(_path(wait)).json()["status"] == "cancelled"


@pytest.mark.parametrize(
    "path", ["%00/c", "a%0Ab/c", "%20a/c", "x" * 256 + "/c", "%ED%A0%80/c", "%FF/c", "a/%7F"]
)
@pytest.mark.parametrize("rest", ["", "/log", "/stream", "/explain"])
def test_what_cannot_be_an_id_is_404_in_a_path(product: Product, path: str, rest: str) -> None:
    assert_problem(product.http.get(f"{WAITS}/{path}{rest}"), 404, "not_found")


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
