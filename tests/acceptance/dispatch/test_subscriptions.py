"""Subscriptions over HTTP: made, changed, declared; which events they get; their secrets."""

import base64
import re
from typing import Any

import httpx
import pytest

from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, new_id
from tests.support.subscriptions import new_type, subscription_body
from tests.support.tenants import client, create_key

SUBSCRIPTIONS, EVENTS = "/api/subscriptions", "/api/events"
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()


def create(product: Product, **fields: Any) -> dict[str, Any]:
    reply = product.http.post(SUBSCRIPTIONS, json=subscription_body(**fields))
    assert reply.status_code == 201, reply.text
    document: dict[str, Any] = reply.json()
    return document


def path(made: dict[str, Any], rest: str = "") -> str:
    return f"{SUBSCRIPTIONS}/{made['code']}{rest}"


def jobs_of(product: Product, type_: str, data: Any = None, **fields: Any) -> int:
    """How many deliveries an event of this type makes."""
    body = {"type": type_, "source": "shop", "data": data, **fields}
    reply = product.http.post(EVENTS, json=body)
    assert reply.status_code == 201, reply.text
    count: int = reply.json()["dispatchJobCount"]
    return count


# What a subscription is


def test_a_subscription_begins_with_the_usual_values(product: Product) -> None:
    type_ = new_type()
    body = {
        "code": f"code-{new_id()}",
        "name": "Orders",
        "eventTypes": [{"eventTypeCode": type_}],
        "target": "https://example.org/hook?a=1",
    }
    reply = product.http.post(SUBSCRIPTIONS, json=body)
    assert reply.status_code == 201, reply.text
    made = reply.json()
    assert re.fullmatch(r"sub_[0-9A-Z]{13}", made["id"])
    expected = {
        "name": "Orders",
        "description": None,
        "anchorLevel": False,
        "eventTypes": [{"eventTypeCode": type_, "eventTypeId": None, "specVersion": None}],
        "target": "https://example.org/hook?a=1",
        "queue": None,
        "dispatchPoolId": "dpl_default",
        "dispatchPoolCode": "default",
        "mode": "IMMEDIATE",
        "timeoutSeconds": 30,
        "maxAgeSeconds": 86400,
        "delaySeconds": 0,
        "maxRetries": 3,
        "sequence": 99,
        "dataOnly": True,
        "filter": None,
        "headers": {},
        "auth": None,
        "signature": "standard",
        "customConfig": [],
        "source": "API",
        "application": None,
        "status": "ACTIVE",
        "statusReason": None,
        "failingSince": None,
        "version": 1,
    }
    assert made.items() >= expected.items()
    for name in (made["id"], made["code"]):
        assert product.http.get(f"{SUBSCRIPTIONS}/{name}").json() == made
        # As the first of its kind is spelled.
        assert product.http.get(f"/api/admin/subscriptions/{name}").json() == made


def test_all_that_a_subscription_may_say(product: Product) -> None:
    code = new_type()
    product.http.post("/api/event-types", json={"code": code, "name": "Created"})
    type_id = product.http.get(f"/api/event-types/{code}").json()["id"]
    given = {
        "description": "all of it",
        "queue": "orders.fifo",
        "dispatchPoolId": "dpl_default",
        "mode": "BLOCK_ON_ERROR",
        "timeoutSeconds": 5,
        "maxAgeSeconds": 60,
        "delaySeconds": 7,
        "maxRetries": 8,
        "sequence": 9,
        "dataOnly": False,
        "filter": "data.amount > 100",
        "signature": "classic",
        "customConfig": [{"key": "team", "value": "orders"}],
        "source": "UI",
        "status": "PAUSED",
    }
    made = create(
        product,
        **given,
        eventTypes=[{"eventTypeId": type_id, "specVersion": "1.*"}, {"eventTypeCode": "*"}],
    )
    assert made.items() >= given.items()
    assert made["eventTypes"] == [
        {"eventTypeCode": "*", "eventTypeId": None, "specVersion": None},
        {"eventTypeCode": code, "eventTypeId": type_id, "specVersion": "1.*"},
    ]


