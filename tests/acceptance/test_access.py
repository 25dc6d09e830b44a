"""Who may do what: keys, permissions, tenants and callback tokens, on every route there is."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from core.address import Address
from core.permissions import ALL_PERMISSIONS
from core.tokens import sign
from storage import access
from tests.support.problem import assert_problem
from tests.support.product import BOTH, Product, new_id, until
from tests.support.tenants import add_tenant, in_database

EVERY = sorted(permission.value for permission in ALL_PERMISSIONS)
PUBLIC = {"showHealth", "showReadiness", "showLiveness"}
CALLBACKS = "/api/internal/callbacks/external-service"
# A key stops working within this time wherever it is cached.
KEY_TTL = 10.0


@dataclass(frozen=True)
class Operation:
    """One operation of the OpenAPI document."""

    name: str
    method: str
    path: str
    permission: str | None
    takes_token: bool

    def call(self, http: httpx.Client, **options: Any) -> httpx.Response:
        """Call it with ids that mean nothing."""
        path = self.path.replace("{inboxId}", "999999999")
        for parameter in ("{executionId}", "{correlationId}", "{service}", "{topic}", "{prefix}"):
            path = path.replace(parameter, "nobody")
        return http.request(self.method, path, **options)


@pytest.fixture(scope="module")
def operations(product: Product) -> dict[str, Operation]:
    """Every operation by its id: a new route is covered by being there."""
    document = product.http.get("/openapi.json").json()
    found = [
        Operation(
            name=operation["operationId"],
            method=method.upper(),
            path=path,
            permission=operation.get("x-permission"),
            takes_token={"callbackToken": []} in operation.get("security", []),
        )
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return {operation.name: operation for operation in found}


@pytest.fixture
def clients(product: Product) -> Iterator[Callable[[str | None], httpx.Client]]:
    """Clients by their key."""
    with ExitStack() as stack:

        def client(key: str | None) -> httpx.Client:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            return stack.enter_context(
                httpx.Client(base_url=product.url, headers=headers, timeout=30, trust_env=False)
            )

        yield client


Clients = Callable[[str | None], httpx.Client]


@pytest.fixture(scope="module")
def stranger(product: Product) -> Iterator[Product]:
    """The same instance, as the admin of another tenant sees it."""
    _, key = add_tenant(product)
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=product.url, headers=headers, timeout=30, trust_env=False) as http:
        yield Product(product.url, key, product.pid, product.data_dir, http)


def create_key(product: Product, permissions: list[str], **more: Any) -> dict[str, Any]:
    body = {"name": "test", "permissions": permissions, **more}
    reply = product.http.post("/api/keys", json=body)
    assert reply.status_code == 201, reply.text
    created: dict[str, Any] = reply.json()
    return created


# Keys


def test_each_route_names_a_permission_or_is_on_the_public_list(
    operations: dict[str, Operation],
) -> None:
    assert {name for name, one in operations.items() if one.permission is None} == PUBLIC
    assert {one.permission for one in operations.values()} - {None} == set(EVERY)
    assert {name for name, one in operations.items() if one.takes_token} == {"sendCallback"}


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer nonsense",
        "Bearer mk__",
        "Bearer mk_nobody_nothing",
        "Bearer mk_ä_ö",
        "Basic bXVzdGVyOm11c3Rlcg==",
        "{key}",
        "Bearer {key}x",
        "Bearer {prefix}_{zeros}",
        "Token {key}",
    ],
)
def test_without_a_live_key_every_route_is_401(
    product: Product, clients: Clients, operations: dict[str, Operation], authorization: str | None
) -> None:
    headers: dict[str, str | bytes] = {}
    if authorization is not None:
        prefix = product.key.rpartition("_")[0]
        told = authorization.format(key=product.key, prefix=prefix, zeros="0" * 64)
        headers["Authorization"] = told.encode()
    nobody = clients(None)
    for operation in operations.values():
        reply = operation.call(nobody, headers=headers)
        if operation.permission is None:
            assert reply.status_code == 200, operation
            continue
        assert_problem(reply, 401, "unauthenticated")
        assert reply.headers["WWW-Authenticate"].startswith("Bearer"), operation


def test_the_scheme_is_bearer_in_any_case(product: Product, clients: Clients) -> None:
    for scheme in ("bearer", "BEARER"):
        headers = {"Authorization": f"{scheme} {product.key}"}
        assert clients(None).get("/api/wait-states", headers=headers).status_code == 200


@pytest.mark.parametrize("lacking", EVERY)
def test_a_key_with_all_permissions_but_the_needed_one_is_403(
    product: Product, clients: Clients, operations: dict[str, Operation], lacking: str
) -> None:
    key = create_key(product, [one for one in EVERY if one != lacking])["key"]
    client = clients(key)
    for operation in operations.values():
        reply = operation.call(client)
        if operation.permission == lacking:
            problem = assert_problem(reply, 403, "forbidden")
            assert lacking in problem["detail"], operation
        else:
            assert reply.status_code not in {401, 403}, operation


@pytest.mark.parametrize("granted", EVERY)
def test_a_key_with_one_permission_can_do_that_and_no_more(
    product: Product, clients: Clients, operations: dict[str, Operation], granted: str
) -> None:
    client = clients(create_key(product, [granted])["key"])
    for operation in operations.values():
        refused = operation.call(client).status_code == 403
        assert refused == (operation.permission not in {granted, None}), operation


def test_no_key_gives_what_it_lacks(product: Product, clients: Clients) -> None:
    key = create_key(product, ["keys:write", "waits:read"])["key"]
    body = {"name": "more", "permissions": ["waits:read", "waits:write"]}
    problem = assert_problem(clients(key).post("/api/keys", json=body), 403, "forbidden")
    assert "waits:write" in problem["detail"]


def test_a_key_is_shown_once_and_never_again(product: Product) -> None:
    created = create_key(product, ["waits:read"])
    reply = product.http.get("/api/keys")
    assert created["prefix"] in reply.text
    secret = created["key"].removeprefix(f"mk_{created['prefix']}_")
    assert secret not in reply.text
    hashes = in_database(product, lambda pool: access.find_key(pool, created["prefix"]))
    assert secret.encode() not in hashes.secret_hash


def test_two_keys_live_side_by_side_so_that_one_can_be_rotated(
    product: Product, clients: Clients
) -> None:
    old, new = (create_key(product, ["waits:read"]) for _ in range(2))
    with_old, with_new = clients(old["key"]), clients(new["key"])
    assert with_old.get("/api/wait-states").status_code == 200
    assert with_new.get("/api/wait-states").status_code == 200
    assert product.http.delete(f"/api/keys/{old['prefix']}").status_code == 204
    until(
        "the old key stops",
        lambda: with_old.get("/api/wait-states").status_code == 401,
        within=KEY_TTL,
    )
    assert with_new.get("/api/wait-states").status_code == 200
    keys = {key["prefix"]: key for key in product.http.get("/api/keys").json()["items"]}
    assert keys[old["prefix"]]["revokedAt"]
    assert "revokedAt" not in keys[new["prefix"]]


def test_a_key_stops_when_it_expires(product: Product, clients: Clients) -> None:
    client = clients(create_key(product, ["waits:read"], expiresInSeconds=2)["key"])
    assert client.get("/api/wait-states").status_code == 200
    until("the key stops", lambda: client.get("/api/wait-states").status_code == 401, within=6)


def test_a_key_revoked_elsewhere_stops_within_ten_seconds(
    product: Product, stranger: Product, clients: Clients
) -> None:
    """Revoked in the database, as another replica does it: this one has it in its cache."""
    revoked = create_key(stranger, ["waits:read"])
    client = clients(revoked["key"])
    assert client.get("/api/wait-states").status_code == 200

    async def revoke(pool: access.Pool) -> bool:
        found = await access.find_key(pool, revoked["prefix"])
        assert found is not None
        return await access.revoke_key(pool, found.tenant, revoked["prefix"])

    assert in_database(product, revoke)
    until(
        "the key stops",
        lambda: client.get("/api/wait-states").status_code == 401,
        within=KEY_TTL + 1,
    )


def test_a_key_that_expired_before_its_first_use_is_401(product: Product, clients: Clients) -> None:
    key = create_key(product, ["waits:read"], expiresInSeconds=0.001)["key"]
    assert_problem(clients(key).get("/api/wait-states"), 401, "unauthenticated")


# Tenants


@dataclass(frozen=True)
class Belongings:
    """What one tenant has, which another must not see."""

    owner: Product
    wait: dict[str, Any]
    inbox_id: int
    prefix: str

    @property
    def path(self) -> str:
        """Where the owner finds the wait."""
        return f"/api/wait-states/{self.wait['executionId']}/{self.wait['correlationId']}"

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the wait."""
        return {name: self.wait[name] for name in ("executionId", "correlationId")}

    def still_waits(self) -> bool:
        """Nothing has happened to the wait."""
        shown = self.owner.show(self.wait)
        return (shown["status"], shown["receivedEvents"]) == ("waiting", [])


