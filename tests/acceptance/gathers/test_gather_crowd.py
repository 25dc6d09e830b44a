"""A crowd of gathers: every resource is asked, every answer counts, and the metrics agree."""

import asyncio
import contextlib
import itertools
import re
from collections import Counter

import aiohttp

from tests.support.gathering import JOURNALS, GatherClient, read_events, until
from tests.support.product import Product

TIMEOUT = 25_000
# What delays lead to. Of those that never answer there is nothing to wait for but the timeout.
STREAMED = {
    "0,20,40": ("ok", "ok", "ok"),
    "30,-1,10": ("ok", "REJECTED", "ok"),
    "-1,-1,-1": ("REJECTED", "REJECTED", "REJECTED"),
    "-11,5,-1": ("CONNECTION_CLOSED", "ok", "REJECTED"),
    "5,-2,-1": ("ok", "ERROR", "REJECTED"),
    "-12,-12,-12": ("TIMEOUT", "TIMEOUT", "TIMEOUT"),
}
WAITED = STREAMED | {"5,-2,-1": ("ok", "REJECTED", "REJECTED")}  # no direct answer is a 500
CROWD = 500


async def test_five_hundred_at_once_all_end_right_and_the_metrics_agree(
    gatherings: GatherClient,
) -> None:
    before = await counted_at_rest(gatherings)
    kinds = itertools.cycle([(True, one) for one in STREAMED] + [(False, one) for one in WAITED])
    chosen = list(itertools.islice(kinds, CROWD))
    async with crowded(gatherings.product) as http:
        ended = await asyncio.gather(*(one_of_many(http, *one) for one in chosen))
    calls = Counter(call.headers["Idempotency-Key"] for call in gatherings.resources.calls)
    expected: Counter[str] = Counter()
    for (streamed, delays), gather_id in zip(chosen, ended, strict=True):
        statuses = (STREAMED if streamed else WAITED)[delays]
        expected[{0: "empty", 3: "full"}.get(statuses.count("ok"), "partial")] += 1
        expected["stream" if streamed else "wait"] += 1
        for name, status in zip(JOURNALS, statuses, strict=True):
            expected[f"{name} {status}"] += 1
            # In such a crowd the time of some is over before it is their turn to be asked.
            asked = {0, 1} if status == "TIMEOUT" else {1}
            assert calls[f"{gather_id}/{name}"] in asked

    told: Counter[str] = Counter()

    async def agree() -> bool:
        nonlocal told
        told = await counted(gatherings) - before
        return told == expected

    with contextlib.suppress(AssertionError):
        await until("the metrics agree", agree)
    assert told == expected
    health = (await gatherings.http.get("/actuator/health")).json()["components"]
    assert health["sseManager"]["status"] == "UP"
    assert health["sseManager"]["details"]["totalProcessed"] >= CROWD
    assert set(JOURNALS) <= set(health["resourceConnectivity"]["details"])


def crowded(product: Product) -> aiohttp.ClientSession:
    """A client for many connections at once."""
    return aiohttp.ClientSession(
        product.url,
        headers={"Authorization": f"Bearer {product.key}"},
        connector=aiohttp.TCPConnector(limit=0),
        middlewares=(come_back,),
        raise_for_status=True,
    )


async def come_back(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A crowd may be told to come back: whoever only asks does so when it is told to."""
    reply = await handler(request)
    for _ in range(10):
        if request.method != "GET" or reply.status != 503:
            break
        await asyncio.sleep(float(reply.headers["Retry-After"]))
        reply = await handler(request)
    return reply


async def one_of_many(http: aiohttp.ClientSession, streamed: bool, delays: str) -> str:
    """One gather, checked against what it must come to; its id."""
    timeout = 1_000 if delays == "-12,-12,-12" else TIMEOUT
    strategy, table = ("SSE", STREAMED) if streamed else ("WAIT_FOR_EVERYONE", WAITED)
    statuses = table[delays]
    asked = {"patientId": "p", "delays": delays, "timeoutMs": timeout, "strategy": strategy}
    async with http.post("/aggregate/journals", json=asked) as reply:
        result = await reply.json()
    if streamed:
        async with http.get(result["streamUrl"]) as reply:
            lines = (line.decode().rstrip("\n") async for line in reply.content)
            *answers, result = [event.data async for event in read_events(lines)]
        assert len(answers) == 3
        told = {answer["source"]: answer["status"] for answer in answers}
    else:
        told = {name: one["status"] for name, one in result["resources"].items()}
    assert told == dict(zip(JOURNALS, statuses, strict=True))
    errors = [status for status in statuses if status not in {"ok", "REJECTED"}]
    assert (result["respondents"], result["errors"]) == (statuses.count("ok"), len(errors))
    assert result["received"] == 3
    gather_id: str = result["correlationId"]
    async with http.get(f"/api/gathers/{gather_id}") as reply:
        shown = await reply.json()
    assert {name: one["state"] for name, one in shown["resources"].items()} == told
    return gather_id


async def counted_at_rest(gatherings: GatherClient) -> Counter[str]:
    """The counts once no gather of an earlier test can change them."""

    async def nothing_waits() -> bool:
        listed = await gatherings.http.get("/api/wait-states", params={"status": "waiting"})
        return not [one for one in listed.json()["items"] if one["nodeId"] == "gather"]

    async def nothing_changes() -> bool:
        nonlocal before
        now = await counted(gatherings)
        is_same, before = now == before, now
        return is_same

    before: Counter[str] = Counter()
    await until("gathers of earlier tests have ended", nothing_waits)
    # Replicas are asked in turn, and what actors report is up to a second old.
    await until("the counts stay", nothing_changes, every=1.5)
    return before


async def counted(gatherings: GatherClient) -> Counter[str]:
    """What the metrics say of gathers, in the words of the test above."""
    told: Counter[str] = Counter()
    for line in (await gatherings.http.get("/metrics")).text.splitlines():
        name, _, value = line.rpartition(" ")
        labels = dict(re.findall(r'(\w+)="([^"]*)"', name))
        match name.partition("{")[0]:
            case "muster_gathers_ended_total":
                told[labels["completeness"]] += int(float(value))
            case "muster_gather_outcomes_total" if labels["resource"] in JOURNALS:
                told[f"{labels['resource']} {labels['state']}"] += int(float(value))
            case "muster_gather_request_seconds_count":
                told[labels["strategy"]] += int(float(value))
    return told
