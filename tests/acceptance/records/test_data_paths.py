"""Data paths over HTTP and on the command line, on the running product."""

import json
from typing import Any

import pytest

from tests.acceptance.records.shop import Shop
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product
from tests.support.tenants import client, create_key

VALIDATE, RESOLVE = "/control/data-paths/validate", "/control/data-paths/resolve"
EMAIL = "order_id.customer_id.email"


@pytest.fixture(scope="module")
def shop(product: Product) -> Shop:
    made = Shop(product)
    made.fill()
    return made


def resolve(shop: Shop, *expressions: str, **more: Any) -> Any:
    body = {"rootCollectionId": shop.name("lines"), "expressions": expressions, **more}
    reply = shop.owner.http.post(RESOLVE, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_the_tree_shows_what_paths_can_read(shop: Shop) -> None:
    path = f"/control/collections/{shop.name('lines')}/data-paths"
    found = shop.owner.http.get(path).json()
    order, product = found["fields"]
    assert (found["depth"], found["isTruncated"]) == (2, False)
    assert found["systemFields"][:2] == ["createdAt", "createdBy"]
    assert product == {"name": "product", "type": "STRING", "isRelationship": False}
    assert (order["type"], order["isRelationship"]) == ("LOOKUP", True)
    assert order["targetCollectionId"] == shop.ids["orders"]
    assert order["targetCollection"] == shop.name("orders")
    assert [child["name"] for child in order["children"]] == ["customer_id", "total", "status"]
    assert "children" not in order["children"][0]
    by_id = f"/control/collections/{shop.ids['lines']}/data-paths"
    deeper = shop.owner.http.get(by_id, params={"depth": 3}).json()["fields"][0]
    customer = deeper["children"][0]
    assert [child["name"] for child in customer["children"]] == ["email", "name", "token"]


@pytest.mark.parametrize("depth", ["0", "6", "x"])
def test_the_depth_is_limited(shop: Shop, depth: str) -> None:
    path = f"/control/collections/{shop.name('lines')}/data-paths"
    problem = assert_problem(shop.owner.http.get(path, params={"depth": depth}), 422, "invalid")
    assert faulty_fields(problem) == {"depth"}


def test_one_path_is_answered_by_itself(shop: Shop) -> None:
    body = {"rootCollectionId": shop.ids["lines"], "expression": EMAIL}
    assert shop.owner.http.post(VALIDATE, json=body).json() == {
        "expression": EMAIL,
        "valid": True,
        "errorMessage": None,
        "errorSegment": None,
        "terminalFieldName": "email",
        "terminalFieldType": "EMAIL",
        "terminalCollectionName": shop.name("customers"),
    }


def test_many_paths_are_validated_at_once(shop: Shop) -> None:
    given = [EMAIL, "order_id.totl", "product.x", "a..b", "x." * 50 + "y", "SCRIPT[check].score"]
    body = {"rootCollectionId": shop.name("lines"), "expressions": given}
    found = shop.owner.http.post(VALIDATE, json=body).json()
    assert not found["valid"]
    assert [one["valid"] for one in found["items"]] == [True, False, False, False, False, True]
    messages = [one["errorMessage"] for one in found["items"]]
    assert messages[1] == f"collection {shop.name('orders')} has no field totl; did you mean total?"
    assert "of type STRING and cannot be followed" in messages[2]
    assert messages[3] == "segment 2 is empty"
    assert "10 hops at most" in messages[4]


def test_paths_of_a_stored_record_are_resolved_with_their_provenance(shop: Shop) -> None:
    found = resolve(shop, EMAIL, "product", "order_id.version", recordId="l1", provenance=True)
    assert found["values"] == {EMAIL: "jo@example.com", "product": "tea", "order_id.version": 3}
    line = {"collection": shop.name("lines"), "recordId": "l1", "version": 1}
    order = {"collection": shop.name("orders"), "recordId": "o1", "version": 3}
    customer = {"collection": shop.name("customers"), "recordId": "c1", "version": 1}
    assert found["provenance"] == {
        EMAIL: [line, order, customer],
        "product": [line],
        "order_id.version": [line, order],
    }


def test_paths_of_a_record_that_is_sent_along_are_resolved(shop: Shop) -> None:
    record = {"order_id": "o1", "product": None}
    assert resolve(shop, "order_id.total", "product", record=record) == {
        "values": {"order_id.total": 60, "product": None}
    }


def test_missing_records_are_null_and_encrypted_values_are_masked(shop: Shop) -> None:
    assert resolve(shop, EMAIL, recordId="l2")["values"] == {EMAIL: None}
    token = "order_id.customer_id.token"
    shown = resolve(shop, token, recordId="l1")["values"][token]
    assert shown
    assert "sealed" not in shown


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"expressions": ["product"]}, {"body"}),
        ({"expressions": ["product"], "recordId": "l1", "record": {}}, {"body"}),
        ({"expressions": [], "recordId": "l1"}, {"expressions"}),
        (
            {"expressions": ["a", "b.", "SCRIPT[x].y"], "recordId": "l1"},
            {"expressions[1]", "expressions[2]"},
        ),
        ({"expressions": ["nothing"], "recordId": "l1"}, {"expressions"}),
        ({"expressions": ["a"] * 101, "recordId": "l1"}, {"expressions"}),
        ({"expressions": ["x" * 1_001], "recordId": "l1"}, {"expressions[0]"}),
        ({"expressions": ["product"], "recordId": "l\u00001"}, {"recordId"}),
        ({"expressions": ["product"], "recordId": "l1", "more": 1}, {"more"}),
        (
            {"expressions": ["product"], "recordId": "l1", "rootCollectionId": "A"},
            {"rootCollectionId"},
        ),
    ],
)
def test_what_cannot_be_resolved_names_the_field(
    shop: Shop, body: dict[str, Any], fields: set[str]
) -> None:
    request = {"rootCollectionId": shop.name("lines")} | body
    problem = assert_problem(shop.owner.http.post(RESOLVE, json=request), 422, "invalid")
    assert faulty_fields(problem) == fields


