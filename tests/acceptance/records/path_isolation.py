"""Collections and records of one tenant, as data paths of another meet them."""

from collections.abc import Callable
from typing import Any, Protocol

from tests.acceptance.records.shop import Shop
from tests.support.problem import assert_problem
from tests.support.product import Product


class OwnedShop(Protocol):
    """Whatever else they have, somebody owns it."""

    @property
    def owner(self) -> Product: ...


Check = Callable[[Product, Any], None]


def _cannot_ask(path: str, key: str, **body: Any) -> Check:
    """Ask for a collection of the other by name and by id; a shop of one's own has none of it."""

    def check(other: Product, theirs: OwnedShop) -> None:
        shop = Shop(theirs.owner)
        shop.fill()
        for name in (shop.name("lines"), shop.ids["lines"]):
            reply = other.http.post(path, json={key: name, **body})
            assert_problem(reply, 404, "not_found")
            assert theirs.owner.http.post(path, json={key: name, **body}).status_code == 200

    return check


def _cannot_show_fields(other: Product, theirs: OwnedShop) -> None:
    shop = Shop(theirs.owner)
    for name in (shop.name("lines"), shop.ids["lines"]):
        path = f"/control/collections/{name}/data-paths"
        assert_problem(other.http.get(path), 404, "not_found")
        assert theirs.owner.http.get(path).status_code == 200


def _resolves_its_own_records(other: Product, theirs: OwnedShop) -> None:
    _cannot_ask(
        "/control/data-paths/resolve", "rootCollectionId", expressions=["product"], recordId="l1"
    )(other, theirs)
    Shop(theirs.owner).fill()
    mine = Shop(other)
    body = {"rootCollectionId": mine.name("lines"), "expressions": ["order_id.total"]}
    found = other.http.post(
        "/control/data-paths/resolve", json={**body, "record": {"order_id": "o1"}}
    )
    assert found.json() == {"values": {"order_id.total": None}}


PATH_ISOLATION: dict[str, Check] = {
    "showDataPaths": _cannot_show_fields,
    "validateDataPaths": _cannot_ask(
        "/control/data-paths/validate", "rootCollectionId", expression="product"
    ),
    "resolveDataPaths": _resolves_its_own_records,
    "validateExpression": _cannot_ask(
        "/control/expressions/validate", "collectionId", expression="product"
    ),
    "evaluateExpression": _cannot_ask(
        "/control/expressions/evaluate", "collectionId", expression="product", recordId="l1"
    ),
    "renderTemplate": _cannot_ask(
        "/control/templates/render", "collectionId", template="{{product}}", recordId="l1"
    ),
}
