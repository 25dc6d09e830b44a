"""No tenant sees, meets or touches what another has, on any route."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from core.access.permissions import ALL_PERMISSIONS
from tests.acceptance.dispatch.job_isolation import JOB_ISOLATION
from tests.acceptance.dispatch.subscription_isolation import SUBSCRIPTION_ISOLATION
from tests.acceptance.events.event_isolation import EVENT_ISOLATION
from tests.acceptance.events.type_isolation import TYPE_ISOLATION
from tests.acceptance.records.collection_isolation import COLLECTION_ISOLATION
from tests.acceptance.records.path_isolation import PATH_ISOLATION
from tests.acceptance.records.record_isolation import RECORD_ISOLATION
from tests.acceptance.triggers.idempotency_isolation import IDEMPOTENCY_ISOLATION
from tests.support.letters import new_topic, store_dead_letters, undecodable_record
from tests.support.operations import Operation
from tests.support.problem import assert_problem
from tests.support.product import BOTH, Product, new_id
from tests.support.tenants import create_key

CALLBACKS = "/api/internal/callbacks/external-service"


@dataclass(frozen=True)
class Belongings:
    """What one tenant has, which another must not see."""

    owner: Product
    wait: dict[str, Any]
    inbox_id: int
    letter_id: int
    topic: str
    prefix: str
    resource: str
    gather_id: str

    @property
    def path(self) -> str:
        """Where the owner finds the wait."""
        return f"/api/wait-states/{self.wait['executionId']}/{self.wait['correlationId']}"

    @property
    def ids(self) -> dict[str, Any]:
        """The ids of the wait."""
        return {name: self.wait[name] for name in ("executionId", "correlationId")}

    def still_waits(self) -> bool:
        """Nothing has happened to the wait."""
        shown = self.owner.show(self.wait)
        return (shown["status"], shown["receivedEvents"]) == ("waiting", [])

    def still_gathers(self) -> bool:
        """Nothing has happened to the gather."""
        shown = self.owner.http.get(f"/api/gathers/{self.gather_id}").json()
        return (shown["status"], shown["received"]) == ("waiting", 0)


@pytest.fixture
def belongings(product: Product) -> Iterator[Belongings]:
    wait = product.register()
    early = {"executionId": new_id(), "correlationId": new_id()}
    product.callback(early, {"secret": "early"})
    found = product.http.get("/api/inbox", params={"correlationId": early["correlationId"]})
    inbox_id = found.json()["items"][0]["inboxId"]
    topic = new_topic()
    (letter_id,) = store_dead_letters(product, [undecodable_record(topic)])
    prefix = create_key(product, ["waits:read"])["prefix"]
    resource = f"resource-of-{new_id()}"
    # It accepts every call, and never calls back.
    accepting = {"url": f"{product.url}/actuator/health/liveness", "method": "GET"}
    assert product.http.put(f"/api/resources/{resource}", json=accepting).status_code == 201
    asked = {"resources": [resource], "timeoutMs": 27_000}
    gather_id = product.http.post("/api/gathers", json=asked).json()["id"]
    yield Belongings(product, wait, inbox_id, letter_id, topic, prefix, resource, gather_id)
    product.http.delete(f"/api/gathers/{gather_id}")
    product.http.delete(f"/api/resources/{resource}")


def _cannot_see(method: str, rest: str = "") -> Callable[[Product, Belongings], None]:
    def check(other: Product, theirs: Belongings) -> None:
        assert_problem(other.http.request(method, theirs.path + rest), 404, "not_found")
        assert theirs.still_waits()

    return check


def _cannot_touch(method: str, rest: str = "") -> Callable[[Product, Belongings], None]:
    def check(other: Product, theirs: Belongings) -> None:
        path = f"/api/inbox/{theirs.inbox_id}"
        assert_problem(other.http.request(method, path + rest), 404, "not_found")
        assert theirs.owner.http.get(path).json()["data"] == {"secret": "early"}

    return check


def _cannot_reach_letter(method: str, rest: str = "") -> Callable[[Product, Belongings], None]:
    def check(other: Product, theirs: Belongings) -> None:
        path = f"/api/dead-letters/{theirs.letter_id}"
        assert_problem(other.http.request(method, path + rest), 404, "not_found")
        assert theirs.owner.http.get(path).json()["attempts"] == 1

    return check


def _lists_no_letter_of_it(other: Product, theirs: Belongings) -> None:
    looks: list[dict[str, Any]] = [
        {},
        {"topic": theirs.topic},
        {"cursor": theirs.letter_id + 1},
        {"redriven": True, "limit": 500},
    ]
    for params in looks:
        page = other.http.get("/api/dead-letters", params=params)
        assert page.status_code == 200
        assert theirs.topic not in page.text


def _redrives_no_letter_of_it(other: Product, theirs: Belongings) -> None:
    for wish in ({"ids": [theirs.letter_id]}, {"topic": theirs.topic}, {"all": True}):
        reply = other.http.post("/api/dead-letters/redrive", json=wish).json()
        assert (reply["handled"], reply["failed"], reply["remaining"]) == (0, 0, 0)
    path = f"/api/dead-letters/{theirs.letter_id}"
    assert theirs.owner.http.get(path).json()["attempts"] == 1


def _registers_its_own(other: Product, theirs: Belongings) -> None:
    mine = other.register(**theirs.ids)
    assert mine["created"]
    other.callback(mine, {"whose": "mine"})
    assert other.event(mine)["waitStatus"] == "completed"
    assert theirs.still_waits()


def _registers_its_own_in_a_batch(other: Product, theirs: Belongings) -> None:
    body = {"items": [{"data": BOTH, **theirs.ids}]}
    reply = other.http.post("/api/wait-states/batch", json=body)
    assert reply.json()["results"][0]["status"] == 201
    assert theirs.still_waits()


def _reaches_nobody(kind: str) -> Callable[[Product, Belongings], None]:
    """Neither its event arrives nor does the refusal tell that the ids exist."""

    def check(other: Product, theirs: Belongings) -> None:
        for execution in (theirs.wait["executionId"], new_id()):
            ids = theirs.ids | {"executionId": execution}
            verdict = other.callback(ids) if kind == "callbacks" else other.event(ids)
            assert (verdict["verdict"], verdict["reason"]) == ("buffered", "no_wait_yet")
        assert theirs.still_waits()

    return check


def _reaches_nobody_in_a_batch(kind: str) -> Callable[[Product, Belongings], None]:
    def check(other: Product, theirs: Belongings) -> None:
        body = {"items": [{**theirs.ids, "body": {}}]}
        reply = other.http.post(f"/api/internal/{kind}/process.completed/batch", json=body)
        assert reply.json()["results"][0]["body"]["reason"] == "no_wait_yet"
        assert theirs.still_waits()

    return check


def _lists_nothing_of_it(other: Product, theirs: Belongings) -> None:
    other.register()
    looks: list[dict[str, Any]] = [{}, {"executionId": theirs.wait["executionId"]}, {"limit": 500}]
    for params in looks:
        page = other.http.get("/api/wait-states", params=params)
        assert theirs.wait["correlationId"] not in page.text
    cursor = theirs.owner.http.get("/api/wait-states", params={"limit": 1}).json()["nextCursor"]
    page = other.http.get("/api/wait-states", params={"cursor": cursor, "limit": 500})
    assert page.status_code == 200
    mine = other.http.get("/api/wait-states", params={"limit": 500}).json()["items"]
    assert {item["waitStateId"] for item in page.json()["items"]} <= {
        item["waitStateId"] for item in mine
    }


def _lists_no_event_of_it(other: Product, theirs: Belongings) -> None:
    looks: list[dict[str, Any]] = [
        {},
        {"cursor": theirs.inbox_id + 1},
        {"verdict": "buffered", "limit": 500},
    ]
    for params in looks:
        items = other.http.get("/api/inbox", params=params).json()["items"]
        assert theirs.inbox_id not in [item["inboxId"] for item in items]


def _lists_no_key_of_it(other: Product, theirs: Belongings) -> None:
    assert theirs.prefix not in other.http.get("/api/keys").text
    assert theirs.owner.key.split("_")[1] not in other.http.get("/api/keys").text


def _is_told_of_its_own_changes_only(other: Product, theirs: Belongings) -> None:
    path = "/api/audit-log?limit=500"
    assert theirs.prefix in theirs.owner.http.get(path).text
    assert theirs.prefix not in other.http.get(path).text
    assert theirs.owner.key.split("_")[1] not in other.http.get(path).text


def _creates_keys_for_itself(other: Product, theirs: Belongings) -> None:
    created = create_key(other, [permission.value for permission in ALL_PERMISSIONS])
    assert created["prefix"] not in theirs.owner.http.get("/api/keys").text
    headers = {"Authorization": f"Bearer {created['key']}"}
    assert httpx.get(other.url + theirs.path, headers=headers, trust_env=False).status_code == 404


def _cannot_revoke(other: Product, theirs: Belongings) -> None:
    assert_problem(other.http.delete(f"/api/keys/{theirs.prefix}"), 404, "not_found")
    keys = {key["prefix"]: key for key in theirs.owner.http.get("/api/keys").json()["items"]}
    assert "revokedAt" not in keys[theirs.prefix]


def _cannot_follow(method: str, path: str) -> Callable[[Product, Belongings], None]:
    def check(other: Product, theirs: Belongings) -> None:
        reply = other.http.request(method, path.format(theirs.gather_id))
        assert_problem(reply, 404, "not_found")
        assert theirs.still_gathers()

    return check


def _cannot_ask_it(other: Product, theirs: Belongings) -> None:
    reply = other.http.post("/api/gathers", json={"resources": [theirs.resource]})
    assert_problem(reply, 422, "invalid")


def _has_no_journals_of_it(other: Product, theirs: Belongings) -> None:
    for number in (1, 2, 3):
        url = {"url": "http://127.0.0.1:9/"}
        theirs.owner.http.put(f"/api/resources/resource-{number}", json=url)
    reply = other.http.post("/aggregate/journals", json={"patientId": "p"})
    for number in (1, 2, 3):
        theirs.owner.http.delete(f"/api/resources/resource-{number}")
    assert_problem(reply, 409, "conflict")


def _answers_nobody(other: Product, theirs: Belongings) -> None:
    body = {"source": theirs.resource, "correlationId": theirs.gather_id, "status": "ok"}
    reply = other.http.post("/aggregate/callback", json=body)
    assert reply.json()["reason"] == "no_wait_yet"
    assert theirs.still_gathers()


def _cannot_find_resource(method: str) -> Callable[[Product, Belongings], None]:
    def check(other: Product, theirs: Belongings) -> None:
        path = f"/api/resources/{theirs.resource}"
        assert_problem(other.http.request(method, path), 404, "not_found")
        assert theirs.owner.http.get(path).status_code == 200

    return check


def _lists_no_resource_of_it(other: Product, theirs: Belongings) -> None:
    page = other.http.get("/api/resources", params={"limit": 500})
    assert page.status_code == 200
    assert theirs.resource not in page.text


def _puts_its_own(other: Product, theirs: Belongings) -> None:
    path = f"/api/resources/{theirs.resource}"
    assert other.http.put(path, json={"url": "http://127.0.0.1:9/mine"}).status_code == 201
    assert theirs.owner.http.get(path).json()["url"].startswith(theirs.owner.url)
    assert other.http.delete(path).status_code == 204
    assert theirs.owner.http.get(path).status_code == 200


def _counts_but_names_nobody(path: str) -> Callable[[Product, Belongings], None]:
    def check(other: Product, theirs: Belongings) -> None:
        page = other.http.get(path)
        assert page.status_code == 200
        assert not [value for value in theirs.ids.values() if value in page.text]
        assert theirs.topic not in page.text
        assert theirs.resource not in page.text

    return check


ISOLATION: dict[str, Callable[[Product, Belongings], None]] = {
    "registerWait": _registers_its_own,
    "registerWaits": _registers_its_own_in_a_batch,
    "listWaits": _lists_nothing_of_it,
    "showWait": _cannot_see("GET"),
    "cancelWait": _cannot_see("DELETE"),
    "streamWait": _cannot_see("GET", "/stream"),
    "readWaitLog": _cannot_see("GET", "/log"),
    "explainWait": _cannot_see("GET", "/explain"),
    "sendCallback": _reaches_nobody("callbacks"),
    "sendCallbacks": _reaches_nobody_in_a_batch("callbacks"),
    "sendEvent": _reaches_nobody("events"),
    "sendEvents": _reaches_nobody_in_a_batch("events"),
    "beginGather": _cannot_ask_it,
    "showGather": _cannot_follow("GET", "/api/gathers/{}"),
    "streamGather": _cannot_follow("GET", "/api/gathers/{}/stream"),
    "cancelGather": _cannot_follow("DELETE", "/api/gathers/{}"),
    "gatherJournals": _has_no_journals_of_it,
    "streamJournals": _cannot_follow("GET", "/aggregate/stream?correlationId={}"),
    "sendJournalCallback": _answers_nobody,
    "listResources": _lists_no_resource_of_it,
    "showResource": _cannot_find_resource("GET"),
    "putResource": _puts_its_own,
    "dropResource": _cannot_find_resource("DELETE"),
    **TYPE_ISOLATION,
    **EVENT_ISOLATION,
    **JOB_ISOLATION,
    **SUBSCRIPTION_ISOLATION,
    **COLLECTION_ISOLATION,
    **PATH_ISOLATION,
    **RECORD_ISOLATION,
    **IDEMPOTENCY_ISOLATION,
    "listInbox": _lists_no_event_of_it,
    "showInboxEvent": _cannot_touch("GET"),
    "retryInboxEvent": _cannot_touch("POST", "/retry"),
    "deleteInboxEvent": _cannot_touch("DELETE"),
    "listDeadLetters": _lists_no_letter_of_it,
    "showDeadLetter": _cannot_reach_letter("GET"),
    "redriveDeadLetter": _cannot_reach_letter("POST", "/redrive"),
    "redriveDeadLetters": _redrives_no_letter_of_it,
    "deleteDeadLetter": _cannot_reach_letter("DELETE"),
    "showKafka": _counts_but_names_nobody("/api/kafka"),
    "listKeys": _lists_no_key_of_it,
    "createKey": _creates_keys_for_itself,
    "revokeKey": _cannot_revoke,
    "listAuditLog": _is_told_of_its_own_changes_only,
    "listQuotas": _counts_but_names_nobody("/api/quotas"),
    "showStatus": _counts_but_names_nobody("/api/status"),
    "scrapeMetrics": _counts_but_names_nobody("/metrics"),
}


def test_every_route_has_its_isolation_test(operations: dict[str, Operation]) -> None:
    assert set(ISOLATION) == {name for name, one in operations.items() if one.permission}


@pytest.mark.parametrize("name", ISOLATION)
def test_no_tenant_meets_another(stranger: Product, belongings: Belongings, name: str) -> None:
    ISOLATION[name](stranger, belongings)


def test_the_same_ids_in_two_tenants_are_two_waits(product: Product, stranger: Product) -> None:
    ids: dict[str, Any] = {"executionId": new_id(), "correlationId": new_id()}
    both = [product, stranger]
    for index, tenant in enumerate(both):
        tenant.callback(ids, {"early": index}, X_Event_Id="same")
        assert tenant.register(**ids)["created"]
    for index, tenant in enumerate(both):
        assert tenant.show(ids)["events"]["api_response"]["data"] == {"early": index}
    assert product.event(ids)["waitStatus"] == "completed"
    assert stranger.show(ids)["status"] == "waiting"
    explained = stranger.http.get(
        f"/api/wait-states/{ids['executionId']}/{ids['correlationId']}/explain"
    )
    assert explained.json()["nearMisses"] == []


def test_id_names_of_one_tenant_are_unknown_to_another(product: Product, stranger: Product) -> None:
    names = {"correlationIdField": f"ref_{new_id()[:8]}", "executionIdField": "run"}
    wait = product.register({"apiCall": {"url": "http://127.0.0.1:9/", **names}})
    body = {names["correlationIdField"]: wait["correlationId"], "run": wait["executionId"]}
    assert_problem(stranger.http.post(CALLBACKS, json=body), 400, "missing_id")
    assert product.http.post(CALLBACKS, json=body).json()["verdict"] == "matched"
