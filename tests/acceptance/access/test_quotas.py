"""A tenant that has stored as much as it may is refused, by name; its neighbour is served."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from storage.access import keys
from storage.postgres.pool import Pool
from tests.support.product import BOTH, Product, new_id, run_cli, until
from tests.support.tenants import another_tenant, in_database


@pytest.fixture
def flooder(product: Product) -> Iterator[Product]:
    """A tenant of the test's own, whose limits may be changed."""
    with another_tenant(product) as admin:
        yield admin


def _slug(product: Product) -> str:
    """How operators call the tenant of this key."""
    prefix = product.key.split("_")[1]

    async def work(pool: Pool) -> str | None:
        found = await keys.find_key(pool, prefix)
        assert found is not None
        return await keys.slug_of(pool, found.tenant)

    slug: str = in_database(product, work)
    return slug


def _set(product: Product, name: str, value: int) -> None:
    done = run_cli(
        "quotas", "set", _slug(product), name, str(value), "--data-dir", str(product.data_dir)
    )
    assert done.returncode == 0, done.stderr


def _clear(product: Product, name: str) -> None:
    done = run_cli("quotas", "clear", _slug(product), name, "--data-dir", str(product.data_dir))
    assert done.returncode == 0, done.stderr


def _quota(product: Product, name: str) -> dict[str, Any]:
    items = product.http.get("/api/quotas").json()["items"]
    (found,) = [one for one in items if one["name"] == name]
    return dict(found)


def _register(product: Product) -> httpx.Response:
    return product.http.post("/api/wait-states", json={"data": BOTH})


def _refusal(product: Product, status: int) -> dict[str, Any]:
    """Register until it is refused with this status; the problem."""

    def refused() -> httpx.Response | None:
        reply = _register(product)
        assert reply.status_code in (201, status), reply.text
        return reply if reply.status_code == status else None

    reply: httpx.Response = until("the quota holds", refused)
    problem: dict[str, Any] = reply.json()
    assert 1 <= int(reply.headers["Retry-After"]) <= 3_600
    return problem


def test_a_tenant_past_its_day_is_told_which_quota_and_its_neighbour_is_served(
    flooder: Product, stranger: Product
) -> None:
    wait = flooder.register()
    _set(flooder, "rowsPerDay", 5)
    problem = _refusal(flooder, 429)
    assert problem["code"] == "quota_exceeded"
    assert (problem["quota"], problem["limit"]) == ("rowsPerDay", 5)
    assert "muster quotas set" in problem["detail"]
    # A callback URL is its tenant's, too: nobody fills the disk with one.
    token = wait["callbackUrl"].replace(flooder.url, "")
    assert httpx.post(flooder.url + token, json={}).status_code == 429
    event = {"type": "a:b:c:d", "source": "test", "data": {}}
    assert flooder.http.post("/api/events", json=event).status_code == 429
    job = {"targetUrl": "http://127.0.0.1:9/x", "payload": {}, "code": "a", "source": "s"}
    assert flooder.http.post("/api/dispatch-jobs", json=job).status_code == 429
    # Reading and cancelling go on, and so does everybody else.
    assert flooder.http.get("/api/wait-states").status_code == 200
    path = f"/api/wait-states/{wait['executionId']}/{wait['correlationId']}"
    assert flooder.http.delete(path).status_code == 200
    assert _register(stranger).status_code == 201
    metrics = stranger.http.get("/metrics").text
    assert 'muster_quota_refused_total{quota="rowsPerDay"' in metrics
    _clear(flooder, "rowsPerDay")
    until("it is let in again", lambda: _register(flooder).status_code == 201)


def test_what_is_kept_is_bounded_in_bytes(flooder: Product, stranger: Product) -> None:
    _set(flooder, "storedBytes", 5_000)
    problem = _refusal(flooder, 507)
    assert (problem["quota"], problem["limit"]) == ("storedBytes", 5_000)
    assert _register(stranger).status_code == 201
    _set(flooder, "storedBytes", 0)
    until("there is no limit", lambda: _register(flooder).status_code == 201)


def test_use_is_shown_to_its_tenant_alone(flooder: Product, stranger: Product) -> None:
    assert _quota(flooder, "rowsPerDay")["used"] == 0
    for _ in range(3):
        flooder.register()
    until("it is counted", lambda: _quota(flooder, "rowsPerDay")["used"] == 3)
    stored = _quota(flooder, "storedBytes")
    assert stored["used"] >= 3_000
    assert stored["limit"] == 1_000_000_000_000
    assert not stored["own"]
    assert stored.get("resetsAt") is None
    assert _quota(flooder, "bytesPerDay")["resetsAt"].endswith("T00:00:00.000000Z")
    assert _quota(flooder, "keys")["used"] == 1
    _set(flooder, "keys", 1)
    assert _quota(flooder, "keys") == {"name": "keys", "used": 1, "limit": 1, "own": True}
    assert not _quota(stranger, "keys")["own"]


def test_how_many_there_may_be_is_bounded(flooder: Product) -> None:
    for name in (
        "keys",
        "resources",
        "eventTypes",
        "subscriptions",
        "topics",
        "schemas",
        "collections",
    ):
        _set(flooder, name, 1)
    key = flooder.http.post("/api/keys", json={"name": "n", "permissions": ["waits:read"]})
    assert (key.status_code, key.json()["quota"]) == (409, "keys")
    resource = {"url": "http://127.0.0.1:9/"}
    assert flooder.http.put("/api/resources/one", json=resource).status_code == 201
    assert flooder.http.put("/api/resources/one", json=resource).status_code == 200
    more = flooder.http.put("/api/resources/two", json=resource)
    assert (more.status_code, more.json()["quota"]) == (409, "resources")
    types = [{"code": f"shop:orders:order:{name}", "name": name} for name in ("made", "paid")]
    assert flooder.http.post("/api/event-types", json=types[0]).status_code == 201
    more = flooder.http.post("/api/event-types", json=types[1])
    assert (more.status_code, more.json()["quota"]) == (409, "eventTypes")
    for name, status in (("one", 201), ("two", 409)):
        body = {"name": name, "fields": [{"name": "a", "type": "DATE"}]}
        assert flooder.http.post("/control/collections", json=body).status_code == status
    for name, status in (("first", 201), ("first", 201), ("second", 409)):
        reply = flooder.http.post(
            "/api/wait-states",
            json={"data": {"kafkaEvent": {"topic": f"topic-{name}"}, "timeout": 60}},
        )
        assert reply.status_code == status, reply.text


def test_an_operator_is_told_of_a_tenant_that_is_not_there(product: Product) -> None:
    done = run_cli(
        "quotas", "set", f"no-{new_id()}", "keys", "5", "--data-dir", str(product.data_dir)
    )
    assert done.returncode == 1
    assert "There is no tenant" in done.stderr


def test_the_command_shows_what_is_used(flooder: Product) -> None:
    env = {"MUSTER_URL": flooder.url, "MUSTER_KEY": flooder.key}
    done = run_cli("quotas", "list", env=env)
    assert done.returncode == 0, done.stderr
    assert "rowsPerDay" in done.stdout
    assert "░" in done.stdout