def test_secrets_go_in_and_never_come_out(product: Product) -> None:
    made = create(
        product,
        headers={"X-Key": "hush-header"},
        auth={"type": "bearer", "token": "hush-token"},
        secret=SECRET,
    )
    assert made["headers"] == {"X-Key": "•••"}
    assert made["auth"] == {"type": "bearer", "secret": "•••"}
    shown = [
        product.http.get(path(made)),
        product.http.get(SUBSCRIPTIONS, params={"limit": 500}),
        product.http.patch(path(made), json={"name": "Other"}),
        product.http.post(path(made, "/pause")),
        product.http.put(path(made), json=subscription_body(code=made["code"])),
    ]
    for reply in shown:
        assert reply.status_code == 200, reply.text
        assert "hush" not in reply.text
        assert SECRET not in reply.text
    # Left out, they stayed.
    assert shown[-1].json()["headers"] == {"X-Key": "•••"}
    assert shown[-1].json()["auth"] == {"type": "bearer", "secret": "•••"}
    gone = product.http.put(
        path(made), json=subscription_body(code=made["code"], headers={}, auth=None)
    ).json()
    assert (gone["headers"], gone["auth"]) == ({}, None)


@pytest.mark.parametrize(
    "target",
    ["https://other.example/hook", "http://example.org/hook", "https://example.org:8443/hook"],
)
def test_credentials_do_not_follow_to_another_origin(product: Product, target: str) -> None:
    credentials = {
        "headers": {"X-Key": "hush-header"},
        "auth": {"type": "bearer", "token": "hush-token"},
    }
    made = create(product, target="https://example.org/hook", **credentials)
    whole = subscription_body(code=made["code"], target=target)
    for reply in (
        product.http.patch(path(made), json={"target": target}),
        product.http.put(path(made), json=whole),
    ):
        assert_problem(reply, 422, "invalid")
        assert [fault["field"] for fault in reply.json()["errors"]] == ["auth", "headers"]
        assert "hush" not in reply.text
    partly = product.http.patch(path(made), json={"target": target, "headers": {}})
    assert [fault["field"] for fault in partly.json()["errors"]] == ["auth"]
    assert product.http.get(path(made)).json()["target"] == "https://example.org/hook"
    near = product.http.patch(path(made), json={"target": "https://example.org/elsewhere"}).json()
    assert near["auth"] == {"type": "bearer", "secret": "•••"}, "the same origin may keep them"
    moved = product.http.patch(path(made), json={"target": target, **credentials}).json()
    assert (moved["target"], moved["headers"]) == (target, {"X-Key": "•••"})
    back = {"target": "https://example.org/hook", "headers": {}, "auth": None}
    assert product.http.patch(path(made), json=back).json()["auth"] is None
    free = product.http.patch(path(made), json={"target": target})
    assert free.status_code == 200, "without any there is nothing to say again"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"code": "A"}, "code"),
        ({"code": "a"}, "code"),
        ({"code": "a" * 101}, "code"),
        ({"name": ""}, "name"),
        ({"eventTypes": []}, "eventTypes"),
        ({"eventTypes": [{}]}, "eventTypes[0]"),
        ({"eventTypes": [{"eventTypeCode": "a:b:*"}]}, "eventTypes[0].eventTypeCode"),
        ({"eventTypes": [{"eventTypeCode": "a", "specVersion": "1"}]}, "eventTypes[0].specVersion"),
        ({"eventTypes": [{"eventTypeCode": "a"}] * 2}, "eventTypes"),
        ({"eventTypes": [{"eventTypeId": "evt_0000000000000"}]}, "eventTypes[0].eventTypeId"),
        ({"target": "ftp://example.org/"}, "target"),
        ({"target": "http://169.254.169.254/latest"}, "target"),
        ({"target": "http://10.0.0.1/"}, "target"),
        ({"target": "http://[::ffff:10.0.0.1]/"}, "target"),
        ({"target": "http://user:pass@example.org/"}, "target"),
        ({"dispatchPoolId": "nobody"}, "dispatchPoolId"),
        ({"mode": "LATER"}, "mode"),
        ({"timeoutSeconds": 0}, "timeoutSeconds"),
        ({"maxRetries": 0}, "maxRetries"),
        ({"filter": "data.amount >"}, "filter"),
        ({"filter": "data.a.matches('(a{0,50}){0,20}b')"}, "filter"),
        ({"headers": {"Webhook-Id": "mine"}}, "headers"),
        ({"headers": {"X-A": "a\nb"}}, "headers"),
        ({"auth": {"type": "digest"}}, "auth"),
        ({"secret": "whsec_c2hvcnQ="}, "secret"),
        ({"more": 1}, "more"),
    ],
)
def test_what_is_wrong_is_named(product: Product, fields: dict[str, Any], field: str) -> None:
    reply = product.http.post(SUBSCRIPTIONS, json=subscription_body(**fields))
    problem = assert_problem(reply, 422, "invalid")
    assert faulty_fields(problem) == {field}


