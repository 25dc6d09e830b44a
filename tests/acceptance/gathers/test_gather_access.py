"""Gathers and resources: who may read, begin and answer them; no secret and no tenant shows."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.support.gathering import GatherClient, client, until
from tests.support.problem import assert_problem
from tests.support.product import Product, new_id
from tests.support.tenants import create_key
from tools.demo.gathers.calls import Behaviour

SECRETS = ("very-secret", "hidden-too", "not-for-you")


@pytest.fixture(scope="module")
async def other(stranger: Product) -> AsyncIterator[httpx.AsyncClient]:
    """A client of another tenant, which may do everything there."""
    async with client(stranger.url, stranger.key) as http:
        yield http


@pytest.fixture(scope="module")
def keys(ward: Product) -> dict[str, str]:
    """Keys of the tenant with one permission each."""
    names = ("gathers:read", "gathers:write", "callbacks:write", "resources:read", "waits:read")
    return {name: create_key(ward, [name])["key"] for name in names}


def token_of(url: str) -> str:
    return parse_qs(urlsplit(url).query)["token"][0]


def callback_for(gather_id: str) -> dict[str, Any]:
    return {"source": "resource-1", "correlationId": gather_id, "status": "ok", "notes": []}


async def callback_tokens(gatherings: GatherClient, gather_id: str) -> dict[str, str]:
    """What each of the three resources may answer with."""
    calls = await gatherings.called(gather_id, 3)
    return {
        call.headers["Idempotency-Key"].rpartition("/")[2]: token_of(call.body["callbackUrl"])
        for call in calls
    }


async def test_a_key_may_do_what_its_permission_says(
    gatherings: GatherClient, keys: dict[str, str]
) -> None:
    begun = await gatherings.journals("-12,-12,-12", timeoutMs=20_000)
    gather_id = begun["correlationId"]
    requests: dict[tuple[str, str], tuple[str, Any]] = {
        ("GET", f"/api/gathers/{gather_id}"): ("gathers:read", None),
        ("GET", f"/aggregate/stream?correlationId={new_id()}"): ("gathers:read", None),
        ("GET", f"/api/gathers/{new_id()}/stream"): ("gathers:read", None),
        ("POST", "/api/gathers"): ("gathers:write", {"resources": []}),
        ("POST", "/aggregate/journals"): ("gathers:write", {"patientId": ""}),
        ("POST", "/journals"): ("gathers:write", {"patientId": ""}),
        ("POST", "/aggregate/callback"): ("callbacks:write", callback_for(new_id())),
        ("GET", "/api/resources"): ("resources:read", None),
        ("GET", "/api/resources/resource-1"): ("resources:read", None),
        ("PUT", f"/api/resources/x-{new_id()}"): ("resources:write", {"url": "http://x/"}),
        ("DELETE", "/api/resources/resource-1"): ("resources:write", None),
        ("DELETE", f"/api/gathers/{new_id()}"): ("gathers:write", None),
    }
    for permission, key in keys.items():
        async with gatherings.with_key(key) as http:
            for (method, path), (needed, body) in requests.items():
                reply = await http.request(method, path, json=body)
                assert (reply.status_code == 403) == (needed != permission), (method, path)
    async with gatherings.with_key(None) as nobody:
        for (method, path), (_, body) in requests.items():
            reply = await nobody.request(method, path, json=body)
            assert_problem(reply, 401, "unauthenticated")
    await gatherings.http.delete(f"/api/gathers/{gather_id}")


async def test_a_token_is_for_one_thing_and_one_gather(gatherings: GatherClient) -> None:
    mine = await gatherings.journals("-12,-12,-12", timeoutMs=20_000)
    other = await gatherings.journals("-12,-12,-12", timeoutMs=20_000)
    gather_id = mine["correlationId"]
    tokens = await callback_tokens(gatherings, gather_id)
    theirs = (await callback_tokens(gatherings, other["correlationId"]))["resource-1"]
    callback = callback_for(gather_id)
    stream_token = token_of(mine["streamUrl"])

    async def call_back(token: str) -> httpx.Response:
        return await gatherings.browser.post(f"/aggregate/callback?token={token}", json=callback)

    good = tokens["resource-1"]
    for wrong in ("nonsense", "", good[:-2], good[:-1] + "ä", f"A{good}", stream_token):
        assert_problem(await call_back(wrong), 401, "unauthenticated")
    assert_problem(await call_back(theirs), 403, "forbidden")
    assert_problem(await call_back(tokens["resource-2"]), 403, "forbidden")
    named = f"/api/internal/callbacks/resource-1?token={tokens['resource-2']}"
    assert_problem(await gatherings.browser.post(named, json=callback), 403, "forbidden")
    general = f"/api/internal/callbacks/resource-1?token={theirs}"
    headers = {"X-Correlation-Id": gather_id}
    reply = await gatherings.browser.post(general, json=callback, headers=headers)
    assert_problem(reply, 403, "forbidden")

    for wrong, status in ((good, 401), (token_of(other["streamUrl"]), 403), ("", 401)):
        for path in (
            f"/aggregate/stream?correlationId={gather_id}&token={wrong}",
            f"/api/gathers/{gather_id}/stream?token={wrong}",
        ):
            reply = await gatherings.browser.get(path)
            assert reply.status_code == status, path
    # A token opens its stream and nothing else, and goes before a key that could do more.
    for method, path in (("GET", ""), ("DELETE", "")):
        url = f"/api/gathers/{gather_id}{path}?token={stream_token}"
        assert_problem(await gatherings.browser.request(method, url), 401, "unauthenticated")
    beside = f"/aggregate/callback?token={theirs}"
    assert_problem(await gatherings.http.post(beside, json=callback), 403, "forbidden")
    assert (await gatherings.show(gather_id))["received"] == 0

    headers = {"X-Callback-Token": good}
    reply = await gatherings.browser.post("/aggregate/callback", json=callback, headers=headers)
    assert (reply.status_code, reply.json()["verdict"]) == (200, "matched")
    for begun in (mine, other):
        await gatherings.http.delete(f"/api/gathers/{begun['correlationId']}")


async def test_another_tenant_finds_nothing(
    gatherings: GatherClient, other: httpx.AsyncClient
) -> None:
    name = await gatherings.register(Behaviour.SILENT)
    begun = await gatherings.gather(name, timeoutMs=20_000, context={"secret": "not-for-you"})
    gather_id = begun["id"]
    for method, path in (
        ("GET", f"/api/gathers/{gather_id}"),
        ("DELETE", f"/api/gathers/{gather_id}"),
        ("GET", f"/api/gathers/{gather_id}/stream"),
        ("GET", f"/aggregate/stream?correlationId={gather_id}"),
        ("GET", f"/api/wait-states/{gather_id}/{gather_id}"),
        ("GET", f"/api/wait-states/{gather_id}/{gather_id}/log"),
        ("GET", f"/api/resources/{name}"),
        ("DELETE", f"/api/resources/{name}"),
    ):
        reply = await other.request(method, path)
        assert_problem(reply, 404, "not_found")
        assert "not-for-you" not in reply.text
    assert name not in (await other.get("/api/resources")).text
    asked = await other.post("/api/gathers", json={"resources": [name]})
    assert_problem(asked, 422, "invalid")
    # The same ids and names are another correlation and another resource there.
    ids = {"X-Correlation-Id": gather_id, "X-Execution-Id": gather_id}
    told = await other.post(f"/api/internal/callbacks/{name}", json={}, headers=ids)
    assert told.json()["verdict"] == "buffered"
    told = await other.post("/aggregate/callback", json=callback_for(gather_id))
    assert told.json()["verdict"] == "buffered"
    mine = await other.put(f"/api/resources/{name}", json={"url": "http://127.0.0.1:9/theirs"})
    assert mine.status_code == 201
    assert (await other.delete(f"/api/resources/{name}")).status_code == 204
    shown = await gatherings.show(gather_id)
    assert (shown["status"], shown["received"]) == ("waiting", 0)
    kept = (await gatherings.http.get(f"/api/resources/{name}")).json()
    assert kept["url"].startswith(gatherings.resources.url)
    await gatherings.http.delete(f"/api/gathers/{gather_id}")


async def test_what_is_no_gather_is_404(gatherings: GatherClient, ward: Product) -> None:
    wait = await asyncio.to_thread(ward.register)  # it waits, but nobody was asked
    for gather_id in (new_id(), wait["correlationId"]):
        for path in (f"/aggregate/stream?correlationId={gather_id}", f"/api/gathers/{gather_id}"):
            assert_problem(await gatherings.http.get(path), 404, "not_found")
    unprintable = await gatherings.http.get("/aggregate/stream?correlationId=%01")
    assert_problem(unprintable, 404, "not_found")
    for path in ("/aggregate/stream", "/aggregate/stream?correlationId=", "/api/gathers/a+b"):
        assert_problem(await gatherings.http.get(path), 422, "invalid")


async def test_secrets_go_in_and_never_out(gatherings: GatherClient) -> None:
    bearer = await gatherings.register(
        auth={"type": "bearer", "token": "very-secret"}, headers={"X-Key": "hidden-too"}
    )
    basic = await gatherings.register(
        auth={"type": "basic", "username": "nurse", "password": "not-for-you"}
    )
    document = await gatherings.gather(bearer, basic, mode="wait")
    gather_id = document["id"]
    pages = [
        await gatherings.http.get(path)
        for path in (
            "/api/resources",
            f"/api/resources/{bearer}",
            f"/api/resources/{basic}",
            f"/api/gathers/{gather_id}",
            f"/api/gathers/{gather_id}/stream",
            f"/api/wait-states/{gather_id}/{gather_id}/log",
            "/api/status",
            "/metrics",
        )
    ]
    assert {page.status_code for page in pages} == {200}
    assert not [(page.url, one) for page in pages for one in SECRETS if one in page.text]
    shown = pages[1].json()
    assert (shown["auth"]["type"], set(shown["headers"])) == ("bearer", {"X-Key"})
    calls = gatherings.calls(gather_id)
    assert {call.headers["Authorization"].partition(" ")[0] for call in calls} == {
        "Bearer",
        "Basic",
    }


async def test_health_names_resources_to_their_tenant_only(
    gatherings: GatherClient, other: httpx.AsyncClient
) -> None:
    good, bad = await gatherings.register(), await gatherings.register(Behaviour.CLOSE)
    await gatherings.gather(good, bad, mode="wait")
    silent = await gatherings.register(Behaviour.SILENT)
    begun = await gatherings.gather(silent, timeoutMs=20_000, graceMs=0)

    async def look(http: httpx.AsyncClient) -> tuple[int, dict[str, Any]]:
        components = (await http.get("/actuator/health")).json()["components"]
        sinks: int = components["sseManager"]["details"]["activeSinks"]
        return sinks, components["resourceConnectivity"]["details"]

    # Somebody who follows the wait behind a gather reads no gather.
    plain = f"/api/wait-states/{begun['id']}/{begun['id']}/stream"
    async with gatherings.stream(begun), gatherings.http.stream("GET", plain) as also:
        assert also.status_code == 200
        await anext(also.aiter_raw())

        async def told() -> bool:
            sinks, details = await look(gatherings.http)
            return sinks == 1 and (details.get(good), details.get(bad)) == ("UP", "DOWN")

        await until("health tells of them", told)
    assert set((await look(gatherings.browser))[1]) == {"up", "down"}
    assert not {good, bad} & set((await look(other))[1])

    async def none() -> bool:
        return (await look(gatherings.browser))[0] == 0

    await until("nobody reads", none)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"url": "ftp://x/"},
        {"url": "http://user:word@x/"},
        {"url": "http://x/", "method": "DELETE"},
        {"url": "http://x/", "auth": {"type": "digest"}},
        {"url": "http://x/", "auth": {"type": "bearer"}},
        {"url": "http://x/", "auth": {"type": "bearer", "token": "a\nb"}},
        {"url": "http://x/", "headers": {"Idempotency-Key": "mine"}},
        {"url": "http://x/", "headers": {"X": "a\r\nY: b"}},
        {"url": "http://x/", "ratePerMinute": 0},
        {"url": "http://x/", "concurrency": 0},
        {"url": "http://x/", "readTimeoutMs": 0},
        {"url": "http://x/", "reply": "maybe"},
    ],
)
async def test_a_resource_that_makes_no_sense_is_422(
    gatherings: GatherClient, fields: dict[str, Any]
) -> None:
    name = f"x-{new_id()}"
    reply = await gatherings.http.put(f"/api/resources/{name}", json=fields)
    assert_problem(reply, 422, "invalid")
    assert (await gatherings.http.get(f"/api/resources/{name}")).status_code == 404


async def test_a_new_resource_is_201_and_a_changed_one_200(gatherings: GatherClient) -> None:
    path, wish = f"/api/resources/x-{new_id()}", {"url": "http://127.0.0.1:9/"}
    created = await gatherings.http.put(path, json=wish)
    changed = await gatherings.http.put(path, json=wish | {"reply": "direct"})
    assert (created.status_code, changed.status_code) == (201, 200)
    assert changed.json() == (await gatherings.http.get(path)).json()
    assert changed.json()["reply"] == "direct"
    assert (await gatherings.http.delete(path)).status_code == 204
    assert_problem(await gatherings.http.delete(path), 404, "not_found")
    await until("it is not listed", lambda: _is_not_listed(gatherings, path))


async def _is_not_listed(gatherings: GatherClient, path: str) -> bool:
    items = (await gatherings.http.get("/api/resources")).json()["items"]
    return path.rpartition("/")[2] not in {item["name"] for item in items}
