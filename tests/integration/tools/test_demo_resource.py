"""The demo's resources, over real sockets of this machine."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tools.demo.gathers.calls import Behaviour
from tools.demo.gathers.resource import DemoResources

MANY = 1500


class Receiver:
    """Stands where Muster would: keeps the callbacks that came, and answers them."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.reply: web.Response | None = None
        self.busy = 0
        self.url = ""

    async def take(self, request: web.BaseRequest) -> web.StreamResponse:
        self.bodies.append(await request.json())
        if self.busy:
            self.busy -= 1
            return web.Response(status=503)
        answer = {"verdict": "matched" if len(self.bodies) == 1 else "duplicate"}
        return self.reply or web.json_response(answer)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    runner = web.ServerRunner(web.Server(made.take, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/aggregate/callback?token=t"
    yield made
    await runner.cleanup()


@pytest.fixture
async def resources() -> AsyncIterator[DemoResources]:
    async with DemoResources(seed=1) as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    pool = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=pool) as session:
        yield session


def asking(receiver: Receiver, delay: int, **more: Any) -> dict[str, Any]:
    return {
        "patientId": "19121212-1212",
        "delay": delay,
        "callbackUrl": receiver.url,
        "correlationId": "abc",
        **more,
    }


async def test_it_accepts_at_once_and_calls_back_after_the_delay(
    resources: DemoResources, receiver: Receiver, http: aiohttp.ClientSession
) -> None:
    headers = {"X-Correlation-Id": "abc"}
    began = time.monotonic()
    async with http.post(
        resources.url_of(2), json=asking(receiver, 150), headers=headers
    ) as accepted:
        assert (accepted.status, await accepted.read()) == (200, b"")
    assert not receiver.bodies
    callback = (await resources.until(lambda seen: seen.callbacks))[0]
    assert time.monotonic() - began >= 0.15
    assert (callback.resource, callback.correlation_id) == ("resource-2", "abc")
    assert (callback.status, callback.verdict) == (200, "matched")

    (call,) = resources.calls
    assert (call.resource, call.direct, call.headers["X-Correlation-Id"]) == (
        "resource-2",
        False,
        "abc",
    )
    (sent,) = receiver.bodies
    notes = sent.pop("notes")
    assert sent == {
        "source": "resource-2",
        "patientId": "19121212-1212",
        "correlationId": "abc",
        "delayMs": 150,
        "status": "ok",
    }
    assert len(notes) == len({note["id"] for note in notes}) == 3
    now = datetime.now()  # noqa: DTZ005 - the dates are local and have no zone
    for note in notes:
        assert (note["caregiverId"], note["patientId"]) == (
            "Caregiver-resource-2",
            "19121212-1212",
        )
        assert now - timedelta(days=366) < datetime.fromisoformat(note["date"]) <= now
        assert note["doctorId"].startswith("Doctor-")
        assert note["note"]


@pytest.mark.parametrize(("delay", "status"), [(-1, 401), (-2, 500), (-500, 500)])
async def test_a_negative_delay_is_refused_and_never_calls_back(
    delay: int,
    status: int,
    resources: DemoResources,
    receiver: Receiver,
    http: aiohttp.ClientSession,
) -> None:
    async with http.post(resources.url_of(1), json=asking(receiver, delay)) as refused:
        assert (refused.status, await refused.read()) == (status, b"")
    # One that does call back, sent after it, has come before.
    async with http.post(resources.url_of(2), json=asking(receiver, 50)):
        await resources.until(lambda seen: seen.callbacks)
    assert [body["source"] for body in receiver.bodies] == ["resource-2"]


async def test_a_direct_call_is_answered_after_the_delay(
    resources: DemoResources, http: aiohttp.ClientSession
) -> None:
    call = {"patientId": "p", "delay": 100, "correlationId": "abc"}
    began = time.monotonic()
    async with http.post(f"{resources.url_of(3)}/direct", json=call) as answered:
        answer = await answered.json()
    assert time.monotonic() - began >= 0.1
    assert (answered.status, len(answer.pop("notes"))) == (200, 3)
    assert answer == {
        "source": "resource-3",
        "patientId": "p",
        "correlationId": "abc",
        "delayMs": 100,
        "status": "ok",
    }
    for delay in (-1, -2):
        async with http.post(
            f"{resources.url_of(3)}/direct", json=call | {"delay": delay}
        ) as rejected:
            answer = await rejected.json()
        assert (rejected.status, answer["status"]) == (200, "REJECTED")
        assert (answer["notes"], answer["correlationId"]) == (None, None)
    assert [call.direct for call in resources.calls] == [True, True, True]
    assert not resources.callbacks


@pytest.mark.parametrize("chosen_by", ["delay", "behaviour"])
@pytest.mark.parametrize("path", ["", "/direct"])
async def test_it_can_hang_and_close(
    chosen_by: str,
    path: str,
    resources: DemoResources,
    receiver: Receiver,
    http: aiohttp.ClientSession,
) -> None:
    hang, close = (-10, -11) if chosen_by == "delay" else (0, 0)
    if chosen_by == "behaviour":
        resources.behave(1, Behaviour.HANG)
        resources.behave(2, Behaviour.CLOSE)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await http.post(resources.url_of(2) + path, json=asking(receiver, close))
    with pytest.raises(TimeoutError):
        await http.post(
            resources.url_of(1) + path,
            json=asking(receiver, hang),
            timeout=aiohttp.ClientTimeout(total=0.2),
        )
    # The resource notices that nobody waits any more.
    await resources.until(lambda seen: any(call.abandoned for call in seen.calls))
    assert not receiver.bodies


@pytest.mark.parametrize("chosen_by", ["delay", "behaviour"])
async def test_it_can_keep_silent_and_call_back_twice(
    chosen_by: str, resources: DemoResources, receiver: Receiver, http: aiohttp.ClientSession
) -> None:
    silent, twice = (-12, -13) if chosen_by == "delay" else (0, 20)
    if chosen_by == "behaviour":
        resources.behave(1, Behaviour.SILENT)
        resources.behave(2, Behaviour.TWICE)
    for number, delay in ((1, silent), (2, twice)):
        async with http.post(resources.url_of(number), json=asking(receiver, delay)) as accepted:
            assert accepted.status == 200
    await resources.until(lambda seen: len(seen.callbacks) == 2)
    assert [callback.verdict for callback in resources.callbacks] == ["matched", "duplicate"]
    first, second = receiver.bodies
    assert first == second
    assert first["source"] == "resource-2"


async def test_a_behaviour_stands_until_it_is_taken_back(
    resources: DemoResources, receiver: Receiver, http: aiohttp.ClientSession
) -> None:
    resources.behave(1, Behaviour.ERROR)
    for path in ("", "/direct"):
        async with http.post(resources.url_of(1) + path, json=asking(receiver, 0)) as failed:
            assert failed.status == 500
    resources.behave(1, Behaviour.REJECT)
    async with http.post(resources.url_of(1), json=asking(receiver, 0)) as rejected:
        assert rejected.status == 401
    resources.behave(1, None)
    async with http.post(resources.url_of(1), json=asking(receiver, 0)) as accepted:
        assert accepted.status == 200


async def test_a_general_call_has_its_delay_in_the_context_and_a_name(
    resources: DemoResources, receiver: Receiver, http: aiohttp.ClientSession
) -> None:
    call = {
        "correlationId": "abc",
        "resource": "laboratory",
        "callbackUrl": receiver.url,
        "context": {"delay": 10, "patientId": "p"},
    }
    async with http.post(resources.url_of(1), json=call) as accepted:
        assert accepted.status == 200
    await resources.until(lambda seen: seen.callbacks)
    (sent,) = receiver.bodies
    assert (sent["source"], sent["delayMs"], sent["patientId"]) == ("laboratory", 10, "p")


async def test_what_became_of_a_callback_is_remembered(
    resources: DemoResources, receiver: Receiver, http: aiohttp.ClientSession
) -> None:
    receiver.reply = web.Response(status=500, text="x" * 200_000)
    nowhere = "http://127.0.0.1:1/nobody"
    for number, url in enumerate((receiver.url, nowhere, "no address"), 1):
        async with http.post(
            resources.url_of(number), json=asking(receiver, 0, callbackUrl=url)
        ) as accepted:
            assert accepted.status == 200
    await resources.until(lambda seen: len(seen.callbacks) == 3)
    statuses = {callback.resource: callback.status for callback in resources.callbacks}
    assert statuses == {"resource-1": 500, "resource-2": None, "resource-3": None}
    assert all(callback.verdict == "error" for callback in resources.callbacks)


async def test_a_receiver_that_is_busy_is_asked_again(
    resources: DemoResources, receiver: Receiver, http: aiohttp.ClientSession
) -> None:
    receiver.busy = 2
    async with http.post(resources.url_of(1), json=asking(receiver, 0)) as accepted:
        assert accepted.status == 200
    await resources.until(lambda seen: seen.callbacks)
    assert [callback.status for callback in resources.callbacks] == [200]
    assert len(receiver.bodies) == 3


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/", b"{}", 404),
        ("/resource-x/journals", b"{}", 404),
        ("/resource-1/journals/more", b"{}", 404),
        ("/resource-1/journals", b"", 400),
        ("/resource-1/journals", b"[]", 400),
        ("/resource-1/journals", b'{"delay": "soon"}', 400),
        ("/resource-1/journals", b'{"delay": true}', 400),
    ],
)
async def test_anything_else_is_refused(
    path: str, body: bytes, status: int, resources: DemoResources, http: aiohttp.ClientSession
) -> None:
    async with http.post(resources.url + path, data=body) as refused:
        assert refused.status == status
    assert not resources.calls


