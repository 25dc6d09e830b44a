"""Killed processes: every resource is asked, every answer counts, and once."""

import asyncio
import itertools
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from host.paths import instance_paths
from host.processes import find_processes_in
from tests.support.gathering import (
    JOURNALS,
    GatherClient,
    StreamEvent,
    gather_client_of,
    until,
)
from tests.support.instances import HEARTBEAT
from tests.support.product import Product
from tools.demo.gathers.calls import Behaviour

TIMEOUT = 25_000
SHARDS = ("shard-0", "shard-1")
POOL = "pool-calls-0"


@pytest.fixture(scope="module")
async def wards(mortal: Product) -> AsyncIterator[GatherClient]:
    async with gather_client_of(mortal) as made:
        yield made


async def pid_of(gatherings: GatherClient, name: str) -> int | None:
    """The process of an actor that lives."""
    reply = await gatherings.http.get("/api/status")
    if reply.status_code != 200:
        return None
    actors = {actor["name"]: actor for actor in reply.json()["actors"]}
    return actors[name]["pid"] if actors[name]["alive"] else None


async def kill(gatherings: GatherClient, *names: str) -> dict[str, int]:
    """kill -9 the processes of actors; their pids."""
    killed: dict[str, int] = {}
    for name in names:
        pid = await pid_of(gatherings, name)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        killed[name] = pid
    return killed


async def back(gatherings: GatherClient, killed: dict[str, int]) -> None:
    """Wait until all of them live again."""
    for name, old in killed.items():

        async def lives() -> bool:
            return await pid_of(gatherings, name) not in {None, old}  # noqa: B023

        await until(f"{name} is back", lives)


async def follow(gatherings: GatherClient, begun: dict[str, Any]) -> tuple[list[StreamEvent], int]:
    """Read to the end as a browser does: come back after a break; and how often it broke."""
    told: list[StreamEvent] = []
    for breaks in itertools.count():
        try:
            async with gatherings.stream(begun, told[-1].id if told else None) as events:
                async for event in events:
                    told.append(event)  # noqa: PERF401  what came before a break has come
        except httpx.TransportError:
            await asyncio.sleep(0.05)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != 503:
                raise
            await asyncio.sleep(0.05)
        else:
            return told, breaks
    raise AssertionError


async def patient(gatherings: GatherClient, url: str, body: Any) -> dict[str, Any]:
    """Call back as services do that try again; the verdict."""

    async def attempt() -> dict[str, Any] | None:
        try:
            reply = await gatherings.browser.post(url, json=body)
        except httpx.TransportError:
            return None
        assert reply.status_code in {200, 429, 503}, reply.text
        document: dict[str, Any] = reply.json()
        return document if reply.status_code == 200 else None

    answered: dict[str, Any] = await until("an answer", attempt)
    return answered


# Readers, with two replicas


async def readers(gatherings: GatherClient) -> list[float]:
    """How many streams each replica holds open; each tells of its own when it is asked."""
    counts: dict[str, float] = {}
    for _ in range(8):
        for line in (await gatherings.http.get("/metrics")).text.splitlines():
            if line.startswith("muster_sse_active_connections{"):
                name, value = line.rsplit(" ", 1)
                counts[name] = float(value)
    return sorted(counts.values())


async def test_readers_on_several_replicas_leave_and_it_is_cancelled(wards: GatherClient) -> None:
    begun = await wards.journals("-12,-12,-12", timeoutMs=TIMEOUT, graceMs=500)
    async with AsyncExitStack() as reading:

        async def spread() -> bool:
            # One more each time: on a busy machine the second replica may take requests later.
            await reading.enter_async_context(wards.stream(begun))
            counts = await readers(wards)
            return len(counts) == 2 and min(counts) > 0 and sum(counts) >= 8

        await until("both replicas have readers", spread)
    shown = await wards.ended(begun["correlationId"])
    assert (shown["status"], shown["reason"]) == ("cancelled", "its last reader disconnected")


async def test_a_quiet_stream_beats(wards: GatherClient) -> None:
    begun = await wards.journals("-12,-12,-12", timeoutMs=TIMEOUT, graceMs=0)
    async with (
        asyncio.timeout(HEARTBEAT * 5),
        wards.browser.stream("GET", begun["streamUrl"]) as reply,
    ):
        async for line in reply.aiter_lines():
            if line == ": beat":
                break