def test_codes_are_taken_once(product: Product) -> None:
    made = create(product)
    reply = product.http.post(SUBSCRIPTIONS, json=subscription_body(code=made["code"]))
    assert_problem(reply, 409, "code_exists")


def test_a_subscription_changes_and_ends(product: Product) -> None:
    made = create(product, description="once", filter="data.a == 1")
    changed = product.http.patch(path(made), json={"name": "Other", "description": None}).json()
    assert (changed["name"], changed["description"]) == ("Other", None)
    assert (changed["filter"], changed["version"]) == ("data.a == 1", 1)
    changed = product.http.patch(path(made), json={"filter": None, "maxRetries": 5}).json()
    assert (changed["filter"], changed["maxRetries"], changed["version"]) == (None, 5, 2)
    anew = product.http.put(
        path(made), json=subscription_body(code=made["code"], name="Anew")
    ).json()
    assert (anew["id"], anew["name"], anew["maxRetries"]) == (made["id"], "Anew", 3)
    reply = product.http.put(path(made), json=subscription_body(name="Anew"))
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {"code"}
    for body in ({}, {"name": None}, {"target": "http://10.1.1.1/"}, {"code": "other"}):
        assert_problem(product.http.patch(path(made), json=body), 422, "invalid")
    assert product.http.delete(path(made)).status_code == 204
    for method in ("GET", "DELETE"):
        reply = product.http.request(method, path(made))
        assert_problem(reply, 404, "subscription_not_found")


def test_subscriptions_are_found_by_what_they_are(product: Product, stranger: Product) -> None:
    type_ = new_type()
    one = create(stranger, code=f"a-{new_id()}", eventTypes=[{"eventTypeCode": type_}])
    two = create(stranger, code=f"b-{new_id()}", source="UI", status="PAUSED")

    def codes(**params: Any) -> list[str]:
        page = stranger.http.get(SUBSCRIPTIONS, params=params).json()
        assert page["total"] >= len(page["items"])
        return [each["code"] for each in page["items"]]

    assert {one["code"], two["code"]} <= set(codes(limit=500))
    assert two["code"] in codes(status="PAUSED", limit=500)
    assert one["code"] not in codes(status="PAUSED", limit=500)
    assert two["code"] in codes(source="UI", limit=500)
    assert one["code"] in codes(eventType=type_)
    assert one["code"] in codes(pool="default", limit=500)
    assert one["code"] in codes(dispatchPoolId="dpl_default", limit=500)
    assert codes(pool="nobody") == []
    assert codes(anchorLevel="true") == []
    assert one["code"] in codes(anchorLevel="false", limit=500)
    page = stranger.http.get(SUBSCRIPTIONS, params={"limit": 1}).json()
    assert page["nextCursor"] == page["items"][0]["code"]
    rest = codes(cursor=page["nextCursor"], limit=500)
    assert page["items"][0]["code"] not in rest
    assert_problem(product.http.get(SUBSCRIPTIONS, params={"clientId": "a"}), 422, "invalid")


# Which events they get


def test_events_make_deliveries_as_soon_as_somebody_wants_them(product: Product) -> None:
    type_ = new_type()
    assert jobs_of(product, type_) == 0  # and this is remembered
    made = create(product, eventTypes=[{"eventTypeCode": type_}])
    assert jobs_of(product, type_) == 1
    assert product.http.post(path(made, "/pause")).json()["status"] == "PAUSED"
    assert jobs_of(product, type_) == 0
    assert product.http.post(path(made, "/resume")).json()["status"] == "ACTIVE"
    assert jobs_of(product, type_) == 1
    product.http.patch(path(made), json={"eventTypes": [{"eventTypeCode": new_type()}]})
    assert jobs_of(product, type_) == 0
    product.http.patch(path(made), json={"eventTypes": [{"eventTypeCode": type_}]})
    product.http.delete(path(made))
    assert jobs_of(product, type_) == 0


def test_segments_may_be_left_open(product: Product) -> None:
    subdomain = f"s{new_id()[:12]}"
    for pattern in (f"shop:{subdomain}:*:created", f"*:{subdomain}:*:*"):
        create(product, eventTypes=[{"eventTypeCode": pattern}])
    assert jobs_of(product, f"shop:{subdomain}:order:created") == 2
    assert jobs_of(product, f"crm:{subdomain}:customer:created") == 1
    assert jobs_of(product, f"shop:x{subdomain}:order:created") == 0


