"""Events of one tenant, as another meets them."""

from collections.abc import Callable
from typing import Any, Protocol

from tests.support.problem import assert_problem
from tests.support.product import Product, new_id

EVENTS = "/api/events"


class Theirs(Protocol):
    """Whatever else they have, somebody owns it, and waits for something."""

    @property
    def owner(self) -> Product:
        """Who may look at it."""

    @property
    def ids(self) -> dict[str, Any]:
        """The ids of the wait."""

    def still_waits(self) -> bool:
        """Nothing has happened to the wait."""


Check = Callable[[Product, Any], None]


def _theirs(owner: Product) -> dict[str, Any]:
    body = {
        "type": f"t{new_id()}",
        "source": "theirs",
        "deduplicationId": new_id(),
        "contextData": [{"key": "whose", "value": new_id()}],
        "data": {"secret": "theirs"},
    }
    reply = owner.http.post(EVENTS, json=body)
    assert reply.status_code == 201
    made: dict[str, Any] = reply.json()["event"]
    return made


def _stores_its_own(path: str) -> Check:
    """The id that it is known by is another's here, and so is the wait."""

    def check(other: Product, theirs: Theirs) -> None:
        made = _theirs(theirs.owner)
        event = {"type": made["type"], "source": "mine", **theirs.ids}
        event |= {"deduplicationId": made["deduplicationId"], "data": {"secret": "mine"}}
        one = path == EVENTS
        reply = other.http.post(path, json=event if one else [event])
        assert reply.status_code == 201
        document = reply.json()
        mine = document["event"] if one else document["events"][0]
        assert (mine["source"], mine["id"] != made["id"]) == ("mine", True)
        wait = document["wait"] if one else document["waits"][0]
        assert (wait["verdict"], wait["reason"]) == ("buffered", "no_wait_yet")
        assert theirs.owner.http.get(f"{EVENTS}/{made['id']}").json() == made
        assert theirs.still_waits()

    return check


def _lists_nothing_of_it(other: Product, theirs: Theirs) -> None:
    made = _theirs(theirs.owner)
    pair = made["contextData"][0]
    looks: list[dict[str, Any]] = [
        {"limit": 500},
        {"type": made["type"]},
        {"source": "theirs"},
        {"context": f"{pair['key']}={pair['value']}"},
        {"cursor": made["id"][:-1] + "Z"},
    ]
    for params in looks:
        page = other.http.get(EVENTS, params=params)
        assert page.status_code == 200
        assert made["id"] not in page.text


def _cannot_see_it(other: Product, theirs: Theirs) -> None:
    made = _theirs(theirs.owner)
    assert_problem(other.http.get(f"{EVENTS}/{made['id']}"), 404, "not_found")


EVENT_ISOLATION: dict[str, Check] = {
    "createEvent": _stores_its_own(EVENTS),
    "createEvents": _stores_its_own(f"{EVENTS}/batch"),
    "listEvents": _lists_nothing_of_it,
    "showEvent": _cannot_see_it,
}
