"""Subscriptions, pools and secrets of one tenant, as another meets them."""

from collections.abc import Callable
from typing import Any, Protocol

from storage.dispatch import pools
from storage.dispatch.pools import NewPool, PoolRow
from storage.postgres.pool import Pool
from tests.support.problem import assert_problem
from tests.support.product import Product, new_id
from tests.support.tenants import in_database

SUBSCRIPTIONS, POOLS = "/api/subscriptions", "/api/dispatch-pools"


class Theirs(Protocol):
    """Whatever else they have, somebody owns it."""

    @property
    def owner(self) -> Product:
        """Who may look at it."""


Check = Callable[[Product, Any], None]


class _Subscription:
    """A subscription, and the paths its owner finds it at."""

    def __init__(self, owner: Product) -> None:
        self.owner = owner
        self.code = f"theirs-{new_id()}"
        self.body = {
            "code": self.code,
            "name": "theirs",
            "eventTypes": [{"eventTypeCode": f"theirs:{self.code}:a:b"}],
            "target": f"http://127.0.0.1:9/{self.code}",
        }
        made = owner.http.post(SUBSCRIPTIONS, json=self.body)
        assert made.status_code == 201, made.text
        self.document = made.json()
        self.paths = [f"{SUBSCRIPTIONS}/{name}" for name in (self.code, self.document["id"])]
        self.secret = self._secret()

    def is_untouched(self) -> bool:
        """Whether it is as it was made, its secret included."""
        shown = self.owner.http.get(self.paths[0]).json()
        return bool(shown == self.document) and self._secret() == self.secret

    def _secret(self) -> str:
        secret: str = self.owner.http.get(f"{self.paths[0]}/secret").json()["secret"]
        return secret


def _cannot_reach(method: str, rest: str = "", body: Any = None) -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        made = _Subscription(theirs.owner)
        for path in made.paths:
            reply = other.http.request(method, path + rest, json=body)
            assert_problem(reply, 404, "subscription_not_found")
            assert made.secret not in reply.text
        assert made.is_untouched()

    return check


def _replaces_none_of_it(other: Product, theirs: Theirs) -> None:
    made = _Subscription(theirs.owner)
    for path in made.paths:
        assert_problem(other.http.put(path, json=made.body), 404, "subscription_not_found")
    assert made.is_untouched()


def _subscribes_for_itself(other: Product, theirs: Theirs) -> None:
    made = _Subscription(theirs.owner)
    mine = other.http.post(SUBSCRIPTIONS, json=made.body)
    assert mine.status_code == 201
    assert mine.json()["id"] != made.document["id"]
    secret = other.http.get(f"{SUBSCRIPTIONS}/{made.code}/secret").json()["secret"]
    assert secret != made.secret
    assert other.http.delete(f"{SUBSCRIPTIONS}/{made.code}").status_code == 204
    assert made.is_untouched()


def _declares_its_own(other: Product, theirs: Theirs) -> None:
    made = _Subscription(theirs.owner)
    path = "/api/applications/shop/subscriptions/sync"
    wish = {"subscriptions": [made.body], "removeUnlisted": True}
    assert other.http.post(path, json=wish).json()["created"] == [made.code]
    wish["subscriptions"] = []
    assert other.http.post(path, json=wish).json()["removed"] == [made.code]
    assert made.is_untouched()


def _lists_none_of_it(other: Product, theirs: Theirs) -> None:
    made = _Subscription(theirs.owner)
    looks: list[dict[str, Any]] = [
        {"limit": 500},
        {"eventType": made.body["eventTypes"][0]["eventTypeCode"]},
        {"cursor": "theirs"},
        {"anchorLevel": True},
    ]
    for params in looks:
        page = other.http.get(SUBSCRIPTIONS, params=params)
        assert page.status_code == 200
        assert made.code not in page.text


# Pools: their rows alone, for each that is in use is a process


def _pool(owner: Product) -> PoolRow:
    """A pool that was archived before anybody started it."""
    made = _Subscription(owner)  # its tenant is that of its owner

    async def work(pool: Pool) -> PoolRow:
        tenant = await pool.fetchval(
            "select tenant_id from subscriptions where subscription_id = $1", made.document["id"]
        )
        code = f"theirs-{new_id()}"
        new = NewPool(pool_id=f"dpl_{code[-13:].upper()}", code=code, name="theirs")
        async with pool.acquire() as conn, conn.transaction():
            created = await pools.add(conn, tenant, new, 10_000)
            assert isinstance(created, PoolRow)
            archived = await pools.archive_locked(conn, created)
        assert isinstance(archived, PoolRow)
        return archived

    row: PoolRow = in_database(owner, work)
    return row


