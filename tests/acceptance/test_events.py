"""Events over HTTP: in every shape, once, found again, held against types, brought to waits."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, new_id, until

EVENTS, BATCH, TYPES = "/api/events", "/api/events/batch", "/api/event-types"
SUBSCRIPTIONS = "/api/subscriptions"
STRUCTURED = {"Content-Type": "application/cloudevents+json"}
BATCHED = {"Content-Type": "application/cloudevents-batch+json"}
ORDER = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}


def post(product: Product, **event: Any) -> httpx.Response:
    body = {"type": "order.created", "source": "shop", **event}
    return product.http.post(EVENTS, json=body)


def created(reply: httpx.Response) -> dict[str, Any]:
    assert reply.status_code == 201, reply.text
    document: dict[str, Any] = reply.json()
    return document


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


# Found again


def test_events_are_found_by_what_they_say(product: Product) -> None:
    source = new_id()
    common = {"source": source, "time": "2026-01-31T12:00:00Z"}
    batch: list[dict[str, Any]] = [
        {"type": "order.created", "subject": "order:1", "contextData": pairs(a="1", b="2")},
        {"type": "order.paid", "correlationId": "c", "contextData": pairs(a="1")},
        {"type": "shop:orders:order:created", "messageGroup": "g", "data": {"n": 1}},
        {"type": "shop:stock:order:created", "time": "2026-02-01T00:00:00Z"},
    ]
    made = created(product.http.post(BATCH, json=[{**common, **one} for one in batch]))["events"]

    def found(**params: Any) -> list[int]:
        named = {name.strip("_"): value for name, value in params.items()}
        reply = product.http.get(EVENTS, params={"source": source, **named})
        assert reply.status_code == 200, reply.text
        order = [event["id"] for event in made]
        return [order.index(item["id"]) for item in reply.json()["items"]]

    assert found() == [3, 2, 1, 0]
    assert found(type="order.paid") == [1]
    assert found(type="order.*") == [1, 0]
    assert found(type="shop:*:order:*") == [3, 2]
    assert found(subject="order:1") == [0]
    assert found(correlationId="c") == [1]
    assert found(messageGroup="g") == [2]
    assert found(context="a=1") == [1, 0]
    assert found(context=["a=1", "b=2"]) == [0]
    assert found(from_="2026-02-01T00:00:00Z") == [3]
    assert found(to="2026-01-31T14:00:00+02:00") == []
    assert found(to="2026-02-01T00:00:00Z", type="*:*:*:created") == [2]
    (item,) = product.http.get(EVENTS, params={"source": source, "messageGroup": "g"}).json()[
        "items"
    ]
    assert item["dataSize"] == len('{"n":1}')
    assert "data" not in item


def pairs(**context: str) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in context.items()]


def test_a_listing_goes_page_by_page_newest_first(product: Product) -> None:
    source = new_id()
    batch = [{"type": "t", "source": source} for _ in range(5)]
    made = [event["id"] for event in created(product.http.post(BATCH, json=batch))["events"]]
    seen: list[str] = []
    params: dict[str, Any] = {"source": source, "limit": 2}
    while True:
        page = product.http.get(EVENTS, params=params).json()
        seen += [item["id"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        params["cursor"] = page["nextCursor"]
    assert seen == made[::-1]


@pytest.mark.parametrize(
    "params",
    [
        {"limit": 0},
        {"limit": 501},
        {"cursor": "!"},
        {"context": "region"},
        {"from": "yesterday"},
        {"from": "0.5"},
        {"to": "1750000000"},
        {"from": "2026-01-31T12:00:00"},
        {"type": "a\x00"},
        {"typ": "a"},
    ],
)
def test_a_question_that_cannot_be_meant_is_refused(
    product: Product, params: dict[str, Any]
) -> None:
    assert_problem(product.http.get(EVENTS, params=params), 422, "invalid")


@pytest.mark.parametrize("event_id", ["0000000000000", "nobody", "batch", "%00"])
def test_an_event_that_is_not_there_is_404(product: Product, event_id: str) -> None:
    assert_problem(product.http.get(f"{EVENTS}/{event_id}"), 404, "not_found")


# Types


@pytest.fixture
def typed(product: Product) -> str:
    """A type with a version in force that wants an id, and the next one in the making."""
    code = f"shop:s{new_id()[:12]}:order:created"
    product.http.post(TYPES, json={"code": code, "name": "Order created"})
    for version, schema in (("1.0", ORDER), ("2.0", {"type": "array"})):
        body = {"version": version, "schema": schema}
        assert product.http.post(f"{TYPES}/{code}/schemas", json=body).status_code == 201
    finalised = product.http.post(f"{TYPES}/{code}/schemas/1.0/finalise")
    assert finalised.status_code == 200
    return code


def test_data_that_its_type_does_not_allow_is_refused_with_its_path(
    product: Product, typed: str
) -> None:
    event = created(post(product, type=typed, data={"id": "1"}))["event"]
    assert event["typeVersion"] == "1.0"
    for wrong in ({"id": 1}, {}, None, [], "text"):
        problem = assert_problem(post(product, type=typed, data=wrong), 422, "schema_mismatch")
        (field,) = faulty_fields(problem)
        assert field.startswith("data")
        assert f"{typed} 1.0" in problem["detail"]
    batch = [{"type": typed, "source": "s", "data": data} for data in ({"id": "1"}, {"id": 1})]
    problem = assert_problem(product.http.post(BATCH, json=batch), 422, "schema_mismatch")
    assert all(field.startswith("[1].data") for field in faulty_fields(problem))
    found = product.http.get(EVENTS, params={"type": typed}).json()["items"]
    assert [item["id"] for item in found] == [event["id"]]


def test_what_does_not_fit_a_draft_is_stored_with_a_warning(product: Product, typed: str) -> None:
    document = created(post(product, type=typed, typeVersion="2.0", data={"id": "1"}))
    assert document["warnings"][0]["expected"]
    assert document["event"]["typeVersion"] == "2.0"
    schema = "https://schemas.example/order/2.0"
    assert "warnings" not in created(post(product, type=typed, dataSchema=schema, data=[]))
    batch = [
        {"type": typed, "source": "s", "data": {"id": "1"}},
        {"type": typed, "source": "s", "typeVersion": "2.0", "data": 5},
    ]
    warned = created(product.http.post(BATCH, json=batch))["warnings"]
    assert [one["index"] for one in warned] == [1]


def test_a_change_of_the_type_holds_at_once(product: Product, typed: str) -> None:
    assert_problem(post(product, type=typed, data={}), 422, "schema_mismatch")
    product.http.patch(f"{TYPES}/{typed}", json={"validation": "warn"})
    until("the change", lambda: post(product, type=typed, data={}).status_code == 201, within=5)
    assert created(post(product, type=typed, data={}))["warnings"]


# Who wants it


def subscribe(product: Product, pattern: str, **more: Any) -> str:
    """Somebody who wants these events, long after this test is over."""
    body = {
        "code": f"s{new_id()}",
        "name": "test",
        "eventTypes": [{"eventTypeCode": pattern}],
        "target": "http://127.0.0.1:9/hook",
        "delaySeconds": 3_600,
        **more,
    }
    reply = product.http.post(SUBSCRIPTIONS, json=body)
    assert reply.status_code == 201, reply.text
    code: str = reply.json()["code"]
    return code


def test_a_job_is_made_for_each_who_wants_an_event(product: Product) -> None:
    subdomain = f"s{new_id()[:12]}"
    type_ = f"shop:{subdomain}:order:created"
    all_ = subscribe(product, f"shop:{subdomain}:*:*")
    large = subscribe(product, type_, filter="data.amount > 100")
    subscribe(product, f"shop:{subdomain}:line:*")
    document = created(post(product, type=type_, data={"amount": 500}, messageGroup="g"))
    assert document["dispatchJobCount"] == 2
    jobs = product.http.get(f"/api/dispatch-jobs/event/{document['event']['id']}").json()["items"]
    assert {job["messageGroup"] for job in jobs} == {f"{all_}:g", f"{large}:g"}
    once = {"type": type_, "source": "s", "deduplicationId": new_id(), "data": {"amount": 5}}
    batch = created(product.http.post(BATCH, json=[once, once, {**once, "type": "other"}]))
    assert (batch["dispatchJobCount"], batch["duplicateCount"]) == (1, 2)


# Waits


def awaits(topic: str) -> dict[str, Any]:
    return {"kafkaEvent": {"topic": topic, "filter": {"paid": True}}, "timeout": 60}


@pytest.mark.parametrize("topic", ["order.paid", "shop:orders:order:paid"])
def test_an_event_completes_the_wait_it_names(placed: Product, topic: str) -> None:
    wait = placed.register(awaits(topic))
    ids = {name: wait[name] for name in ("executionId", "correlationId")}
    other = created(post(placed, type="other", **ids, data={"paid": True}))["wait"]
    assert (other["verdict"], other["reason"]) == ("rejected", "label_not_expected")
    unpaid = created(post(placed, type=topic, **ids, data={"paid": False}))["wait"]
    assert (unpaid["verdict"], unpaid["reason"]) == ("rejected", "filtered_out")
    document = created(post(placed, type=topic, **ids, data={"paid": True, "sum": 5}))
    assert (document["wait"]["verdict"], document["wait"]["waitStatus"]) == ("matched", "completed")
    assert document["wait"]["eventId"].endswith(document["event"]["id"])
    assert placed.show(wait)["events"]["kafka_event"]["data"] == {"paid": True, "sum": 5}


def test_an_event_may_come_before_its_wait(placed: Product) -> None:
    ids = {"executionId": new_id(), "correlationId": new_id()}
    early = created(post(placed, type="order.paid", **ids, data={"paid": True}))["wait"]
    assert (early["verdict"], early["reason"]) == ("buffered", "no_wait_yet")
    wait = placed.register(awaits("order.paid"), **ids)
    assert placed.show(wait, wait=10)["status"] == "completed"


def test_sent_again_an_event_reaches_its_wait_if_it_had_not(product: Product) -> None:
    """As after a crash between the two: here its wait is registered in between."""
    once = {"deduplicationId": new_id(), "type": "order.paid", "data": {"paid": True}}
    ids = {"executionId": new_id(), "correlationId": new_id()}
    created(post(product, **once, **ids))
    wait = product.register(awaits("order.paid"), **ids)
    again = post(product, **once, **ids)
    assert again.status_code == 200
    assert again.json()["wait"]["verdict"] in {"matched", "duplicate"}
    assert product.show(wait)["status"] == "completed"


def test_a_batch_reaches_many_waits(product: Product) -> None:
    waits = [product.register(awaits("order.paid")) for _ in range(5)]
    batch: list[dict[str, Any]] = [{"type": "t", "source": "s"}]
    for wait in waits:
        ids = {name: wait[name] for name in ("executionId", "correlationId")}
        batch.append({"type": "order.paid", "source": "s", "data": {"paid": True}, **ids})
    told = created(product.http.post(BATCH, json=batch))["waits"]
    assert [one["index"] for one in told] == [1, 2, 3, 4, 5]
    assert {one["verdict"] for one in told} == {"matched"}
    assert all(product.show(wait)["status"] == "completed" for wait in waits)


def test_one_id_alone_is_for_tracing(product: Product) -> None:
    assert "wait" not in created(post(product, correlationId=new_id()))


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