@pytest.fixture
def belongings(product: Product) -> Belongings:
    wait = product.register()
    early = {"executionId": new_id(), "correlationId": new_id()}
    product.callback(early, {"secret": "early"})
    found = product.http.get("/api/inbox", params={"correlationId": early["correlationId"]})
    inbox_id = found.json()["items"][0]["inboxId"]
    return Belongings(product, wait, inbox_id, create_key(product, ["waits:read"])["prefix"])


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
    for params in ({}, {"executionId": theirs.wait["executionId"]}, {"limit": 500}):
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
    for params in ({}, {"cursor": theirs.inbox_id + 1}, {"verdict": "buffered", "limit": 500}):
        items = other.http.get("/api/inbox", params=params).json()["items"]
        assert theirs.inbox_id not in [item["inboxId"] for item in items]


def _lists_no_key_of_it(other: Product, theirs: Belongings) -> None:
    assert theirs.prefix not in other.http.get("/api/keys").text
    assert theirs.owner.key.split("_")[1] not in other.http.get("/api/keys").text


def _creates_keys_for_itself(other: Product, theirs: Belongings) -> None:
    created = create_key(other, EVERY)
    assert created["prefix"] not in theirs.owner.http.get("/api/keys").text
    headers = {"Authorization": f"Bearer {created['key']}"}
    assert httpx.get(other.url + theirs.path, headers=headers, trust_env=False).status_code == 404


