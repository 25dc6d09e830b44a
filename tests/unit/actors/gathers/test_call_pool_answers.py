"""What is sent to a resource, and what its answer means."""

import asyncio
import json

import pytest
from msgspec.structs import replace

from actors.gathers.call_pool import request_of
from core.gathers.gather import state_of
from core.shared.call_outcome import CallState
from core.waits.strategy import Outcome
from handlers.http.client import HttpFailure, HttpRequest, HttpResponse
from tests.unit.actors.gathers.call_pool_fixtures import (
    DIRECT,
    JSON,
    OK,
    ONE,
    CallPoolScenario,
    call,
    callback,
    limiter_snapshots,
    run_scenario,
)

# What is sent.


def test_a_call_carries_what_its_receiver_needs() -> None:
    async def story(_: CallPoolScenario) -> None:
        resource = replace(
            ONE,
            headers={"X-Key": "k", "Content-Type": "application/vnd.x+json"},
            authorization="Bearer t",
            connect_timeout=1.0,
            read_timeout=2.0,
        )
        request = request_of(call(resource=resource, body=b'{"a":1}', trace="00-a-b-01"), b"7")
        assert request == HttpRequest(
            url="http://one.example/ask",
            method="POST",
            headers={
                "Content-Type": "application/vnd.x+json",
                "X-Key": "k",
                "Authorization": "Bearer t",
                "X-Correlation-Id": "g-1",
                "Idempotency-Key": "g-1/one",
                "X-Callback-Url": "http://m/cb",
                "traceparent": "00-a-b-01",
            },
            body=b'{"a":1}',
            connect_timeout=1.0,
            read_timeout=2.0,
            tenant=1,
        )

    run_scenario(story)


def test_a_header_is_sent_once_however_it_is_spelled() -> None:
    async def story(_: CallPoolScenario) -> None:
        resource = replace(
            ONE,
            headers={"content-type": "text/plain", "authorization": "Basic x", "x-key": "k"},
            authorization="Bearer t",
        )
        headers = request_of(call(resource=resource), b"7").headers
        assert len({name.lower() for name in headers}) == len(headers)
        assert headers["content-type"] == "text/plain"
        assert headers["Authorization"] == "Bearer t"

    run_scenario(story)


def test_one_that_answers_directly_gets_no_address_to_call_back() -> None:
    async def story(_: CallPoolScenario) -> None:
        request = request_of(call(resource=replace(DIRECT, method="GET"), body=b"{}"), b"7")
        assert not {"X-Callback-Url", "traceparent", "Authorization"} & set(request.headers)
        assert (request.method, request.body) == ("GET", b"")

    run_scenario(story)


# What an answer means.


@pytest.mark.parametrize(
    ("answer", "state", "detail"),
    [
        (HttpResponse(200, b"", "", 0.1), CallState.ACCEPTED, None),
        (HttpResponse(202, b'{"status":"ERROR"}', JSON, 0.1), CallState.ACCEPTED, None),
        (HttpResponse(204, b"", "", 0.1), CallState.ACCEPTED, None),
        (HttpResponse(401, b"", "", 0.1), CallState.REJECTED, "HTTP 401"),
        (HttpResponse(302, b"", "", 0.1), CallState.ERROR, "HTTP 302"),
        (HttpResponse(304, b"", "", 0.1), CallState.ERROR, "HTTP 304"),
        (HttpResponse(403, b"", "", 0.1), CallState.ERROR, "HTTP 403"),
        (HttpResponse(404, b"", "", 0.1), CallState.ERROR, "HTTP 404"),
        (HttpResponse(500, b"{}", JSON, 0.1), CallState.ERROR, "HTTP 500"),
        (HttpFailure(CallState.TIMEOUT, "no answer", 0.1), CallState.TIMEOUT, "no answer"),
        (
            HttpFailure(CallState.CONNECTION_CLOSED, "closed", 0.1),
            CallState.CONNECTION_CLOSED,
            "closed",
        ),
        (HttpFailure(CallState.ERROR, "too large", 0.1), CallState.ERROR, "too large"),
    ],
    ids=lambda value: getattr(value, "status", None) and str(value.status),
)
def test_the_first_answer_of_one_that_calls_back(
    answer: HttpResponse | HttpFailure, state: CallState, detail: str | None
) -> None:
    async def story(scene: CallPoolScenario) -> None:
        world = scene.gather("one", "two")
        scene.script[ONE.url] = (0.5, answer)
        assert await scene.ask(call()) == [state]
        assert limiter_snapshots(scene.pool)["one"]["calls"] == {state: 1}
        mark = world.waiting_or_ended.marks[0]
        if detail is None:
            assert (mark.outcome, mark.at > 0, world.log) == (Outcome.PENDING, True, {})
            return
        document = json.loads(world.log["call/one"].payload)
        assert document == {"status": state, "detail": detail}
        assert state_of(mark, document) is state

    run_scenario(story)


