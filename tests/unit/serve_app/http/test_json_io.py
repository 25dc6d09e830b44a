import asyncio
from collections.abc import Iterable

import msgspec
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from core.shared.json_limits import MAX_DEPTH
from serve_app.http.json_io import (
    check_content_type,
    json_response,
    parse,
    parse_as,
    parse_items,
    read_body,
    split_body,
)
from serve_app.http.problems import Problem, ProblemError
from serve_app.limits.large_bodies import LARGE_BODY_BYTES
from serve_app.limits.load_limiter import REQUEST_SLOT
from serve_app.waits.request_models import EventItem, WaitRequest


def refused(error: pytest.ExceptionInfo[ProblemError]) -> Problem:
    return error.value.problem


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def request_of(messages: Iterable[Message], content_type: str | None = None) -> Request:
    waiting = list(messages)

    async def receive() -> Message:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    headers = [] if content_type is None else [(b"content-type", content_type.encode())]
    return Request({"type": "http", "headers": headers}, receive)


async def test_a_body_in_several_pieces_is_put_together() -> None:
    pieces: list[Message] = [
        {"type": "http.request", "body": b"[1,", "more_body": True},
        {"type": "http.request", "body": b"2]"},
    ]
    assert await read_body(request_of(pieces), timeout_seconds=1) == b"[1,2]"


class Counting:
    """Stands for a request's share of the gate."""

    def __init__(self) -> None:
        self.large = 0

    async def begin_large_body(self, _: float) -> None:
        self.large += 1


@pytest.mark.parametrize(("size", "turns"), [(LARGE_BODY_BYTES, 0), (LARGE_BODY_BYTES + 1, 1)])
async def test_a_large_body_waits_for_its_turn_once_it_is_there(size: int, turns: int) -> None:
    passage = Counting()
    half = b"1" * (size // 2)
    pieces: list[Message] = [
        {"type": "http.request", "body": half, "more_body": True},
        {"type": "http.request", "body": b"1" * (size - len(half))},
    ]
    for waiting in (pieces[:1], pieces):
        request = request_of(waiting)
        request.scope[REQUEST_SLOT] = passage
        if waiting is pieces:
            assert len(await read_body(request, timeout_seconds=1)) == size
        else:
            with pytest.raises(ProblemError):
                await read_body(request, timeout_seconds=0.01)
            assert passage.large == 0
    assert passage.large == turns


async def test_a_body_that_never_comes_is_given_up() -> None:
    with pytest.raises(ProblemError) as error:
        await read_body(request_of([]), timeout_seconds=0.01)
    assert refused(error).status == 408


async def test_a_sender_that_leaves_is_noticed() -> None:
    with pytest.raises(ClientDisconnect):
        await read_body(request_of([{"type": "http.disconnect"}]), timeout_seconds=1)


@pytest.mark.parametrize(
    "declared",
    [None, "application/json", "application/JSON; charset=utf-8", "application/cloudevents+json"],
)
def test_json_is_accepted(declared: str | None) -> None:
    check_content_type(declared)


@pytest.mark.parametrize(
    "declared", ["text/plain", "application/x-www-form-urlencoded", "", "text/x+json", "json"]
)
def test_anything_else_is_refused(declared: str) -> None:
    with pytest.raises(ProblemError) as error:
        check_content_type(declared)
    assert refused(error).status == 415


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"{'a': 1}", b"NaN", b'"\xff"', b'"\\ud800"', b"[1,]", b"1e999", nested(100_000)],
)
def test_what_is_not_json_is_malformed(raw: bytes) -> None:
    with pytest.raises(ProblemError) as error:
        parse(raw)
    assert (refused(error).status, refused(error).code) == (400, "malformed_json")


@pytest.mark.parametrize(("depth", "fits"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_documents_may_be_so_deep_and_no_deeper(depth: int, fits: bool) -> None:
    if fits:
        parse(nested(depth))
    else:
        with pytest.raises(ProblemError, match="deeper"):
            parse(nested(depth))


def test_a_wide_document_is_not_a_deep_one() -> None:
    parse(b"[" + b",".join([b"[]"] * 1000) + b"]")


def test_long_numbers_keep_every_digit() -> None:
    number = b"123456789012345678901234567890"
    assert msgspec.json.encode(parse(number)) == number


@pytest.mark.parametrize(
    ("raw", "status", "field"),
    [
        (b"{", 400, None),
        (b"[]", 422, "body"),
        (b"{}", 422, "data"),
        (b'{"data": {}, "extra": 1}', 422, "extra"),
        (b'{"data": {"timeout": "300"}}', 422, "data.timeout"),
        (b'{"data": {"apiCall": {"url": "u", "enabled": "yes"}}}', 422, "data.apiCall.enabled"),
        (b'{"executionId": 5, "data": {}}', 422, "executionId"),
        (b'{"executionId": " x", "data": {}}', 422, "executionId"),
        (b'{"executionId": "a\\u0000", "data": {}}', 422, "executionId"),
    ],
)
def test_a_request_is_read_strictly(raw: bytes, status: int, field: str | None) -> None:
    with pytest.raises(ProblemError) as error:
        parse_as(WaitRequest, raw)
    problem = refused(error)
    assert problem.status == status
    assert [fault.field for fault in problem.field_errors] == ([field] if field else [])


def test_items_of_a_batch_are_not_read_until_their_turn() -> None:
    items = parse_items(b'{"items": [{"bad": 1}, 5]}', max_items=2)
    assert [bytes(item) for item in items] == [b'{"bad": 1}', b"5"]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b'{"items": []}', 422),
        (b'{"items": [1, 2, 3]}', 422),
        (b'{"items": 1}', 422),
        (b'{"things": []}', 422),
        (b"[]", 422),
        (b"{", 400),
        (b"", 400),
    ],
)
def test_a_batch_has_a_form_and_a_size(raw: bytes, status: int) -> None:
    with pytest.raises(ProblemError) as error:
        parse_items(raw, max_items=2)
    assert refused(error).status == status


def test_the_body_of_an_item_stays_as_it_came() -> None:
    body, rest = split_body(msgspec.Raw(b'{"eventId": "e", "body": {"a":  1.10}}'))
    assert body == b'{"a":  1.10}'
    assert parse_as(EventItem, rest).event_id == "e"


def test_an_item_without_a_body_has_null() -> None:
    assert split_body(msgspec.Raw(b"{}"))[0] == b"null"


def test_an_item_that_is_no_object_is_refused() -> None:
    with pytest.raises(ProblemError) as error:
        split_body(msgspec.Raw(b"7"))
    assert refused(error).status == 422


def test_stored_json_goes_out_byte_for_byte() -> None:
    response = json_response({"data": msgspec.Raw(b'{"a":  1.10}')}, 201)
    assert (response.status_code, response.body) == (201, b'{"data":{"a":  1.10}}')
