"""Event types and schemas of one tenant, as another meets them."""

from collections.abc import Callable
from typing import Any, Protocol

from tests.support.problem import assert_problem
from tests.support.product import Product, new_id

TYPES, SCHEMAS = "/api/event-types", "/api/schemas"


class Theirs(Protocol):
    """Whatever else they have, somebody owns it."""

    @property
    def owner(self) -> Product:
        """Who may look at it."""


Check = Callable[[Product, Any], None]


class _Type:
    """A type with a draft, and the path its owner finds it at."""

    def __init__(self, owner: Product) -> None:
        self.owner = owner
        self.subdomain = f"s{new_id()[:12]}"
        self.code = f"shop:{self.subdomain}:order:created"
        made = owner.http.post(TYPES, json={"code": self.code, "name": "theirs"})
        self.id = made.json()["id"]
        self.paths = [f"{TYPES}/{name}" for name in (self.code, self.id)]
        body = {"version": "1.0", "schema": {"title": "theirs"}}
        self.document = owner.http.post(f"{self.paths[0]}/schemas", json=body).json()

    def is_untouched(self) -> bool:
        """Whether it is as it was made, its schema included."""
        shown = self.owner.http.get(self.paths[0]).json()
        schema = self.owner.http.get(f"{self.paths[0]}/schemas/1.0").json()["schema"]
        return bool(shown == self.document) and "theirs" in schema


def _cannot_reach_type(method: str, rest: str = "", body: Any = None) -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        made = _Type(theirs.owner)
        for path in made.paths:
            reply = other.http.request(method, path + rest, json=body)
            assert_problem(reply, 404, "event_type_not_found")
        assert made.is_untouched()

    return check


def _registers_its_own_type(other: Product, theirs: Theirs) -> None:
    made = _Type(theirs.owner)
    mine = other.http.post(TYPES, json={"code": made.code, "name": "mine"})
    assert mine.status_code == 201
    assert mine.json()["id"] != made.id
    assert other.http.delete(f"{TYPES}/{made.code}").status_code == 204
    assert made.is_untouched()


def _declares_its_own(other: Product, theirs: Theirs) -> None:
    made = _Type(theirs.owner)
    path = "/api/applications/shop/event-types/sync"
    wish = {"eventTypes": [{"code": made.code, "name": "mine"}], "removeUnlisted": True}
    assert other.http.post(path, json=wish).json()["created"] == [made.code]
    assert other.http.delete(f"{TYPES}/{made.code}").status_code == 204
    assert made.is_untouched()


def _lists_no_type_of_it(other: Product, theirs: Theirs) -> None:
    made = _Type(theirs.owner)
    looks: list[dict[str, Any]] = [
        {"limit": 500},
        {"subdomain": made.subdomain},
        {"cursor": "shop:a:b:c"},
    ]
    for params in looks:
        page = other.http.get(TYPES, params=params)
        assert page.status_code == 200
        assert made.subdomain not in page.text


def _offers_nothing_of_it(which: str) -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        application = f"a{new_id()[:12]}"
        code = f"{application}:{application}:{application}:created"
        theirs.owner.http.post(TYPES, json={"code": code, "name": "theirs"})
        page = other.http.get(f"{TYPES}/filters/{which}")
        assert page.status_code == 200
        assert application not in page.text
        assert application in theirs.owner.http.get(f"{TYPES}/filters/{which}").text

    return check


def _schema(owner: Product) -> str:
    made = owner.http.post(SCHEMAS, json={"name": "theirs", "content": {"title": "theirs"}})
    schema_id: str = made.json()["id"]
    return schema_id


def _cannot_reach_schema(method: str, body: Any = None) -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        path = f"{SCHEMAS}/{_schema(theirs.owner)}"
        assert_problem(other.http.request(method, path, json=body), 404, "not_found")
        assert theirs.owner.http.get(path).json()["name"] == "theirs"

    return check


def _lists_no_schema_of_it(other: Product, theirs: Theirs) -> None:
    schema_id = _schema(theirs.owner)
    made = _Type(theirs.owner)
    for params in ({"limit": "500"}, {"eventTypeId": made.id}):
        page = other.http.get(SCHEMAS, params=params)
        assert page.status_code == 200
        assert schema_id not in page.text


def _keeps_schemas_for_itself(other: Product, theirs: Theirs) -> None:
    made = _Type(theirs.owner)
    for name in (made.code, made.id):
        body: dict[str, Any] = {"name": "mine", "content": {}, "eventTypeId": name}
        assert_problem(other.http.post(SCHEMAS, json=body), 422, "invalid")
    mine = _schema(other)
    assert theirs.owner.http.get(f"{SCHEMAS}/{mine}").status_code == 404


_VERSION = {"version": "2.0", "schema": {}}
_ONE = "/schemas/1.0"

TYPE_ISOLATION: dict[str, Check] = {
    "createEventType": _registers_its_own_type,
    "listEventTypes": _lists_no_type_of_it,
    "listApplications": _offers_nothing_of_it("applications"),
    "listSubdomains": _offers_nothing_of_it("subdomains"),
    "listAggregates": _offers_nothing_of_it("aggregates"),
    "showEventType": _cannot_reach_type("GET"),
    "changeEventType": _cannot_reach_type("PATCH", body={"name": "mine"}),
    "dropEventType": _cannot_reach_type("DELETE"),
    "archiveEventType": _cannot_reach_type("POST", "/archive"),
    "addVersion": _cannot_reach_type("POST", "/schemas", _VERSION),
    "showVersion": _cannot_reach_type("GET", _ONE),
    "rewriteVersion": _cannot_reach_type("PUT", _ONE, {"schema": {}}),
    "finaliseVersion": _cannot_reach_type("POST", f"{_ONE}/finalise"),
    "deprecateVersion": _cannot_reach_type("POST", f"{_ONE}/deprecate"),
    "syncEventTypes": _declares_its_own,
    "createSchema": _keeps_schemas_for_itself,
    "listSchemas": _lists_no_schema_of_it,
    "showSchema": _cannot_reach_schema("GET"),
    "replaceSchema": _cannot_reach_schema("PUT", {"name": "mine", "content": {}}),
    "dropSchema": _cannot_reach_schema("DELETE"),
}
