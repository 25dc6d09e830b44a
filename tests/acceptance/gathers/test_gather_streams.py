"""Streams of gathers: opened at any time and again, by many; and what becomes of one left alone."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any

import pytest

from tests.support.gathering import (
    JOURNALS,
    GatherClient,
    StreamEvent,
    gather_client_of,
    last_event_id_header,
    until,
)
from tests.support.product import Product, new_id
from tools.demo.gathers.calls import Behaviour, ResourceCall

# Far beyond every test: a gather ends here because of what the test does.
TIMEOUT = 25_000
# The database tells the time to the microsecond, and is asked for it now and then only.
CLOCKS = 0.1


class Silent:
    """Journals whose resources accept and say nothing until the test does."""

    def __init__(
        self, gatherings: GatherClient, begun: dict[str, Any], calls: list[ResourceCall]
    ) -> None:
        self.begun = begun
        self.id: str = begun["correlationId"]
        self._gatherings = gatherings
        self._urls = {call.resource: call.body["callbackUrl"] for call in calls}

    @classmethod
    async def begin(cls, gatherings: GatherClient, **fields: Any) -> "Silent":
        begun = await gatherings.journals("-12,-12,-12", timeoutMs=TIMEOUT, **fields)
        return cls(gatherings, begun, await gatherings.called(begun["correlationId"], 3))

    async def answer(self, *numbers: int) -> list[str]:
        """Call back for these resources; the verdicts."""
        verdicts = []
        for number in numbers:
            source = f"resource-{number}"
            body = {"source": source, "correlationId": self.id, "status": "ok", "notes": []}
            reply = await self._gatherings.browser.post(self._urls[source], json=body)
            assert reply.status_code == 200, reply.text
            verdicts.append(reply.json()["verdict"])
        return verdicts

    def stream(
        self, after: int | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """Read it."""
        return self._gatherings.stream(self.begun, after)


async def disconnects(gatherings: GatherClient) -> float:
    """How many streams were left before their end, as the product counts them."""
    page = (await gatherings.http.get("/metrics")).text
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in page.splitlines()
        if line.startswith("muster_sse_disconnects_total{")
    )


@asynccontextmanager
async def noticed(gatherings: GatherClient) -> AsyncIterator[None]:
    """The stream that is left within this context is known to be left after it."""
    before = await disconnects(gatherings)
    yield

    async def more() -> bool:
        return await disconnects(gatherings) > before

    await until("the product notices", more)


def ended_after(document: dict[str, Any], left: float) -> float:
    return datetime.fromisoformat(document["endedAt"]).timestamp() - left


# Reading


async def test_opened_before_during_and_after_it_tells_the_same(gatherings: GatherClient) -> None:
    gather = await Silent.begin(gatherings)
    async with gather.stream() as before:
        await gather.answer(1)
        first = await anext(before)
        assert first.outcome == ("callback", "resource-1", "ok")
        async with gather.stream() as during, gather.stream() as beside:
            assert await anext(during) == first
            await gather.answer(2)
            await gather.answer(3)
            whole = [first, *[told async for told in before]]
            assert [first, *[told async for told in during]] == whole
            assert [told async for told in beside] == whole
    assert [told.event for told in whole] == ["callback"] * 3 + ["summary"]
    assert await gatherings.read(gather.begun) == whole
    viewers = await asyncio.gather(*(gatherings.read(gather.begun) for _ in range(20)))
    assert all(told == whole for told in viewers)


async def test_reopened_after_any_id_it_goes_on_from_there(gatherings: GatherClient) -> None:
    begun = await gatherings.journals("1,-1,20")
    whole = await gatherings.read(begun)
    for place, told in enumerate(whole[:-1]):
        assert await gatherings.read(begun, after=told.id) == whole[place + 1 :]
        url = f"{begun['streamUrl']}&lastEventId={told.id}"
        assert await gatherings.read({"streamUrl": url}) == whole[place + 1 :]
    assert await gatherings.read(begun, after=0) == whole
    last = whole[-1].id
    for headers, url in (
        (last_event_id_header(last), begun["streamUrl"]),
        ({}, f"{begun['streamUrl']}&lastEventId={last}"),
        (last_event_id_header(last + 100), begun["streamUrl"]),
        # The header is what a browser adds by itself when it comes back.
        (last_event_id_header(last), f"{begun['streamUrl']}&lastEventId=0"),
    ):
        reply = await gatherings.browser.get(url, headers=headers)
        assert (reply.status_code, reply.content) == (204, b""), "what makes a browser stay away"


async def test_a_reader_that_hangs_up_after_each_event_sees_each_once(
    gatherings: GatherClient,
) -> None:
    gather = await Silent.begin(gatherings)
    told: list[StreamEvent] = []
    for number in (1, 2, 3):
        async with gather.stream(told[-1].id if told else None) as events:
            await gather.answer(number)
            told.append(await anext(events))
    told += await gatherings.read(gather.begun, after=told[-1].id)
    assert [event.data["source"] for event in told] == [*JOURNALS, "AGGREGATOR"]
    assert [event.id for event in told] == sorted({event.id for event in told})
    assert told == await gatherings.read(gather.begun)


async def test_how_a_stream_looks_on_the_wire(gatherings: GatherClient) -> None:
    begun = await gatherings.journals("1,1,1", patientId="ä\u2028\n")
    async with gatherings.browser.stream("GET", begun["streamUrl"]) as reply:
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        assert reply.headers["Cache-Control"] == "no-store"
        opening, *frames = (await reply.aread()).decode().removesuffix("\n\n").split("\n\n")
    assert opening == "retry: 1000"
    for frame in frames:
        number, kind, data = frame.split("\n")
        assert number.startswith("id: ")
        assert kind.startswith("event: ")
        assert data.startswith('data: {"')


async def test_a_stream_is_told_in_the_words_it_was_asked_in(gatherings: GatherClient) -> None:
    """By either path, and by a key as well as by the token."""
    journals = await gatherings.journals("1,2,3")
    general = await gatherings.gather(gatherings.inline())
    for gather_id, begun, source in (
        (journals["correlationId"], journals, "AGGREGATOR"),
        (general["id"], general, "MUSTER"),
    ):
        whole = await gatherings.read(begun)
        assert whole[-1].data["source"] == source
        for path in (
            f"/aggregate/stream?correlationId={gather_id}",
            f"/api/gathers/{gather_id}/stream",
        ):
            reply = await gatherings.http.get(path)
            assert reply.text.count("\nevent: ") == len(whole)
            assert f'"source":"{source}"' in reply.text


async def test_with_an_actor_for_each_correlation_it_is_the_same(dedicated: Product) -> None:
    async with gather_client_of(dedicated) as gatherings:
        begun = await gatherings.journals("10,-1,-12", timeoutMs=4_000)
        left = await Silent.begin(gatherings, graceMs=0)
        async with left.stream() as events:
            await left.answer(1)
            await anext(events)
        told = await gatherings.read(begun)
        assert {event.outcome for event in told} == {
            ("callback", "resource-1", "ok"),
            ("rejected", "resource-2", "REJECTED"),
            ("timeout", "resource-3", "TIMEOUT"),
            ("summary", "AGGREGATOR", "COMPLETE"),
        }
        assert (await gatherings.ended(left.id))["status"] == "cancelled"


# Leaving


async def test_nobody_came_so_nobody_left(gatherings: GatherClient) -> None:
    """Before the stream was opened there is nobody to lose: the resources go on."""
    begun = await gatherings.journals("50,-12,-12", timeoutMs=600, graceMs=0)
    shown = await gatherings.ended(begun["correlationId"])
    assert (shown["status"], shown["respondents"], shown["errors"]) == ("completed", 1, 2)


@pytest.mark.parametrize("grace", [0, 400])
async def test_left_while_waiting_it_is_cancelled_after_the_grace(
    gatherings: GatherClient, grace: int
) -> None:
    hanging, silent = gatherings.inline(Behaviour.HANG), await gatherings.register(Behaviour.SILENT)
    begun = await gatherings.gather(hanging, silent, timeoutMs=TIMEOUT, graceMs=grace)
    calls = {call.source: call for call in await gatherings.called(begun["id"], 2)}
    async with gatherings.stream(begun):
        pass
    left = time.time()
    shown = await gatherings.ended(begun["id"])
    assert (shown["status"], shown["reason"]) == ("cancelled", "its last reader disconnected")
    assert ended_after(shown, left) > grace / 1000 - CLOCKS
    assert (shown["respondents"], shown["errors"], shown["received"]) == (0, 0, 0)
    await until("the call is broken off", lambda: calls[hanging["name"]].abandoned)
    late = await gatherings.browser.post(calls[silent].body["callbackUrl"], json={})
    assert (late.status_code, late.json()["verdict"]) == (200, "late")


async def test_left_after_some_callbacks_what_came_can_still_be_read(
    gatherings: GatherClient,
) -> None:
    gather = await Silent.begin(gatherings, graceMs=0)
    async with gather.stream() as events:
        await gather.answer(2)
        first = await anext(events)
    shown = await gatherings.ended(gather.id)
    assert (shown["status"], shown["completeness"]) == ("cancelled", "partial")
    assert await gather.answer(1, 2) == ["late", "late"]
    told = await gatherings.read(gather.begun)
    assert told[0] == first
    assert [event.outcome for event in told] == [
        ("callback", "resource-2", "ok"),
        ("summary", "AGGREGATOR", "CANCELLED"),
    ]
    assert (told[-1].data["respondents"], told[-1].data["received"]) == (1, 1)
    assert (await gatherings.show(gather.id))["respondents"] == 1


async def test_who_comes_back_within_the_grace_finds_it_as_it_was(gatherings: GatherClient) -> None:
    gather = await Silent.begin(gatherings, graceMs=3_000)
    async with noticed(gatherings), gather.stream():
        pass
    left = time.monotonic()
    async with gather.stream() as events:
        await gather.answer(1)
        assert (await anext(events)).event == "callback"
        await asyncio.sleep(left + 3.3 - time.monotonic())
        assert await gather.answer(2, 3) == ["matched", "matched"]
        assert [told.event async for told in events] == ["callback", "callback", "summary"]
    assert (await gatherings.show(gather.id))["status"] == "completed"


async def test_who_leaves_again_has_the_whole_grace_again(gatherings: GatherClient) -> None:
    gather = await Silent.begin(gatherings, graceMs=3_000)
    async with noticed(gatherings), gather.stream():
        pass
    async with gather.stream() as events:
        await gather.answer(1)
        await anext(events)
        await asyncio.sleep(0.5)
    left = time.time()
    shown = await gatherings.ended(gather.id)
    assert shown["status"] == "cancelled"
    assert ended_after(shown, left) > 3.0 - CLOCKS


async def test_while_another_reads_it_goes_on(gatherings: GatherClient) -> None:
    gather = await Silent.begin(gatherings, graceMs=0)
    async with gather.stream() as staying:
        async with noticed(gatherings), gather.stream() as leaving:
            await gather.answer(1)
            assert await anext(leaving) == await anext(staying)
        assert await gather.answer(2, 3) == ["matched", "matched"]
        assert [told.event async for told in staying] == ["callback", "callback", "summary"]


async def test_detached_it_goes_on_without_readers(gatherings: GatherClient) -> None:
    gather = await Silent.begin(gatherings, onDisconnect="detach", graceMs=0)
    async with noticed(gatherings), gather.stream():
        pass
    assert await gather.answer(1, 2, 3) == ["matched"] * 3
    assert (await gatherings.show(gather.id))["completeness"] == "full"


async def test_after_the_end_nobody_is_missed(gatherings: GatherClient) -> None:
    gather = await Silent.begin(gatherings, graceMs=0)
    async with gather.stream() as events:
        await gather.answer(1, 2, 3)
        await anext(events)
    async with gather.stream():
        pass
    shown = await gatherings.ended(gather.id)
    assert (shown["status"], shown["respondents"]) == ("completed", 3)


@pytest.mark.parametrize("path", ["/aggregate/journals", "/api/gathers"])
async def test_a_caller_that_waits_and_hangs_up_is_a_reader_that_left(
    gatherings: GatherClient, path: str
) -> None:
    patient = f"patient-{new_id()}"
    common = {"timeoutMs": TIMEOUT, "graceMs": 0}
    journals = {"patientId": patient, "delays": "0,-10,-10", "strategy": "WAIT_FOR_EVERYONE"}
    general = {
        "resources": [gatherings.inline(Behaviour.HANG)],
        "mode": "wait",
        "context": {"patientId": patient},
    }
    body = common | (journals if path == "/aggregate/journals" else general)
    asking = asyncio.create_task(gatherings.http.post(path, json=body))

    def hanging() -> list[ResourceCall]:
        calls = [call for call in gatherings.resources.calls if call.patient_id == patient]
        return calls if len(calls) == (3 if body.get("delays") else 1) else []

    calls = await until("all are called", hanging)
    asking.cancel()
    shown = await gatherings.ended(calls[0].headers["X-Correlation-Id"])
    assert shown["status"] == "cancelled"
    await until(
        "the calls are broken off",
        lambda: all(call.abandoned for call in calls if call.delay != 0),
    )