async def test_what_is_too_large_is_refused(
    resources: DemoResources, http: aiohttp.ClientSession
) -> None:
    async with http.post(resources.url_of(1), data=BytesIO(b" " * 2_000_000)) as refused:
        assert refused.status == 413
    assert not resources.calls


async def test_only_post_is_taken(resources: DemoResources, http: aiohttp.ClientSession) -> None:
    async with http.get(resources.url_of(1)) as refused:
        assert refused.status == 405


async def test_it_holds_many_calls_at_once(
    resources: DemoResources, receiver: Receiver, http: aiohttp.ClientSession
) -> None:
    body = asking(receiver, -10)
    holding = [
        asyncio.create_task(http.post(resources.url_of(number), json=body))
        for number in range(MANY)
    ]
    await resources.until(lambda seen: len(seen.calls) == MANY)
    async with http.post(resources.url_of(1), json=asking(receiver, 0)) as accepted:
        assert accepted.status == 200
    assert (await resources.until(lambda seen: seen.callbacks))[0].status == 200
    for task in holding:
        task.cancel()
    await resources.until(lambda seen: sum(call.abandoned for call in seen.calls) == MANY)


async def test_it_ends_with_calls_and_callbacks_under_way(
    receiver: Receiver, http: aiohttp.ClientSession
) -> None:
    async with DemoResources() as resources:
        port = resources.url.rpartition(":")[2]
        hanging = asyncio.create_task(http.post(resources.url_of(1), json=asking(receiver, -10)))
        async with http.post(resources.url_of(2), json=asking(receiver, 60_000)) as accepted:
            assert accepted.status == 200
        await resources.until(lambda seen: len(seen.calls) == 2)
        began = time.monotonic()
    assert time.monotonic() - began < 1
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await hanging
    # The port is free for the next one.
    async with DemoResources(port=int(port)) as again:
        assert again.url_of(7) == f"http://127.0.0.1:{port}/resource-7/journals"


async def test_whoever_listens_hears_of_everything(
    receiver: Receiver, http: aiohttp.ClientSession
) -> None:
    told: list[str] = []
    async with DemoResources(
        listener=lambda record: told.append(type(record).__name__)
    ) as resources:
        accepted = await http.post(resources.url_of(1), json=asking(receiver, 0))
        accepted.release()
        await resources.until(lambda seen: seen.callbacks)
    assert told == ["ResourceCall", "Callback"]