@pytest.mark.parametrize(
    ("answer", "reads_status", "state", "stored"),
    [
        (HttpResponse(200, b'{"n":  1}', JSON, 0.1), False, CallState.OK, b'{"n":  1}'),
        (HttpResponse(204, b"", "application/octet-stream", 0.1), False, CallState.OK, b"null"),
        (HttpResponse(200, b"plain \xff", "text/plain", 0.1), False, CallState.OK, b"plain \xff"),
        (HttpResponse(200, b'{"status":"REJECTED"}', JSON, 0.1), False, CallState.OK, None),
        (HttpResponse(200, b'{"status":"ok"}', JSON, 0.1), True, CallState.OK, None),
        (HttpResponse(200, b"<html>", "text/html", 0.1), True, CallState.OK, b"<html>"),
        (HttpResponse(200, b"", "text/html", 0.1), True, CallState.OK, b"null"),
        (HttpResponse(200, b'{"status":"rejected"}', JSON, 0.1), True, CallState.REJECTED, None),
        (HttpResponse(200, b'{"status":"TIMEOUT"}', JSON, 0.1), True, CallState.TIMEOUT, None),
        (HttpResponse(200, b'{"status":"ERROR"}', JSON, 0.1), True, CallState.ERROR, None),
        (
            HttpResponse(200, b'{"status":"CONNECTION_CLOSED"}', JSON, 0.1),
            True,
            CallState.CONNECTION_CLOSED,
            None,
        ),
        (HttpResponse(401, b'{"status":"ok"}', JSON, 0.1), True, CallState.REJECTED, b""),
        (HttpResponse(500, b'{"status":"ok"}', JSON, 0.1), True, CallState.ERROR, b""),
        (
            HttpFailure(CallState.ERROR, "the answer is larger than 9 bytes", 0.1),
            True,
            CallState.ERROR,
            b"",
        ),
    ],
)
def test_the_answer_of_one_that_answers_directly(
    answer: HttpResponse | HttpFailure, reads_status: bool, state: CallState, stored: bytes | None
) -> None:
    """A body tells its outcome only where that is asked for; elsewhere it is data."""

    async def story(scene: CallPoolScenario) -> None:
        world = scene.gather("one", "two")
        scene.script[ONE.url] = (0.5, answer)
        assert await scene.ask(call(resource=DIRECT, reads_status=reads_status)) == [state]
        line = world.log["call/one"]
        document = json.loads(line.payload) if line.payload.startswith(b"{") else None
        assert state_of(world.waiting_or_ended.marks[0], document) is state
        if stored != b"":
            assert isinstance(answer, HttpResponse)
            assert line.payload == (answer.body if stored is None else stored)
            assert line.content_type == answer.content_type

    run_scenario(story)


def test_an_answer_that_overtook_the_agreement_stays() -> None:
    async def story(scene: CallPoolScenario) -> None:
        world = scene.gather("one", "two")
        scene.script[ONE.url] = (1.0, OK)
        asking = asyncio.create_task(scene.ask(call()))
        await asyncio.sleep(0.5)
        await scene.send(callback("one"))
        await asking
        assert world.waiting_or_ended.marks[0].outcome is Outcome.RECEIVED

    run_scenario(story)
