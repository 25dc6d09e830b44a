"""Others follow what happens to records: webhooks by subscriptions."""

import json
from typing import Any

import httpx
import pytest

from core.records.validation import MASK
from tests.acceptance.records.test_records import Orders, make_orders
from tests.support.dispatching import DispatchApi
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, until
from tests.support.receiver import Delivery, Target
from tests.support.subscriptions import subscription_body
from tests.support.tenants import another_tenant

RESERVED = "muster:records:orders:created"


def follow(tenant: DispatchApi, pattern: str, **fields: Any) -> Target:
    """Subscribe to events of record changes; return where they are delivered."""
    target = tenant.receiver.place()
    usual = {"dispatchPoolId": tenant.pool, "mode": "BLOCK_ON_ERROR", "delaySeconds": 0}
    types = [{"eventTypeCode": pattern}]
    body = subscription_body(target=target.url, eventTypes=types, **usual | fields)
    reply = tenant.http.post("/api/subscriptions", json=body)
    assert reply.status_code == 201, reply.text
    return target


def kinds(deliveries: list[Delivery]) -> list[str]:
    return [one.document["changeType"] for one in deliveries]


def follow_until_told(tenant: DispatchApi, orders: Orders, target: Target) -> None:
    """Wait until the shards know of the subscription, which takes a moment."""

    def is_told() -> bool:
        orders.create()
        return bool(target.deliveries)

    until("a change is delivered", is_told)


@pytest.fixture
def orders(shipper: DispatchApi) -> Orders:
    return make_orders(shipper.http)


def test_a_webhook_follows_a_collection(shipper: DispatchApi, orders: Orders) -> None:
    target = follow(shipper, f"muster:records:{orders.name}:*")
    follow_until_told(shipper, orders, target)
    made = orders.create(card="4111 1111")
    path = f"{orders.path}/{made['id']}"
    paid = shipper.http.patch(path, json={"status": "paid", "card": "4222 2222"}).json()
    assert shipper.http.delete(path).status_code == 204

    def own() -> list[Delivery]:
        return [one for one in target.deliveries if one.document["recordId"] == made["id"]]

    until("all of it is told", lambda: len(own()) == 3)
    assert kinds(own()) == ["CREATED", "UPDATED", "DELETED"]
    created, updated, deleted = (one.document for one in own())
    assert (created["version"], created["previousData"]) == (1, None)
    assert created["data"]["total"] == 10
    assert (created["collectionName"], updated["collectionName"]) == (orders.name, orders.name)
    assert updated["data"]["status"] == deleted["data"]["status"] == "paid"
    assert updated["previousData"]["status"] == "open"
    assert updated["previousData"]["total"] == 10
    assert sorted(updated["changedFields"]) == ["card", "status"]
    assert updated["userId"] == paid["updatedBy"]
    assert updated["data"]["card"] == updated["previousData"]["card"] == MASK
    assert not any(b"4111" in one.body or b"4222" in one.body for one in own())
    headers = own()[1].headers
    assert headers["x-muster-event-type"] == f"muster:records:{orders.name}:updated"
    assert headers["x-muster-event-id"] == updated["eventId"]
    event = shipper.http.get(f"/api/events/{updated['eventId']}").json()
    assert (event["source"], event["subject"]) == ("muster", f"{orders.name}/{made['id']}")


def test_a_filter_chooses_among_changes(shipper: DispatchApi, orders: Orders) -> None:
    pattern = f"muster:records:{orders.name}:updated"
    target = follow(shipper, pattern, filter='"status" in data.changedFields')
    everything = follow(shipper, f"muster:records:{orders.name}:*")
    follow_until_told(shipper, orders, everything)
    path = f"{orders.path}/{orders.create()['id']}"
    shipper.http.patch(path, json={"total": 11})
    shipper.http.patch(path, json={"status": "paid"})
    (told,) = target.gets(1)
    assert told.document["changedFields"] == ["status"]
    assert told.document["version"] == 3


def test_another_tenant_is_told_nothing(shipper: DispatchApi, orders: Orders) -> None:
    target = follow(shipper, "muster:records:*:*")
    follow_until_told(shipper, orders, target)
    with another_tenant(shipper.product) as other:
        fields = [{"name": "name", "type": "STRING"}]
        body = {"name": orders.name, "fields": fields}
        assert other.http.post("/control/collections", json=body).status_code == 201
        theirs = other.http.post(orders.path, json={"name": "secret"})
        assert theirs.status_code == 201, theirs.text
        listed = other.http.get("/api/events", params={"type": "muster:records:*:*"})
        assert listed.json()["items"] == []  # nobody of its own follows it
    last = orders.create()["id"]
    until(
        "the last of its own came",
        lambda: any(one.document["recordId"] == last for one in target.deliveries),
    )
    assert all(b"secret" not in one.body for one in target.deliveries)


def _plain(http: httpx.Client) -> httpx.Response:
    return http.post("/api/events", json={"type": RESERVED, "source": "me"})


def _structured(http: httpx.Client) -> httpx.Response:
    body = {"specversion": "1.0", "id": "1", "type": RESERVED, "source": "me"}
    kind = {"Content-Type": "application/cloudevents+json"}
    return http.post("/api/events", content=json.dumps(body), headers=kind)


def _binary(http: httpx.Client) -> httpx.Response:
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": RESERVED, "ce-source": "me"}
    return http.post("/api/events", content=b"{}", headers=headers)


@pytest.mark.parametrize(
    ("send", "field"), [(_plain, "type"), (_structured, "type"), (_binary, "ce-type")]
)
def test_nobody_else_sends_such_events(product: Product, send: Any, field: str) -> None:
    reply = send(product.http)
    document = assert_problem(reply, 422, "invalid")
    assert faulty_fields(document) == {field}
    assert "when a record changes" in reply.text
