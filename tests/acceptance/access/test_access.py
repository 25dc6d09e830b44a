"""Who may do what: keys, permissions and callback tokens, on every route there is."""

import secrets
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from core.access.permissions import ALL_PERMISSIONS
from core.access.tokens import sign
from core.shared.address import Address
from host.paths import instance_paths
from storage.access import keys
from storage.postgres.pool import Pool
from tests.support.operations import Operation
from tests.support.problem import assert_problem
from tests.support.product import Product, new_id, until
from tests.support.tenants import create_key, in_database

Clients = Callable[[str | None], httpx.Client]

EVERY = sorted(permission.value for permission in ALL_PERMISSIONS)
PUBLIC = {"showHealth", "showReadiness", "showLiveness"}
TAKE_TOKENS = {"sendCallback", "sendJournalCallback", "streamJournals", "streamGather"}
CALLBACKS = "/api/internal/callbacks/external-service"
# A key stops working within this time wherever it is cached.
KEY_TTL = 10.0


# Keys


def test_each_route_names_a_permission_or_is_on_the_public_list(
    operations: dict[str, Operation],
) -> None:
    assert {name for name, one in operations.items() if one.permission is None} == PUBLIC
    assert {one.permission for one in operations.values()} - {None} == set(EVERY)
    assert {name for name, one in operations.items() if one.takes_token} == TAKE_TOKENS


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
    hashes = in_database(product, lambda pool: keys.find_key(pool, created["prefix"]))
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
    client = clients(create_key(product, ["waits:read"], expiresInSeconds=4)["key"])
    assert client.get("/api/wait-states").status_code == 200
    until("the key stops", lambda: client.get("/api/wait-states").status_code == 401)


def test_a_key_revoked_elsewhere_stops_within_ten_seconds(
    product: Product, stranger: Product, clients: Clients
) -> None:
    """Revoked in the database, as another replica does it: this one has it in its cache."""
    revoked = create_key(stranger, ["waits:read"])
    client = clients(revoked["key"])
    assert client.get("/api/wait-states").status_code == 200

    async def revoke(pool: Pool) -> bool:
        found = await keys.find_key(pool, revoked["prefix"])
        assert found is not None
        return await keys.revoke_key(pool, found.tenant, revoked["prefix"])

    assert in_database(product, revoke)
    until(
        "the key stops",
        lambda: client.get("/api/wait-states").status_code == 401,
        within=KEY_TTL + 1,
    )


def test_a_key_that_expired_before_its_first_use_is_401(product: Product, clients: Clients) -> None:
    key = create_key(product, ["waits:read"], expiresInSeconds=0.001)["key"]
    assert_problem(clients(key).get("/api/wait-states"), 401, "unauthenticated")


def test_a_key_cannot_outlive_its_maker(product: Product, clients: Clients) -> None:
    brief = create_key(product, ["keys:write", "waits:read"], expiresInSeconds=60)
    client = clients(brief["key"])
    body = {"name": "child", "permissions": ["waits:read"]}
    longer = client.post("/api/keys", json=body | {"expiresInSeconds": 3_600})
    assert_problem(longer, 422, "invalid")
    assert longer.json()["errors"][0]["field"] == "expiresInSeconds"
    assert "leave it out to end together" in longer.json()["detail"]
    child = client.post("/api/keys", json=body)
    assert child.status_code == 201
    assert child.json()["expiresAt"] == brief["expiresAt"]
    assert child.json()["createdBy"] == brief["prefix"]
    sooner = client.post("/api/keys", json=body | {"expiresInSeconds": 5}).json()
    assert sooner["expiresAt"] < brief["expiresAt"]


def test_a_key_is_revoked_with_its_maker(product: Product, clients: Clients) -> None:
    maker = create_key(product, ["keys:write", "waits:read"])
    body = {"name": "child", "permissions": ["keys:write", "waits:read"]}
    child = clients(maker["key"]).post("/api/keys", json=body).json()
    grandchild = clients(child["key"]).post("/api/keys", json=body).json()
    assert clients(grandchild["key"]).get("/api/wait-states").status_code == 200
    assert product.http.delete(f"/api/keys/{maker['prefix']}").status_code == 204
    for one in (maker, child, grandchild):
        reply = clients(one["key"]).get("/api/wait-states")
        assert_problem(reply, 401, "unauthenticated")
    listed = {key["prefix"]: key for key in product.http.get("/api/keys").json()["items"]}
    assert listed[grandchild["prefix"]]["createdBy"] == child["prefix"]
    assert "revokedAt" in listed[grandchild["prefix"]]


