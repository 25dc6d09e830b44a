"""Callback URLs: each is one service's, tells its holder little, and can be taken back."""

import time
from collections.abc import Callable
from typing import Any

import httpx

from core.access.tokens import verify
from core.shared.address import Address
from storage.access import keys
from storage.postgres.pool import Pool
from tests.support.problem import assert_problem
from tests.support.product import Product, id_headers, until
from tests.support.tenants import create_key, in_database

Clients = Callable[[str | None], httpx.Client]

PARTIES: dict[str, Any] = {
    "apiCall": {"url": "http://127.0.0.1:9/process"},
    "events": [
        {"name": "payment", "service": "payer"},
        {"name": "approval", "service": "approver", "filter": {"grade": "S3CRET"}},
    ],
    "timeout": 60,
}


def as_another(url: str, service: str) -> str:
    """The same URL with another service in its path."""
    parts = httpx.URL(url)
    return str(parts.copy_with(path=f"/api/internal/callbacks/{service}"))


def test_a_url_speaks_for_its_own_service_only(product: Product, clients: Clients) -> None:
    wait = product.register(PARTIES)
    payer = wait["callbackUrls"]["payment"]
    for other in ("approver", "external-service", "anybody"):
        reply = clients(None).post(as_another(payer, other), json={"grade": "S3CRET"})
        assert_problem(reply, 403, "forbidden")
        assert f"answers of payer, not of {other}" in reply.json()["detail"]
    general = as_another(wait["callbackUrl"], "approver")
    assert_problem(clients(None).post(general, json={"grade": "S3CRET"}), 403, "forbidden")
    assert product.show(wait)["receivedEvents"] == []
    assert clients(None).post(payer, json={}).json()["event"] == "payment"


def test_sent_twice_it_does_not_count_for_the_event_that_anybody_may_send(
    product: Product, clients: Clients
) -> None:
    wait = product.register(PARTIES)
    payer = wait["callbackUrls"]["payment"]
    verdicts = [clients(None).post(payer, json={}).json()["verdict"] for _ in range(2)]
    assert verdicts == ["matched", "duplicate"]
    assert product.show(wait)["receivedEvents"] == ["payment"]
    assert clients(None).post(wait["callbackUrl"], json={}).json()["event"] == "api_response"


def test_its_holder_is_not_told_what_else_is_awaited(product: Product, clients: Clients) -> None:
    wait = product.register(PARTIES)
    approver = wait["callbackUrls"]["approval"]
    told = clients(None).post(approver, json={"grade": "x"}).json()
    assert (told["verdict"], told["reason"]) == ("rejected", "filtered_out")
    assert "clause" not in told
    only_kafka = product.register({"kafkaEvent": {"topic": "t.secret"}, "timeout": 60})
    refused = clients(None).post(only_kafka["callbackUrl"], json={}).json()
    assert (refused["verdict"], refused["reason"]) == ("rejected", "source_not_expected")
    for document in (told, refused):
        assert "S3CRET" not in str(document)
        assert "kafka" not in str(document)


def test_a_key_is_told_what_a_wait_expects_if_it_may_read_waits(
    product: Product, clients: Clients
) -> None:
    wait = product.register({"events": PARTIES["events"], "timeout": 60})
    path = "/api/internal/callbacks/approver"
    batch = {"items": [{**ids(wait), "body": {"grade": "x"}}]}
    for more, sees in (([], False), (["inbox:read"], True), (["waits:read"], True)):
        key = create_key(product, ["callbacks:write", "events:write", *more])["key"]
        client = clients(key)
        told = client.post(path, json={"grade": "x"}, headers=id_headers(wait)).json()
        assert ("clause" in told) is sees, more
        assert ("S3CRET" in str(told)) is sees, more
        (result,) = client.post(f"{path}/batch", json=batch).json()["results"]
        assert ("S3CRET" in str(result)) is sees, more
        posted = client.post("/api/events", json=event_for(wait)).json()
        assert posted["wait"]["verdict"] == "rejected", posted
        assert ("clause" in posted["wait"]) is sees, more