def _cannot_revoke(other: Product, theirs: Belongings) -> None:
    assert_problem(other.http.delete(f"/api/keys/{theirs.prefix}"), 404, "not_found")
    keys = {key["prefix"]: key for key in theirs.owner.http.get("/api/keys").json()["items"]}
    assert "revokedAt" not in keys[theirs.prefix]


def _counts_but_names_nobody(path: str) -> Callable[[Product, Belongings], None]:
    def check(other: Product, theirs: Belongings) -> None:
        page = other.http.get(path)
        assert page.status_code == 200
        assert not [value for value in theirs.ids.values() if value in page.text]

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
    "listInbox": _lists_no_event_of_it,
    "showInboxEvent": _cannot_touch("GET"),
    "retryInboxEvent": _cannot_touch("POST", "/retry"),
    "deleteInboxEvent": _cannot_touch("DELETE"),
    "listKeys": _lists_no_key_of_it,
    "createKey": _creates_keys_for_itself,
    "revokeKey": _cannot_revoke,
    "showStatus": _counts_but_names_nobody("/api/status"),
    "scrapeMetrics": _counts_but_names_nobody("/metrics"),
}


def test_every_route_has_its_isolation_test(operations: dict[str, Operation]) -> None:
    assert set(ISOLATION) == set(operations) - PUBLIC


@pytest.mark.parametrize("name", ISOLATION)
def test_no_tenant_meets_another(stranger: Product, belongings: Belongings, name: str) -> None:
    ISOLATION[name](stranger, belongings)


def test_the_same_ids_in_two_tenants_are_two_waits(product: Product, stranger: Product) -> None:
    ids = {"executionId": new_id(), "correlationId": new_id()}
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


# Callback tokens


def _token(wait: dict[str, Any]) -> str:
    token: str = httpx.URL(wait["callbackUrl"]).params["token"]
    return token


def _signed(product: Product, wait: dict[str, Any], *, lives: float, tenant: int = 1) -> str:
    """A token as the product signs them, with another time to live."""

    async def work(pool: access.Pool) -> list[bytes]:
        return await access.signing_secrets(pool, "callback", secrets.token_bytes(32))

    live = in_database(product, work)
    address = Address(tenant, wait["executionId"], wait["correlationId"])
    return sign(address, time.time() + lives, live[0])