def test_who_changed_keys_is_told_to_their_own_tenant(
    product: Product, stranger: Product, clients: Clients
) -> None:
    made = create_key(product, ["waits:read"])
    product.http.delete(f"/api/keys/{made['prefix']}")
    admin = product.key.split("_")[1]
    newest = product.http.get("/api/audit-log", params={"limit": 2}).json()
    told = [(one["actor"], one["action"], one["object"]) for one in newest["items"]]
    assert told == [
        (admin, "key.revoked", made["prefix"]),
        (admin, "key.created", made["prefix"]),
    ]
    assert made["key"] not in str(newest)
    older = product.http.get("/api/audit-log", params={"cursor": newest["nextCursor"]}).json()
    assert all(one["auditId"] < newest["items"][-1]["auditId"] for one in older["items"])
    assert made["prefix"] not in stranger.http.get("/api/audit-log").text
    assert made["prefix"] in product.cli("audit").stdout
    assert_problem(product.http.get("/api/audit-log?cursor=x"), 422, "invalid")


def metric(product: Product, name: str, **labels: str) -> float:
    """What the counter says, of all that have these labels; summed over replicas."""
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    lines = product.http.get("/metrics").text.splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith(f"{name}{{") and all(one in line for one in wanted)
    )


def test_who_is_not_let_in_is_counted_and_logged(
    product: Product, stranger: Product, clients: Clients
) -> None:
    limited = create_key(product, ["waits:read"])
    prefix = limited["prefix"]
    before = metric(product, "muster_http_denied_total", reason="unknown_key")
    for _ in range(20):
        clients("mk_nobody_nothing").get("/api/wait-states")
    assert metric(product, "muster_http_denied_total", reason="unknown_key") == before + 20
    clients(f"mk_{prefix}_wrong").get("/api/wait-states")
    clients(limited["key"]).get("/api/keys")
    clients(limited["key"]).post(CALLBACKS, json={})  # by the short way
    denied = {"key": prefix, "reason": "permission"}
    assert metric(product, "muster_key_denied_total", **denied) == 2
    denied["reason"] = "wrong_secret"
    assert metric(product, "muster_key_denied_total", **denied) == 1
    assert metric(stranger, "muster_key_denied_total", key=prefix) == 0, "of others, nothing"
    folder = instance_paths(product.data_dir).ray / "session_latest" / "logs"

    def told() -> list[str]:
        texts = (file.read_text("utf-8", "replace") for file in folder.rglob("*") if file.is_file())
        return [line for text in texts for line in text.splitlines() if "request.denied" in line]

    until("the log tells of it", lambda: any(prefix in line for line in told()))
    assert any("unknown_key" in line for line in told())
    assert not any("nothing" in line or limited["key"] in line for line in told())


# Callback tokens


def _token(wait: dict[str, Any]) -> str:
    token: str = httpx.URL(wait["callbackUrl"]).params["token"]
    return token


def _signed(product: Product, wait: dict[str, Any], *, lives: float, tenant: int = 1) -> str:
    """A token as the product signs them, with another time to live."""

    async def work(pool: Pool) -> list[bytes]:
        return await keys.signing_secrets(pool, "callback", secrets.token_bytes(32))

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
    options: dict[str, Any] = {"json": {}} | {where: ids}
    reply = clients(None).post(wait["callbackUrl"], **options)
    assert_problem(reply, 403, "forbidden")
    # Nor does a key beside the token widen what the token allows.
    reply = clients(product.key).post(wait["callbackUrl"], **options)
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
    ids: dict[str, Any] = {"executionId": new_id(), "correlationId": new_id()}
    mine, theirs = product.register(**ids), stranger.register(**ids)
    assert clients(None).post(mine["callbackUrl"], json={}).json()["verdict"] == "matched"
    assert stranger.show(theirs)["receivedEvents"] == []
    # Whose key lies beside it does not matter: the token tells the tenant.
    reply = clients(product.key).post(theirs["callbackUrl"], json={})
    assert reply.json()["verdict"] == "matched"
    assert stranger.show(theirs)["receivedEvents"] == ["api_response"]