def test_nor_by_trying_an_event_again(product: Product, clients: Clients) -> None:
    wait = product.register({"events": PARTIES["events"], "timeout": 60})
    told = product.callback(wait, {"grade": "x"}, service="approver")
    assert told["reason"] == "filtered_out"
    page = product.http.get("/api/inbox", params={"limit": 500}).json()["items"]
    inbox_id = next(one["inboxId"] for one in page if one["eventId"] == told["eventId"])
    client = clients(create_key(product, ["inbox:write"])["key"])
    again = client.post(f"/api/inbox/{inbox_id}/retry").json()
    assert again["reason"] == "filtered_out"
    assert "S3CRET" not in str(again)


def ids(wait: dict[str, Any]) -> dict[str, str]:
    return {"executionId": wait["executionId"], "correlationId": wait["correlationId"]}


def event_for(wait: dict[str, Any]) -> dict[str, Any]:
    return {"type": "a:b:c:d", "source": "/t", "data": {}, **ids(wait)}


def test_it_ends_with_the_wait_and_a_short_grace(product: Product) -> None:
    wait = product.register(PARTIES)
    live = in_database(product, _live)
    for url in (wait["callbackUrl"], *wait["callbackUrls"].values()):
        token = httpx.URL(url).params["token"]
        assert verify(token, time.time() + 60 + 3_700, live) is None
        claims = verify(token, time.time() + 60 + 3_500, live)
        assert claims is not None
        assert claims.address == Address(1, wait["executionId"], wait["correlationId"])


async def _live(pool: Pool) -> list[bytes]:
    return await keys.signing_secrets(pool, "callback", b"never")


def test_of_a_wait_that_is_forgotten_it_is_refused_and_nothing_is_kept(
    product: Product, clients: Clients
) -> None:
    wait = product.register(PARTIES)
    path = f"/api/wait-states/{wait['executionId']}/{wait['correlationId']}"
    assert product.http.delete(path).status_code in (200, 204)
    late = clients(None).post(wait["callbackUrl"], json={}).json()
    assert late["verdict"] == "late", "within the grace"

    async def forget(pool: Pool) -> None:
        await pool.execute(
            "delete from execution_wait_states where execution_id = $1", wait["executionId"]
        )

    in_database(product, forget)

    def is_refused() -> bool:
        """Once the shard has let it go, too."""
        return clients(None).post(wait["callbackUrl"], json={}).status_code == 401

    until("the URL is refused", is_refused, within=120)
    reply = clients(None).post(wait["callbackUrl"], json={})
    assert_problem(reply, 401, "unauthenticated")

    async def kept(pool: Pool) -> int:
        question = "select count(*) from event_inbox where execution_id = $1"
        count: int = await pool.fetchval(question, wait["executionId"])
        return count

    assert in_database(product, kept) == 0


def test_a_rotation_ends_what_was_signed_before_on_every_replica(
    product: Product, clients: Clients
) -> None:
    before = product.register(PARTIES)
    listed = product.cli("tokens", "list").stdout
    assert "callback" in listed
    for secret in in_database(product, _live):
        assert secret.hex() not in listed
    told = product.cli("tokens", "rotate", "--purpose", "callback", "--grace", "1h").stdout
    assert "1h" in told
    kept = clients(None).post(before["callbackUrl"], json={})
    assert kept.json()["verdict"] == "matched", "within the grace"
    product.cli("tokens", "rotate", "--grace", "0")
    stopped = before["callbackUrls"]["payment"]
    until(
        "the old URL stops",
        lambda: clients(None).post(stopped, json={}).status_code == 401,
        within=12,
    )
    again = product.register(
        PARTIES, executionId=before["executionId"], correlationId=before["correlationId"]
    )
    assert not again["created"]
    assert (
        clients(None).post(again["callbackUrls"]["payment"], json={}).json()["event"] == "payment"
    )


def test_a_purpose_that_there_is_not_is_refused(product: Product) -> None:
    done = product.cli("tokens", "rotate", "--purpose", "webhook", check=False)
    assert done.returncode != 0
    assert "callback or stream" in done.stderr
