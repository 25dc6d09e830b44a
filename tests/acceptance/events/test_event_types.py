"""Event types over HTTP, from their first draft to their end."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.event_types import (
    ORDER,
    PROTO,
    SCHEMAS,
    TYPES,
    add,
    create,
    keep,
    new_code,
    statuses,
)
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, new_id
from tests.support.tenants import create_key


def step(product: Product, code: str, version: str, verb: str) -> httpx.Response:
    return product.http.post(f"{TYPES}/{code}/schemas/{version}/{verb}")


# The life of a type


def test_a_type_from_its_first_draft_to_its_end(product: Product) -> None:
    made = create(product, description="once", validation="warn", clientScoped=True)
    code = made["code"]
    assert made["id"].startswith("evt_")
    assert len(made["id"]) == 17
    segments = [made[part] for part in ("application", "subdomain", "aggregate", "event")]
    assert segments == code.split(":")
    assert (made["status"], made["source"], made["validation"]) == ("CURRENT", "API", "warn")
    assert made["specVersions"] == []
    assert product.http.get(f"{TYPES}/{code}").json() == made
    assert product.http.get(f"{TYPES}/{made['id']}").json() == made

    assert statuses(add(product, code)) == {"1.0": "FINALISING"}
    assert statuses(step(product, code, "1.0", "finalise").json()) == {"1.0": "CURRENT"}
    add(product, code, "1.1")
    add(product, code, "2.0")
    step(product, code, "2.0", "finalise")
    moved = step(product, made["id"], "1.1", "finalise").json()
    assert statuses(moved) == {"1.0": "DEPRECATED", "1.1": "CURRENT", "2.0": "CURRENT"}

    assert_problem(product.http.post(f"{TYPES}/{code}/archive"), 409, "versions_not_deprecated")
    assert_problem(product.http.delete(f"{TYPES}/{code}"), 409, "cannot_delete")
    for version in ("1.1", "2.0"):
        assert step(product, code, version, "deprecate").status_code == 200
    assert product.http.post(f"{TYPES}/{code}/archive").json()["status"] == "ARCHIVED"
    assert_problem(product.http.post(f"{TYPES}/{code}/archive"), 409, "already_archived")
    late = product.http.post(f"{TYPES}/{code}/schemas", json={"version": "3.0", "schema": ORDER})
    assert_problem(late, 409, "invalid_status")
    assert product.http.delete(f"{TYPES}/{code}").status_code == 204
    assert_problem(product.http.get(f"{TYPES}/{code}"), 404, "event_type_not_found")
    assert create(product, code)["specVersions"] == []  # the code is free again


def test_steps_that_are_not_allowed_are_told_by_their_code(product: Product, code: str) -> None:
    taken = product.http.post(TYPES, json={"code": code, "name": "again"})
    assert_problem(taken, 409, "code_exists")
    assert_problem(step(product, code, "1.0", "finalise"), 404, "version_not_found")
    add(product, code)
    twice = product.http.post(f"{TYPES}/{code}/schemas", json={"version": "01.0", "schema": {}})
    assert_problem(twice, 409, "version_exists")
    assert_problem(step(product, code, "1.0", "deprecate"), 409, "cannot_deprecate_finalising")
    step(product, code, "1.0", "finalise")
    assert_problem(step(product, code, "1.0", "finalise"), 409, "invalid_status")
    step(product, code, "1.0", "deprecate")
    assert_problem(step(product, code, "1.0", "deprecate"), 409, "already_deprecated")
    for verb in ("finalise", "deprecate"):
        assert_problem(step(product, new_code(), "1.0", verb), 404, "event_type_not_found")
    assert_problem(product.http.get(f"{TYPES}/{code}/schemas/9.9"), 404, "version_not_found")


def test_a_draft_is_rewritten_until_it_is_final(product: Product, code: str) -> None:
    add(product, code)
    path = f"{TYPES}/{code}/schemas/1.0"
    changed = product.http.put(path, json={"schema": PROTO, "schemaType": "PROTO"})
    assert changed.status_code == 200
    shown = product.http.get(path).json()
    assert (shown["schema"], shown["schemaType"]) == (PROTO, "PROTO")
    assert (shown["mimeType"], shown["code"]) == ("application/x-protobuf", code)
    step(product, code, "1.0", "finalise")
    assert_problem(product.http.put(path, json={"schema": ORDER}), 409, "invalid_status")
    missing = product.http.put(f"{TYPES}/{code}/schemas/9.9", json={"schema": ORDER})
    assert_problem(missing, 404, "version_not_found")


def test_words_change_and_the_rest_stays(product: Product) -> None:
    code = create(product, description="once")["code"]
    path = f"{TYPES}/{code}"
    changed = product.http.patch(path, json={"name": "Other", "validation": "off"}).json()
    assert (changed["name"], changed["validation"]) == ("Other", "off")
    assert changed["description"] == "once"
    assert product.http.patch(path, json={"description": None}).json()["description"] is None
    assert_problem(product.http.patch(path, json={}), 422, "invalid")
    refused = assert_problem(product.http.patch(path, json={"clientScoped": True}), 422, "invalid")
    assert faulty_fields(refused) == {"clientScoped"}
    unknown = product.http.patch(f"{TYPES}/{new_code()}", json={"name": "x"})
    assert_problem(unknown, 404, "event_type_not_found")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"code": "a:b:c", "name": "x"},
        {"code": "A:b:c:d", "name": "x"},
        {"code": "a:b:c:*", "name": "x"},
        {"code": "a:b:c:d"},
        {"code": "a:b:c:d", "name": ""},
        {"code": "a:b:c:d", "name": "x" * 101},
        {"code": "a:b:c:d", "name": "x", "description": "x" * 256},
        {"code": "a:b:c:d", "name": "x", "description": "\x00"},
        {"code": "a:b:c:d", "name": "x", "validation": "strict"},
        {"code": "a:b:c:" + "d" * 255, "name": "x"},
    ],
)
def test_a_type_that_breaks_a_rule_is_refused(product: Product, body: dict[str, Any]) -> None:
    assert_problem(product.http.post(TYPES, json=body), 422, "invalid")


# Listings


def test_types_are_listed_page_by_page_and_filtered(product: Product) -> None:
    application = f"a{new_id()[:12]}"
    codes = [f"{application}:{part}:order:created" for part in ("one", "three", "two")]
    for code in reversed(codes):
        create(product, code, source="CODE")
    create(product, f"{application}:one:line:added")
    product.http.post(f"{TYPES}/{codes[2]}/archive")

    def listed(**params: Any) -> list[str]:
        reply = product.http.get(TYPES, params={"application": application, **params})
        assert reply.status_code == 200, reply.text
        return [item["code"] for item in reply.json()["items"]]

    everything = sorted([*codes, f"{application}:one:line:added"])
    assert listed() == everything
    assert listed(subdomain="one", aggregate="order") == [codes[0]]
    assert listed(status="ARCHIVED") == [codes[2]]
    assert listed(source="CODE") == codes
    paged: list[str] = []
    params: dict[str, Any] = {"application": application, "limit": 3}
    while True:
        page = product.http.get(TYPES, params=params).json()
        paged += [item["code"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        params["cursor"] = page["nextCursor"]
    assert paged == everything
    assert_problem(product.http.get(TYPES, params={"cursor": "!"}), 422, "invalid")

    def offered(which: str, **params: str) -> list[str]:
        reply = product.http.get(f"{TYPES}/filters/{which}", params=params)
        items: list[str] = reply.json()["items"]
        return items

    assert application in offered("applications")
    assert offered("subdomains", application=application) == ["one", "three", "two"]
    assert offered("aggregates", application=application) == ["line", "order"]
    assert offered("aggregates", application=application, subdomain="two") == ["order"]
    assert {"one", "three", "two"} <= set(offered("subdomains"))


# Others


def test_another_tenant_sees_and_touches_nothing(product: Product, stranger: Product) -> None:
    made = create(product)
    code = made["code"]
    add(product, code)
    kept = keep(product)
    version = {"version": "2.0", "schema": ORDER}
    missing = "event_type_not_found"
    for name in (code, made["id"]):
        path = f"{TYPES}/{name}"
        tries: list[tuple[str, str, Any]] = [
            ("GET", path, None),
            ("PATCH", path, {"name": "mine"}),
            ("DELETE", path, None),
            ("POST", f"{path}/archive", None),
            ("POST", f"{path}/schemas", version),
            ("GET", f"{path}/schemas/1.0", None),
            ("PUT", f"{path}/schemas/1.0", {"schema": {}}),
            ("POST", f"{path}/schemas/1.0/finalise", None),
            ("POST", f"{path}/schemas/1.0/deprecate", None),
        ]
        for method, where, body in tries:
            assert_problem(stranger.http.request(method, where, json=body), 404, missing)
    for method, body in (("GET", None), ("DELETE", None), ("PUT", {"name": "x", "content": {}})):
        reply = stranger.http.request(method, f"{SCHEMAS}/{kept['id']}", json=body)
        assert_problem(reply, 404, "not_found")
    borrowed = stranger.http.post(SCHEMAS, json={"name": "x", "content": {}, "eventTypeId": code})
    assert_problem(borrowed, 422, "invalid")
    subdomain = code.split(":")[1]
    for path in (TYPES, SCHEMAS, f"{TYPES}/filters/subdomains"):
        text = stranger.http.get(path, params={"limit": 500} if "filters" not in path else {}).text
        assert subdomain not in text
        assert kept["id"] not in text
    mine = create(stranger, code)  # the same code, another type
    add(stranger, code, schema=PROTO, schemaType="PROTO")
    assert mine["id"] != made["id"]
    assert statuses(product.http.get(f"{TYPES}/{code}").json()) == {"1.0": "FINALISING"}
    foreign = stranger.http.post(
        f"{TYPES}/{code}/schemas", json={"version": "3.0", "schemaId": kept["id"]}
    )
    assert_problem(foreign, 422, "invalid")


def test_a_key_that_reads_does_not_write(
    product: Product, code: str, clients: Callable[[str | None], httpx.Client]
) -> None:
    reader = clients(create_key(product, ["event_types:read"])["key"])
    assert reader.get(f"{TYPES}/{code}").status_code == 200
    assert_problem(reader.post(TYPES, json={"code": new_code(), "name": "x"}), 403, "forbidden")
    writer = clients(create_key(product, ["event_types:write"])["key"])
    assert_problem(writer.get(f"{TYPES}/{code}"), 403, "forbidden")
    assert writer.post(TYPES, json={"code": new_code(), "name": "x"}).status_code == 201