def test_only_what_the_filter_lets_pass_is_delivered(product: Product) -> None:
    type_ = new_type()
    create(
        product,
        eventTypes=[{"eventTypeCode": type_}],
        filter="data.amount > 100 && event.source == 'shop'",
    )
    assert jobs_of(product, type_, {"amount": 101}) == 1
    assert jobs_of(product, type_, {"amount": 100}) == 0
    assert jobs_of(product, type_, {"amount": 101}, source="other") == 0
    assert jobs_of(product, type_, {}) == 0
    assert jobs_of(product, type_, "not what was meant") == 0
    assert jobs_of(product, type_) == 0


def test_the_anchor_gets_every_tenants_events(
    product: Product, stranger: Product, anchor: Product
) -> None:
    type_ = new_type()
    made = create(anchor, eventTypes=[{"eventTypeCode": type_}])
    assert made["anchorLevel"] is True
    try:
        assert jobs_of(product, type_) == 1
        assert jobs_of(stranger, type_) == 1
        assert jobs_of(anchor, type_) == 1
        reply = product.http.get(path(made))
        assert_problem(reply, 404, "subscription_not_found")
        found = anchor.http.get(SUBSCRIPTIONS, params={"anchorLevel": True, "limit": 500})
        assert made["code"] in found.text
    finally:
        assert anchor.http.delete(path(made)).status_code == 204
    assert jobs_of(product, type_) == 0


# Secrets


def secrets_of(reply: httpx.Response) -> list[str]:
    assert reply.status_code == 200, reply.text
    assert reply.headers["Cache-Control"] == "no-store"
    document = reply.json()
    found = [one["secret"] for one in document["secrets"]]
    assert document["secret"] == found[0]
    assert document["secrets"][0]["expiresAt"] is None
    assert all(one["expiresAt"] for one in document["secrets"][1:])
    return found


@pytest.mark.parametrize("whose", ["subscription", "tenant"])
def test_a_secret_is_replaced_while_the_old_one_still_signs(product: Product, whose: str) -> None:
    base = path(create(product), "/secret") if whose == "subscription" else "/api/webhook-secret"
    before = secrets_of(product.http.get(base))
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", before[0])
    rotated = secrets_of(product.http.post(f"{base}/rotate", json={}))
    assert rotated[1] == before[0]
    given = {"secret": SECRET, "overlapSeconds": 0}
    assert secrets_of(product.http.post(f"{base}/rotate", json=given)) == [SECRET]
    assert secrets_of(product.http.get(base)) == [SECRET]
    for body in ({"secret": "hush"}, {"overlapSeconds": -1}, {"secret": "whsec_aHVzaA=="}):
        problem = assert_problem(product.http.post(f"{base}/rotate", json=body), 422, "invalid")
        assert "hush" not in str(problem)
        assert "aHVzaA" not in str(problem)


def test_who_may_only_look_sees_no_secret(product: Product) -> None:
    made = create(product)
    key = create_key(product, ["subscriptions:read"])["key"]
    with client(product, key) as http:
        assert http.get(path(made)).status_code == 200
        assert_problem(http.get(path(made, "/secret")), 403, "forbidden")


# Declared as a whole


def test_an_application_declares_its_subscriptions(product: Product) -> None:
    application = f"app{new_id()[:12]}"
    sync = f"/api/applications/{application}/subscriptions/sync"
    one, two = subscription_body(), subscription_body()
    declared: dict[str, Any] = {"subscriptions": [one, two]}
    rehearsed = product.http.post(sync, json=declared | {"dryRun": True}).json()
    assert (rehearsed["dryRun"], rehearsed["created"]) == (True, [one["code"], two["code"]])
    assert product.http.get(f"{SUBSCRIPTIONS}/{one['code']}").status_code == 404
    assert product.http.post(sync, json=declared).json()["created"] == rehearsed["created"]
    shown = product.http.get(f"{SUBSCRIPTIONS}/{one['code']}").json()
    assert (shown["application"], shown["source"]) == (application, "CODE")
    declared = {"subscriptions": [one | {"name": "Other"}], "removeUnlisted": True}
    done = product.http.post(sync, json=declared).json()
    assert (done["updated"], done["removed"]) == ([one["code"]], [two["code"]])
    assert product.http.post(sync, json=declared).json()["unchanged"] == [one["code"]]
    by_hand = create(product)
    declared = {"subscriptions": [subscription_body(), subscription_body(code=by_hand["code"])]}
    problem = assert_problem(product.http.post(sync, json=declared), 409, "code_exists")
    assert by_hand["code"] in problem["detail"]
    declared = {"subscriptions": [subscription_body(), subscription_body(filter="data.")]}
    problem = assert_problem(product.http.post(sync, json=declared), 422, "invalid")
    assert faulty_fields(problem) == {"subscriptions[1].filter"}
