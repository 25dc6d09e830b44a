"""What cannot be an id, or is none: one problem document each, never a 500."""

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import BOTH, Product, id_headers, new_id

pytestmark = pytest.mark.usefixtures("never_a_500")

WAITS = "/api/wait-states"
CALLBACKS = "/api/internal/callbacks/external-service"
EVENTS = "/api/internal/events/process.completed"


def _path(wait: dict[str, Any]) -> str:
    ids = (quote(wait[name], safe="") for name in ("executionId", "correlationId"))
    return "/".join((WAITS, *ids))


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
        ({}, {}, "correlation_id execution_id"),
        ({}, None, "correlation_id execution_id"),
        ({}, [1], "correlation_id execution_id"),
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
    assert faulty_fields(problem) == {*missing.split()}
    for name in missing.split():
        header = "X-Correlation-Id" if name == "correlation_id" else "X-Execution-Id"
        assert f"header {header}" in problem["detail"]
        assert f"body field {name}" in problem["detail"]
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
    reply = product.http.post(CALLBACKS, json={}, headers=id_headers() | {header: event_id})
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {header.lower()}


@pytest.mark.parametrize("service", ["a%20b", "a%2Fb", "x" * 256, "a%0Ab", "%F0%9F%92%A9"])
def test_a_bad_service_or_topic_is_422(product: Product, service: str) -> None:
    for kind, field in (("callbacks", "service"), ("events", "topic")):
        reply = product.http.post(f"/api/internal/{kind}/{service}", json={}, headers=id_headers())
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
    "path", ["a%0Ab/c", "%20a/c", "x" * 256 + "/c", "%ED%A0%80/c", "%FF/c", "a/%7F"]
)
@pytest.mark.parametrize("rest", ["", "/log", "/stream", "/explain"])
def test_what_cannot_be_an_id_is_404_in_a_path(product: Product, path: str, rest: str) -> None:
    assert_problem(product.http.get(f"{WAITS}/{path}{rest}"), 404, "not_found")