def test_what_is_not_there_is_not_found(shop: Shop) -> None:
    body: dict[str, Any] = {"rootCollectionId": "none", "expressions": ["a"], "recordId": "l1"}
    assert_problem(shop.owner.http.post(RESOLVE, json=body), 404, "not_found")
    body |= {"rootCollectionId": shop.name("lines"), "expressions": ["product"], "recordId": "l9"}
    problem = assert_problem(shop.owner.http.post(RESOLVE, json=body), 404, "not_found")
    assert problem["detail"] == f"record l9 of {shop.name('lines')} does not exist"


def test_definitions_and_records_need_different_permissions(shop: Shop) -> None:
    body = {"rootCollectionId": shop.name("lines"), "expressions": ["product"]}
    for permission, allowed, denied in (
        ("collections:read", VALIDATE, RESOLVE),
        ("records:read", RESOLVE, VALIDATE),
    ):
        key = create_key(shop.owner, [permission])["key"]
        with client(shop.owner, key) as http:
            more = {"recordId": "l1"} if allowed == RESOLVE else {}
            assert http.post(allowed, json=body | more).status_code == 200
            assert_problem(http.post(denied, json=body), 403, "forbidden")


def test_the_command_line_validates_and_resolves(shop: Shop) -> None:
    lines = shop.name("lines")
    good = shop.owner.cli("paths", "validate", lines, EMAIL)
    assert f"EMAIL of {shop.name('customers')}" in good.stdout
    bad = shop.owner.cli("paths", "validate", lines, "prodct", check=False)
    assert (bad.returncode, "did you mean product?" in bad.stdout) == (1, True)
    shown = shop.owner.cli("paths", "resolve", lines, EMAIL, "--record", "l1", "--provenance")
    assert '"jo@example.com"' in shown.stdout
    assert f"{shop.name('orders')}/o1 v3" in shown.stdout
    data = json.dumps({"order_id": "o1"})
    found = shop.owner.cli("paths", "resolve", lines, "order_id.total", "-d", data, "--json")
    assert json.loads(found.stdout) == {"values": {"order_id.total": 60}}
    assert "customer_id" in shop.owner.cli("paths", "tree", lines).stdout
    neither = shop.owner.cli("paths", "resolve", lines, "product", check=False)
    assert neither.returncode == 2
    assert "--record" in neither.stderr
