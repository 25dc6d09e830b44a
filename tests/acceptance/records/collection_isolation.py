"""Collections of one tenant, as another meets them."""

from collections.abc import Callable
from typing import Any, Protocol

from tests.support.problem import assert_problem
from tests.support.product import Product, new_id

COLLECTIONS = "/control/collections"
FIELDS = [{"name": "secret_plan", "type": "STRING"}]


class Theirs(Protocol):
    """Whatever else they have, somebody owns it."""

    @property
    def owner(self) -> Product:
        """Who may look at it."""


Check = Callable[[Product, Any], None]


class _Collection:
    """A collection, and the paths its owner finds it at."""

    def __init__(self, owner: Product) -> None:
        self.owner = owner
        self.name = f"theirs-{new_id()}"
        self.body: dict[str, Any] = {"name": self.name, "fields": FIELDS}
        made = owner.http.post(COLLECTIONS, json=self.body)
        assert made.status_code == 201, made.text
        self.document = made.json()
        self.paths = [f"{COLLECTIONS}/{name}" for name in (self.name, self.document["id"])]

    def is_untouched(self) -> bool:
        return bool(self.owner.http.get(self.paths[0]).json() == self.document)


def _cannot_reach(method: str, rest: str = "", body: Any = None) -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        made = _Collection(theirs.owner)
        for path in made.paths:
            reply = other.http.request(method, path + rest, json=body, headers={"If-Match": "*"})
            assert_problem(reply, 404, "collection_not_found")
            assert "secret_plan" not in reply.text
        assert made.is_untouched()

    return check


def _lists_none_of_it(other: Product, theirs: Theirs) -> None:
    made = _Collection(theirs.owner)
    looks: list[dict[str, Any]] = [{"limit": 500}, {"status": "ACTIVE"}, {"cursor": "theirs-"}]
    for params in looks:
        page = other.http.get(COLLECTIONS, params=params)
        assert page.status_code == 200
        assert made.name not in page.text


def _defines_for_itself(other: Product, theirs: Theirs) -> None:
    made = _Collection(theirs.owner)
    mine = other.http.post(COLLECTIONS, json=made.body)
    assert mine.status_code == 201, mine.text
    assert mine.json()["id"] != made.document["id"]
    assert other.http.delete(f"{COLLECTIONS}/{made.name}").status_code == 204
    assert made.is_untouched()
    pointing = [{"name": "up", "type": "LOOKUP", "target": made.name}]
    body = {"name": f"mine-{new_id()}", "fields": pointing}
    assert_problem(other.http.post(COLLECTIONS, json=body), 422, "invalid")


COLLECTION_ISOLATION: dict[str, Check] = {
    "createCollection": _defines_for_itself,
    "listCollections": _lists_none_of_it,
    "showCollection": _cannot_reach("GET"),
    "replaceCollection": _cannot_reach("PUT", body={"fields": FIELDS}),
    "changeCollection": _cannot_reach("PATCH", body={"description": "mine"}),
    "archiveCollection": _cannot_reach("DELETE"),
    "activateCollection": _cannot_reach("POST", "/activate"),
    "listCollectionVersions": _cannot_reach("GET", "/versions"),
    "showCollectionVersion": _cannot_reach("GET", "/versions/1"),
    "previewCollection": _cannot_reach("POST", "/preview", {"fields": FIELDS}),
}