async def test_a_replica_killed_mid_stream_leaves_no_gap_and_no_repeat(wards: GatherClient) -> None:
    """Readers of both replicas: some are cut off and come back, by whichever replica is there."""
    begun = await wards.journals("-12,-12,-12", timeoutMs=TIMEOUT)
    calls = await wards.called(begun["correlationId"], 3)
    urls = {call.resource: call.body["callbackUrl"] for call in calls}
    reading = [asyncio.create_task(follow(wards, begun)) for _ in range(8)]

    async def answer(name: str) -> str:
        body = {"source": name, "correlationId": begun["correlationId"], "status": "ok"}
        verdict: str = (await patient(wards, urls[name], body))["verdict"]
        return verdict

    assert await answer("resource-1") == "matched"

    async def all_read() -> bool:
        return sum(await readers(wards)) == len(reading)

    await until("all read", all_read)
    processes = find_processes_in(instance_paths(Path(wards.product.data_dir)).run_dir)
    replica = next(one for one in processes if one.name().startswith("ray::ServeReplica"))
    os.kill(replica.pid, signal.SIGKILL)
    assert await answer("resource-2") in {"matched", "duplicate"}
    assert await answer("resource-3") in {"matched", "late"}
    read = await asyncio.gather(*reading)
    assert sum(breaks for _, breaks in read) > 0, "nobody was cut off"
    whole = await wards.read(begun)
    assert [event.outcome for event in whole] == [
        *(("callback", name, "ok") for name in JOURNALS),
        ("summary", "AGGREGATOR", "COMPLETE"),
    ]
    assert all(told == whole for told, _ in read)


# Actors


async def test_shards_killed_mid_gather_lose_nothing(wards: GatherClient) -> None:
    """Half of each gather before and half after; some run out of time meanwhile."""
    begun = [await wards.journals("-12,-12,-12", timeoutMs=TIMEOUT) for _ in range(10)]
    short = [await wards.journals("-12,-1,-12", timeoutMs=1_500) for _ in range(5)]
    reading = [asyncio.create_task(follow(wards, one)) for one in begun + short]

    async def answer(one: dict[str, Any], name: str) -> str:
        gather_id = one["correlationId"]
        calls = {call.resource: call for call in await wards.called(gather_id, 3)}
        body = {"source": name, "correlationId": gather_id, "status": "ok", "notes": []}
        verdict: str = (await patient(wards, calls[name].body["callbackUrl"], body))["verdict"]
        return verdict

    before = await asyncio.gather(*(answer(one, "resource-2") for one in begun))
    assert set(before) == {"matched"}
    killed = await kill(wards, *SHARDS)
    after = await asyncio.gather(
        *(answer(one, name) for one in begun for name in ("resource-1", "resource-3"))
    )
    # One that was told of no answer tries again, and may then be told that it had counted.
    assert set(after) <= {"matched", "duplicate", "late"}
    read = [told for told, _ in await asyncio.gather(*reading)]
    for one, told in zip(begun + short, read, strict=True):
        ids = [event.id for event in told]
        assert ids == sorted(set(ids))
        sources = [event.data["source"] for event in told]
        assert sorted(sources[:-1]) == list(JOURNALS)
        summary, shown = told[-1].data, await wards.show(one["correlationId"])
        expected = (3, 0) if one in begun else (0, 2)
        assert (summary["respondents"], summary["errors"]) == expected
        assert (shown["respondents"], shown["errors"]) == expected
        assert len(wards.calls(one["correlationId"])) == 3, "nobody is asked again"
    await back(wards, killed)


async def test_a_pool_killed_at_work_still_asks_everybody(wards: GatherClient) -> None:
    """Calls under way, calls that wait for their turn, and gathers begun while it is away."""
    accepting = await wards.register()
    narrow = await wards.register(Behaviour.ANSWER, reply="direct", concurrency=1)
    context = {"delay": 1_500}
    begun = [
        await wards.gather(accepting, narrow, wards.inline(), timeoutMs=TIMEOUT, context=context)
        for _ in range(4)
    ]

    async def accepted(one: dict[str, Any]) -> bool:
        states = (await wards.show(one["id"]))["resources"]
        return bool(states[accepting]["state"] != "calling")

    for one in begun:
        await until("it has accepted", lambda: accepted(one))  # noqa: B023
    killed = await kill(wards, POOL)
    asked = {one["id"]: len(wards.calls(one["id"])) for one in begun}
    assert set(asked.values()) == {2, 3}, "one has had its turn at the narrow one, at most"
    begun.append(await wards.gather(wards.inline(), timeoutMs=TIMEOUT, context=context))
    for one in begun:
        shown = await wards.ended(one["id"])
        assert (shown["status"], shown["completeness"]) == ("completed", "full"), shown
        calls = wards.calls(one["id"])
        times = Counter(call.source for call in calls)
        assert set(times) == set(one["resources"])
        assert times.get(accepting, 1) == 1, "who has accepted is not asked again"
        assert max(times.values()) <= 2
        assert {call.headers["Idempotency-Key"] for call in calls} == {
            f"{one['id']}/{name}" for name in one["resources"]
        }
    await back(wards, killed)