def _cannot_reach_pool(method: str, rest: str = "", body: Any = None) -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        row = _pool(theirs.owner)
        for name in (row.code, row.pool_id):
            reply = other.http.request(method, f"{POOLS}/{name}{rest}", json=body)
            assert_problem(reply, 404, "pool_not_found")
        shown = theirs.owner.http.get(f"{POOLS}/{row.code}").json()
        assert (shown["name"], shown["status"]) == ("theirs", "ARCHIVED")

    return check


def _lists_no_pool_of_it(other: Product, theirs: Theirs) -> None:
    row = _pool(theirs.owner)
    for params in ({"limit": "500"}, {"status": "ARCHIVED"}, {"cursor": str(row.pool_no - 1)}):
        page = other.http.get(POOLS, params=params)
        assert page.status_code == 200
        assert row.code not in page.text


def _makes_pools_for_itself(other: Product, theirs: Theirs) -> None:
    row = _pool(theirs.owner)
    mine = other.http.post(POOLS, json={"code": row.code, "name": "mine"})
    assert mine.status_code == 201, mine.text
    assert mine.json()["id"] != row.pool_id
    assert other.http.delete(f"{POOLS}/{row.code}").status_code == 204
    assert theirs.owner.http.get(f"{POOLS}/{row.code}").json()["name"] == "theirs"


def _declares_pools_for_itself(other: Product, theirs: Theirs) -> None:
    row = _pool(theirs.owner)
    path = "/api/applications/shop/dispatch-pools/sync"
    wish = {"pools": [{"code": row.code, "name": "mine"}], "dryRun": True}
    assert other.http.post(path, json=wish).json()["created"] == [row.code]
    reply = other.http.post(path, json={"pools": [], "removeUnlisted": True}).json()
    assert reply["removed"] == []


# Secrets of tenants


def _has_a_secret_of_its_own(other: Product, theirs: Theirs) -> None:
    secret = theirs.owner.http.get("/api/webhook-secret").json()["secret"]
    assert secret not in other.http.get("/api/webhook-secret").text


def _rotates_its_own_secret(other: Product, theirs: Theirs) -> None:
    secret = theirs.owner.http.get("/api/webhook-secret").json()["secret"]
    reply = other.http.post("/api/webhook-secret/rotate", json={"overlapSeconds": 0})
    assert reply.status_code == 200
    assert theirs.owner.http.get("/api/webhook-secret").json()["secret"] == secret


SUBSCRIPTION_ISOLATION: dict[str, Check] = {
    "createSubscription": _subscribes_for_itself,
    "listSubscriptions": _lists_none_of_it,
    "showSubscription": _cannot_reach("GET"),
    "replaceSubscription": _replaces_none_of_it,
    "changeSubscription": _cannot_reach("PATCH", body={"name": "mine"}),
    "dropSubscription": _cannot_reach("DELETE"),
    "pauseSubscription": _cannot_reach("POST", "/pause"),
    "resumeSubscription": _cannot_reach("POST", "/resume"),
    "showSubscriptionSecret": _cannot_reach("GET", "/secret"),
    "rotateSubscriptionSecret": _cannot_reach("POST", "/secret/rotate", {}),
    "syncSubscriptions": _declares_its_own,
    "showWebhookSecret": _has_a_secret_of_its_own,
    "rotateWebhookSecret": _rotates_its_own_secret,
    "createDispatchPool": _makes_pools_for_itself,
    "listDispatchPools": _lists_no_pool_of_it,
    "showDispatchPool": _cannot_reach_pool("GET"),
    "replaceDispatchPool": _cannot_reach_pool("PUT", body={"name": "mine"}),
    "changeDispatchPool": _cannot_reach_pool("PATCH", body={"name": "mine"}),
    "archiveDispatchPool": _cannot_reach_pool("DELETE"),
    "suspendDispatchPool": _cannot_reach_pool("POST", "/suspend"),
    "activateDispatchPool": _cannot_reach_pool("POST", "/activate"),
    "syncDispatchPools": _declares_pools_for_itself,
}
