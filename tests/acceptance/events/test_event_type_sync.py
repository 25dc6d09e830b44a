"""An application declares its event types over HTTP."""

from typing import Any

import httpx
import pytest

from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, new_id

ORDER = {"type": "object", "required": ["id"]}
PROTO = 'syntax = "proto3"; message Order { string id = 1; }'


class Application:
    """An application of its own for each test."""

    def __init__(self, product: Product) -> None:
        self.name = f"a{new_id()[:12]}"
        self._http = product.http

    def code(self, event: str = "created") -> str:
        return f"{self.name}:orders:order:{event}"

    def declares(self, *types: dict[str, Any], **more: Any) -> httpx.Response:
        path = f"/api/applications/{self.name}/event-types/sync"
        return self._http.post(path, json={"eventTypes": list(types), **more})

    def shown(self, event: str = "created") -> dict[str, Any]:
        document: dict[str, Any] = self._http.get(f"/api/event-types/{self.code(event)}").json()
        return document

    def type(
        self, event: str = "created", *versions: dict[str, Any], **more: Any
    ) -> dict[str, Any]:
        return {"code": self.code(event), "name": event, "versions": list(versions), **more}


@pytest.fixture
def shop(product: Product) -> Application:
    return Application(product)


def outcome(reply: httpx.Response) -> dict[str, Any]:
    """The kinds that have a member."""
    assert reply.status_code == 200, reply.text
    told: dict[str, Any] = reply.json()
    return {kind: codes for kind, codes in told.items() if codes and kind != "application"}


def test_what_is_declared_is_there_and_declaring_it_again_changes_nothing(
    shop: Application,
) -> None:
    declared = [
        shop.type(
            "created",
            {"version": "1.0", "schema": ORDER, "status": "DEPRECATED"},
            {"version": "1.1", "schema": ORDER | {"title": "b"}, "status": "CURRENT"},
            {"version": "2.0", "schema": PROTO, "schemaType": "PROTO"},
        ),
        shop.type("shipped", validation="warn", description="it left the house"),
    ]
    both = [shop.code("created"), shop.code("shipped")]
    assert outcome(shop.declares(*declared, dryRun=True)) == {"dryRun": True, "created": both}
    assert shop.shown()["code"] == "event_type_not_found"
    assert outcome(shop.declares(*declared)) == {"created": both}
    shown = shop.shown()
    assert {one["version"]: one["status"] for one in shown["specVersions"]} == {
        "1.0": "DEPRECATED",
        "1.1": "CURRENT",
        "2.0": "FINALISING",
    }
    assert (shown["source"], shown["validation"]) == ("CODE", "enforce")
    assert shop.shown("shipped")["validation"] == "warn"
    assert outcome(shop.declares(*reversed(declared))) == {"unchanged": both}
    assert shop.shown() == shown


def test_one_mistake_and_nothing_has_changed(shop: Application) -> None:
    first = {"version": "1.0", "schema": ORDER, "status": "CURRENT"}
    shop.declares(shop.type("created", first))
    other = shop.type("created", first | {"schema": {}})
    refused = assert_problem(shop.declares(shop.type("shipped"), other), 409, "invalid_status")
    assert f"{shop.code()} 1.0: " in refused["detail"]
    broken = shop.type("created", {"version": "1.1", "schema": {"type": "strin"}})
    refused = assert_problem(shop.declares(shop.type("shipped"), broken), 422, "invalid")
    assert faulty_fields(refused) == {"eventTypes[1].versions[0].schema"}
    named = {"version": "1.1", "schemaId": "sch_0000000000000"}
    refused = assert_problem(shop.declares(shop.type("created", named)), 422, "invalid")
    assert faulty_fields(refused) == {"eventTypes[0].versions[0].schemaId"}
    assert shop.shown("shipped")["code"] == "event_type_not_found"


def test_what_is_listed_no_more_goes_if_that_is_asked_for(shop: Application) -> None:
    used = {"version": "1.0", "schema": {}, "status": "CURRENT"}
    shop.declares(shop.type("created"), shop.type("draft"), shop.type("used", used))
    assert outcome(shop.declares(shop.type("created"))) == {"unchanged": [shop.code()]}
    (kept,) = (told := outcome(shop.declares(removeUnlisted=True)))["kept"]
    assert told["removed"] == [shop.code("created"), shop.code("draft")]
    assert (kept["code"], kept["reason"]) == (shop.code("used"), "versions_not_deprecated")


@pytest.mark.parametrize(
    ("types", "fields"),
    [
        ([{"code": "other:orders:order:created", "name": "x"}], {"eventTypes[0].code"}),
        ([{"name": "x"}], {"eventTypes[0].code"}),
        ([{"code": "{0}", "name": "x"}] * 2, {"eventTypes"}),
        (
            [
                {
                    "code": "{0}",
                    "name": "x",
                    "versions": [
                        {"version": "1.0", "schema": {}, "status": "CURRENT"},
                        {"version": "1.1", "schema": {}, "status": "CURRENT"},
                    ],
                }
            ],
            {"eventTypes[0]"},
        ),
        (
            [{"code": "{0}", "name": "x", "versions": [{"version": "1.0", "schema": {}}] * 2}],
            {"eventTypes[0]"},
        ),
        ([{"code": "{0}", "name": "x"}] * 201, {"eventTypes"}),
    ],
)
def test_a_declaration_that_breaks_a_rule_is_refused(
    shop: Application, types: list[dict[str, Any]], fields: set[str]
) -> None:
    given = [
        one | ({"code": one["code"].format(shop.code())} if "code" in one else {}) for one in types
    ]
    refused = assert_problem(shop.declares(*given), 422, "invalid")
    assert faulty_fields(refused) == fields
