"""Dispatch pools over HTTP: each becomes an actor, which goes when its pool is archived."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, new_id, until
from tests.support.subscriptions import subscription_body

POOLS, SUBSCRIPTIONS = "/api/dispatch-pools", "/api/subscriptions"


def create(product: Product, **fields: Any) -> dict[str, Any]:
    body = {"code": f"pool-{new_id()}", "name": "Slow", **fields}
    reply = product.http.post(POOLS, json=body)
    assert reply.status_code == 201, reply.text
    document: dict[str, Any] = reply.json()
    return document


@pytest.fixture
def pool(product: Product) -> Iterator[dict[str, Any]]:
    """A pool of its own, archived afterwards: each is a process."""
    made = create(product, rateLimit=600)
    yield made
    product.http.delete(f"{POOLS}/{made['code']}")


def actors(product: Product) -> set[str]:
    found = product.http.get("/api/status").json()["actors"]
    return {one["name"] for one in found if one["name"].startswith("pool-dispatch-")}


def test_a_pool_from_its_beginning_to_its_end(product: Product) -> None:
    before = until("the default pool's actor", lambda: actors(product))
    made = create(product, rateLimit=600, concurrency=5, description="for a slow one")
    assert made["id"].startswith("dpl_")
    assert (made["rateLimit"], made["concurrency"], made["status"]) == (600, 5, "ACTIVE")
    assert (made["anchorLevel"], made["application"]) == (False, None)
    path = f"{POOLS}/{made['code']}"
    for name in (made["id"], made["code"]):
        assert product.http.get(f"{POOLS}/{name}").json() == made
        assert product.http.get(f"/api/admin/dispatch-pools/{name}").json() == made
    (new,) = until("the pool's actor", lambda: actors(product) - before)
    changed = product.http.patch(path, json={"rateLimit": None}).json()
    assert (changed["rateLimit"], changed["concurrency"]) == (None, 5)
    anew = product.http.put(path, json={"name": "Anew"}).json()
    assert (anew["name"], anew["concurrency"], anew["description"]) == ("Anew", 10, None)
    assert product.http.post(f"{path}/suspend").json()["status"] == "SUSPENDED"
    assert product.http.post(f"{path}/activate").json()["status"] == "ACTIVE"
    assert product.http.delete(path).status_code == 204
    assert product.http.get(path).json()["status"] == "ARCHIVED"
    until("the actor's end", lambda: new not in actors(product))
    assert_problem(product.http.delete(path), 409, "pool_already_archived")
    assert_problem(product.http.post(f"{path}/suspend"), 409, "pool_archived")
    assert_problem(product.http.patch(path, json={"name": "x"}), 409, "pool_archived")
    again = product.http.post(POOLS, json={"code": made["code"], "name": "again"})
    assert_problem(again, 409, "code_exists")


def test_a_pool_that_is_needed_stays(product: Product, pool: dict[str, Any]) -> None:
    body = subscription_body(dispatchPoolId=pool["code"])
    made = product.http.post(SUBSCRIPTIONS, json=body).json()
    assert (made["dispatchPoolId"], made["dispatchPoolCode"]) == (pool["id"], pool["code"])
    found = product.http.get(SUBSCRIPTIONS, params={"pool": pool["code"]}).json()
    assert [one["code"] for one in found["items"]] == [made["code"]]
    path = f"{POOLS}/{pool['id']}"
    assert_problem(product.http.delete(path), 409, "pool_in_use")
    product.http.post(f"{SUBSCRIPTIONS}/{made['code']}/pause")
    assert product.http.delete(path).status_code == 204
    reply = product.http.post(f"{SUBSCRIPTIONS}/{made['code']}/resume")
    assert_problem(reply, 409, "pool_archived")
    reply = product.http.post(SUBSCRIPTIONS, json=subscription_body(dispatchPoolId=pool["code"]))
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {"dispatchPoolId"}
    moved = product.http.patch(
        f"{SUBSCRIPTIONS}/{made['code']}", json={"dispatchPoolId": "default", "status": "ACTIVE"}
    ).json()
    assert (moved["dispatchPoolCode"], moved["status"]) == ("default", "ACTIVE")


def test_the_anchors_pools_are_there_for_everybody_and_changed_by_nobody_else(
    product: Product, anchor: Product
) -> None:
    path = f"{POOLS}/default"
    shown = product.http.get(path).json()
    assert (shown["id"], shown["anchorLevel"]) == ("dpl_default", True)
    listed = product.http.get(POOLS, params={"anchorLevel": True}).json()
    assert "dpl_default" in [one["id"] for one in listed["items"]]
    assert listed["total"] == len(listed["items"])
    for method, rest, body in (
        ("PATCH", "", {"name": "mine"}),
        ("PUT", "", {"name": "mine"}),
        ("DELETE", "", None),
        ("POST", "/suspend", None),
        ("POST", "/activate", None),
    ):
        reply = product.http.request(method, path + rest, json=body)
        assert_problem(reply, 403, "anchors_pool")
    changed = anchor.http.patch(path, json={"description": "for all"})
    assert changed.json()["description"] == "for all"
    assert product.http.get(path).json()["description"] == "for all"
    assert_problem(anchor.http.delete(path), 409, "pool_is_default")
    shadow = product.http.post(POOLS, json={"code": "default", "name": "Mine"})
    assert_problem(shadow, 409, "code_is_reserved")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"code": "A"}, "code"),
        ({"name": ""}, "name"),
        ({"rateLimit": 0}, "rateLimit"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": "5"}, "concurrency"),
        ({"more": 1}, "more"),
    ],
)
def test_what_is_wrong_is_named(product: Product, fields: dict[str, Any], field: str) -> None:
    reply = product.http.post(POOLS, json={"code": "slow", "name": "Slow", **fields})
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {field}


def test_pools_are_listed_page_by_page(product: Product, pool: dict[str, Any]) -> None:
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": 1} | ({} if cursor is None else {"cursor": cursor})
        page = product.http.get(POOLS, params=params).json()
        seen += [one["code"] for one in page["items"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == page["total"]
    assert {"default", pool["code"]} <= set(seen)
    reply = product.http.get(POOLS, params={"cursor": "x"})
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {"cursor"}
    far = product.http.get(POOLS, params={"cursor": "9" * 18}).json()
    assert far["items"] == []


def test_an_application_declares_its_pools(product: Product) -> None:
    application = f"app{new_id()[:12]}"
    sync = f"/api/applications/{application}/dispatch-pools/sync"
    code = f"pool-{new_id()}"
    declared: dict[str, Any] = {"pools": [{"code": code, "name": "Declared"}]}
    assert product.http.post(sync, json=declared | {"dryRun": True}).json()["created"] == [code]
    assert_problem(product.http.get(f"{POOLS}/{code}"), 404, "pool_not_found")
    assert product.http.post(sync, json=declared).json()["created"] == [code]
    assert product.http.get(f"{POOLS}/{code}").json()["application"] == application
    body = subscription_body(dispatchPoolId=code)
    product.http.post(SUBSCRIPTIONS, json=body)
    done = product.http.post(sync, json={"pools": [], "removeUnlisted": True}).json()
    assert [one["reason"] for one in done["kept"]] == ["pool_in_use"]
    product.http.delete(f"{SUBSCRIPTIONS}/{body['code']}")
    done = product.http.post(sync, json={"pools": [], "removeUnlisted": True}).json()
    assert done["removed"] == [code]