def test_a_token_works_in_the_address_or_in_a_header(product: Product, clients: Clients) -> None:
    nobody = clients(None)
    wait = product.register()
    headers = {"X-Callback-Token": _token(wait)}
    assert nobody.post(CALLBACKS, json={}, headers=headers).json()["verdict"] == "matched"
    assert nobody.post(wait["callbackUrl"], json={}).json()["verdict"] == "duplicate"


@pytest.mark.parametrize("place", ["header", "parameter"])
def test_a_forged_or_broken_token_is_401(product: Product, clients: Clients, place: str) -> None:
    wait, other = product.register(), product.register()
    good, theirs = _token(wait), _token(other)
    address = Address(1, wait["executionId"], wait["correlationId"])
    bad = {
        "another letter": good[:30] + ("A" if good[30] != "A" else "B") + good[31:],
        "another signature": theirs[:20] + good[20:],
        "cut": good[:-8],
        "longer": f"{good}AAAA",
        "another secret": sign(address, time.time() + 60, secrets.token_bytes(32)),
        "over": _signed(product, wait, lives=-1),
        "nonsense": "nonsense",
        "empty": "",
        "a key": product.key,
        "no letters": "%00 ü",
    }
    for why, token in bad.items():
        given: dict[str, Any] = (
            {"headers": {"X-Callback-Token": token.encode()}}
            if place == "header"
            else {"params": {"token": token}}
        )
        reply = clients(None).post(CALLBACKS, json={}, **given)
        assert reply.status_code == 401, f"{why}: {reply.text}"
        assert_problem(reply, 401, "unauthenticated")
    assert product.show(wait)["receivedEvents"] == []


def test_a_token_signed_by_the_product_lives_until_its_time(
    product: Product, clients: Clients
) -> None:
    wait = product.register()
    params = {"token": _signed(product, wait, lives=60)}
    reply = clients(None).post(CALLBACKS, params=params, json={})
    assert reply.json()["verdict"] == "matched", reply.text


@pytest.mark.parametrize("where", ["headers", "json"])
def test_a_token_is_for_its_own_correlation_only(
    product: Product, clients: Clients, where: str
) -> None:
    wait, other = product.register(), product.register()
    ids = {
        "headers": {
            "X-Execution-Id": other["executionId"],
            "X-Correlation-Id": other["correlationId"],
        },
        "json": {
            "execution_id": other["executionId"],
            "correlation_id": other["correlationId"],
        },
    }[where]
    reply = clients(None).post(wait["callbackUrl"], **({"json": {}} | {where: ids}))
    assert_problem(reply, 403, "forbidden")
    # Nor does a key beside the token widen what the token allows.
    reply = clients(product.key).post(wait["callbackUrl"], **({"json": {}} | {where: ids}))
    assert_problem(reply, 403, "forbidden")
    assert product.show(wait)["receivedEvents"] == product.show(other)["receivedEvents"] == []


def test_a_token_opens_no_other_route(
    product: Product, clients: Clients, operations: dict[str, Operation]
) -> None:
    wait = product.register()
    token = _token(wait)
    for operation in operations.values():
        if operation.takes_token or operation.permission is None:
            continue
        reply = operation.call(
            clients(None), params={"token": token}, headers={"X-Callback-Token": token}
        )
        assert_problem(reply, 401, "unauthenticated")
        reply = operation.call(clients(token))
        assert_problem(reply, 401, "unauthenticated")


def test_a_token_of_one_tenant_means_nothing_in_another(
    product: Product, stranger: Product, clients: Clients
) -> None:
    ids = {"executionId": new_id(), "correlationId": new_id()}
    mine, theirs = product.register(**ids), stranger.register(**ids)
    assert clients(None).post(mine["callbackUrl"], json={}).json()["verdict"] == "matched"
    assert stranger.show(theirs)["receivedEvents"] == []
    # Whose key lies beside it does not matter: the token tells the tenant.
    reply = clients(product.key).post(theirs["callbackUrl"], json={})
    assert reply.json()["verdict"] == "matched"
    assert stranger.show(theirs)["receivedEvents"] == ["api_response"]
