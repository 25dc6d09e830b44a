"""Events over HTTP: in every shape, once, in batches, and refused by what is wrong."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.events import BATCH, EVENTS, created, post
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, new_id

STRUCTURED = {"Content-Type": "application/cloudevents+json"}
BATCHED = {"Content-Type": "application/cloudevents-batch+json"}


def shown(product: Product, event: dict[str, Any]) -> dict[str, Any]:
    reply = product.http.get(f"{EVENTS}/{event['id']}")
    assert reply.status_code == 200, reply.text
    document: dict[str, Any] = reply.json()
    return document


# Shapes


def test_the_seeds_own_request(product: Product) -> None:
    body = b'{"type": "order.created", "source": "ecommerce-api", "subject": "order:12345", '
    body += b'"data": {"amount":  99.990, "items": 3}}'
    reply = product.http.post(
        EVENTS, content=body, headers={"Content-Type": "application/json; charset=utf-8"}
    )
    document = created(reply)
    event = document["event"]
    assert (document["duplicate"], document["dispatchJobCount"]) == (False, 0)
    assert (event["type"], event["source"]) == ("order.created", "ecommerce-api")
    assert (event["subject"], event["specVersion"]) == ("order:12345", "1.0")
    assert len(event["id"]) == 13
    assert reply.headers["Location"] == f"{EVENTS}/{event['id']}"
    raw = product.http.get(reply.headers["Location"])
    assert b'{"amount":  99.990, "items": 3}' in raw.content
    assert raw.json() == event


def test_all_that_an_event_may_say(product: Product) -> None:
    given = {
        "type": "shop:orders:order:created",
        "source": "/shop/orders",
        "subject": "order:é",
        "time": "2026-01-31T12:00:00.123456Z",
        "dataContentType": "application/vnd.order+json",
        "dataSchema": "https://schemas.example/order",
        "typeVersion": "1.2",
        "causationId": new_id(),
        "correlationId": new_id(),
        "deduplicationId": new_id(),
        "messageGroup": "order:12345",
        "contextData": [{"key": "customer_id", "value": "cust_789"}],
        "data": [1, 2.5, None, "ä"],
    }
    event = created(product.http.post(EVENTS, json={**given, "traceparent": "00-1", "n": 1}))[
        "event"
    ]
    assert {name: event[name] for name in given} == given
    assert event["extensions"] == {"traceparent": "00-1", "n": 1}
    assert shown(product, event) == event


def test_data_as_a_text_is_the_document_in_it(product: Product) -> None:
    assert created(post(product, data='{"amount": 99.99}'))["event"]["data"] == {"amount": 99.99}
    assert created(post(product, data="amount"))["event"]["data"] == "amount"


def test_a_cloud_event_in_structured_mode(product: Product) -> None:
    cloud = {
        "specversion": "1.0",
        "id": new_id(),
        "source": "/shop",
        "type": "com.example.order",
        "datacontenttype": "text/xml",
        "data": "<order/>",
        "correlationid": "c",
        "messagegroup": "g",
    }
    reply = product.http.post(EVENTS, content=json.dumps(cloud), headers=STRUCTURED)
    event = created(reply)["event"]
    assert (event["data"], event["dataContentType"]) == ("<order/>", "text/xml")
    assert (event["correlationId"], event["messageGroup"]) == ("c", "g")
    assert event["deduplicationId"] == f"/shop/{cloud['id']}"
    again = product.http.post(EVENTS, content=json.dumps(cloud), headers=STRUCTURED)
    assert (again.status_code, again.json()["event"]["id"]) == (200, event["id"])


def test_a_cloud_event_in_binary_mode(product: Product) -> None:
    headers = {
        "ce-specversion": "1.0",
        "ce-id": new_id(),
        "ce-source": "/shop",
        "ce-type": "com.example.picture",
        "ce-subject": "Euro%20%E2%82%AC",
        "ce-time": "2026-01-31T12:00:00Z",
        "ce-own": "kept",
        "Content-Type": "image/png",
    }
    picture = bytes(range(256))
    event = created(product.http.post(EVENTS, content=picture, headers=headers))["event"]
    assert base64.b64decode(event["dataBase64"]) == picture
    assert (event["subject"], event["extensions"]) == ("Euro €", {"own": "kept"})
    assert (event["time"], event["dataContentType"]) == ("2026-01-31T12:00:00.000000Z", "image/png")
    assert shown(product, event) == event
    empty = headers | {"ce-id": new_id()}
    assert "data" not in created(product.http.post(EVENTS, headers=empty))["event"]


@pytest.mark.parametrize("path", [EVENTS, BATCH])
def test_a_batch_of_cloud_events(product: Product, path: str) -> None:
    batch = [
        {"specversion": "1.0", "id": new_id(), "source": "s", "type": "t", "data": index}
        for index in range(3)
    ]
    reply = product.http.post(path, content=json.dumps(batch), headers=BATCHED)
    document = created(reply)
    assert [event["data"] for event in document["events"]] == [0, 1, 2]
    assert (document["count"], document["duplicateCount"]) == (3, 0)


# Once


def test_what_is_known_is_answered_with_the_first(product: Product) -> None:
    once = new_id()
    first = created(post(product, deduplicationId=once, data={"n": 1}))["event"]
    again = post(product, deduplicationId=once, data={"n": 2}, subject="other")
    assert again.status_code == 200
    document = again.json()
    assert document == {"event": first, "duplicate": True, "dispatchJobCount": 0}
    assert again.headers["Location"] == f"{EVENTS}/{first['id']}"


def test_of_many_at_once_one_is_stored(product: Product) -> None:
    once, source = new_id(), new_id()
    with ThreadPoolExecutor(16) as pool:
        replies = list(
            pool.map(
                lambda n: post(product, deduplicationId=once, source=source, data=n), range(64)
            )
        )
    assert sorted(reply.status_code for reply in replies) == [200] * 63 + [201]
    assert len({reply.json()["event"]["id"] for reply in replies}) == 1
    assert len({reply.json()["event"]["data"] for reply in replies}) == 1
    found = product.http.get(EVENTS, params={"source": source}).json()["items"]
    assert len(found) == 1


def test_a_batch_counts_what_was_known(product: Product) -> None:
    known, twice = new_id(), new_id()
    first = created(post(product, deduplicationId=known))["event"]
    keys = [twice, known, None, twice]
    batch = [{"type": "t", "source": "s", "data": n} for n in range(4)]
    for event, key in zip(batch, keys, strict=True):
        if key is not None:
            event["deduplicationId"] = key
    document = created(product.http.post(BATCH, json=batch))
    assert (document["count"], document["duplicateCount"]) == (4, 2)
    ids = [event["id"] for event in document["events"]]
    assert (ids[1], ids[3]) == (first["id"], ids[0])
    assert document["events"][3]["data"] == 0


# Batches


def test_a_batch_is_stored_as_a_whole_or_not_at_all(product: Product) -> None:
    source = new_id()
    batch = [{"type": "t", "source": source} for _ in range(3)]
    wrong: list[dict[str, Any]] = [*batch, {"type": "t", "source": source, "time": "now"}]
    problem = assert_problem(product.http.post(BATCH, json=wrong), 422, "invalid")
    assert faulty_fields(problem) == {"[3].time"}
    assert product.http.get(EVENTS, params={"source": source}).json()["items"] == []
    created(product.http.post(BATCH, json=batch))
    assert len(product.http.get(EVENTS, params={"source": source}).json()["items"]) == 3


def test_a_thousand_events_and_no_more(product: Product) -> None:
    source = new_id()
    batch = [{"type": "t", "source": source, "data": n} for n in range(1_000)]
    document = created(product.http.post(BATCH, json=batch))
    assert [event["data"] for event in document["events"]] == list(range(1_000))
    ids = [event["id"] for event in document["events"]]
    assert ids == sorted(set(ids))
    batch.append(batch[0])
    for wrong in (batch, []):
        assert_problem(product.http.post(BATCH, json=wrong), 422, "invalid")


# Refusals


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"source": "s"}, "type"),
        ({"type": "t"}, "source"),
        ({"type": "t", "source": ""}, "source"),
        ({"type": "t", "source": "s\x00"}, "source"),
        ({"type": "t", "source": "s", "mesageGroup": "typo"}, "mesageGroup"),
        ({"type": "t", "source": "s", "specVersion": "0.3"}, "specVersion"),
        ({"type": "t", "source": "s", "specversion": "1.0"}, "id"),
        ({"type": "t", "source": "s", "contextData": [{"key": "a"}]}, "contextData[0]"),
        ([], "body"),
        ("event", "body"),
    ],
)
def test_an_event_that_breaks_a_rule_is_refused_by_its_field(
    product: Product, event: Any, field: str
) -> None:
    problem = assert_problem(product.http.post(EVENTS, json=event), 422, "invalid")
    assert faulty_fields(problem) == {field}


@pytest.mark.parametrize("path", [EVENTS, BATCH])
@pytest.mark.parametrize("raw", [b"", b"{", b'{"type": "t", "source": "s", "data": "\xff"}'])
def test_what_is_no_json_is_told_so(product: Product, path: str, raw: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    reply = product.http.post(path, content=raw, headers=headers)
    assert_problem(reply, 400, "malformed_json")


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        (EVENTS, "text/plain"),
        (EVENTS, "application/cloudevents+xml"),
        (BATCH, "application/cloudevents+json"),
        (BATCH, "text/csv"),
    ],
)
def test_other_media_types_are_415(product: Product, path: str, content_type: str) -> None:
    reply = product.http.post(path, content=b"{}", headers={"Content-Type": content_type})
    assert_problem(reply, 415, "unsupported_media_type")


def test_half_of_binary_mode_is_told_what_is_missing(product: Product) -> None:
    reply = product.http.post(EVENTS, content=b"{}", headers={"ce-type": "t", "ce-id": "1"})
    problem = assert_problem(reply, 422, "invalid")
    assert faulty_fields(problem) == {"ce-specversion"}


def test_a_path_tells_the_methods_that_are_its_own(product: Product) -> None:
    for path, methods in ((BATCH, "POST"), (EVENTS, "GET, POST"), (f"{EVENTS}/x", "GET")):
        reply = product.http.request("OPTIONS", path)
        assert_problem(reply, 405, "method_not_allowed")
        assert reply.headers["Allow"] == methods


# Counted


def test_events_are_counted(product: Product) -> None:
    def counted(outcome: str) -> float:
        lines = product.http.get("/metrics").text.splitlines()
        wanted = f'muster_events_posted_total{{outcome="{outcome}"'
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(wanted))

    before = {outcome: counted(outcome) for outcome in ("accepted", "duplicate", "refused")}
    once = new_id()
    for _ in range(3):
        post(product, deduplicationId=once)
    post(product, type="")
    after = {outcome: counted(outcome) for outcome in before}
    assert {name: after[name] - before[name] for name in before} == {
        "accepted": 1,
        "duplicate": 2,
        "refused": 1,
    }
