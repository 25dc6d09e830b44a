"""Answers read from bytes in any pieces, and ends that come too early. Nothing is sent anywhere."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.http.connection import ClosedEarlyError, StaleError
from tests.support.wire import CHUNKED, LENGTH, bytes_of, connected, reply_to_pieces

WHOLE = {
    "a length": LENGTH,
    "chunks": CHUNKED,
    "after a promise": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nX-C: d\r\n\r\n"
    + LENGTH,
    "lines without a return": LENGTH.replace(b"\r\n", b"\n"),
    "an offer to talk otherwise": LENGTH.replace(
        b"X-A", b"Connection: Upgrade\r\nUpgrade: h2c\r\nX-A"
    ),
}


@pytest.mark.parametrize("raw", WHOLE.values(), ids=WHOLE)
async def test_an_answer_is_the_same_in_one_piece_and_byte_by_byte(raw: bytes) -> None:
    connection, wire = connected()
    for pieces in ([raw], bytes_of(raw), [raw]):
        reply = await reply_to_pieces(connection, pieces)
        assert (reply.status, reply.body, reply.is_cut) == (200, b"hello", False)
        names = [name for name, _ in reply.headers]
        assert (b"X-A", b"b") in reply.headers
        assert not {b"X-Trailer", b"X-C"} & set(names)
        assert connection.is_open
    assert (wire.written, wire.is_aborted) == ([b"GET"] * 3, False)


@given(cuts=st.lists(st.integers(0, len(CHUNKED)), max_size=8))
def test_nor_does_it_matter_where_it_is_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(CHUNKED)]
    pieces = [CHUNKED[a:b] for a, b in itertools.pairwise(places) if a < b]

    async def check() -> None:
        connection, _ = connected()
        assert (await reply_to_pieces(connection, pieces)).body == b"hello"
        assert connection.is_open

    asyncio.run(check())


ENDING = {
    "closed": LENGTH.replace(b"X-A", b"Connection: close\r\nX-A"),
    "an old version": LENGTH.replace(b"1.1", b"1.0"),
    "something after it": LENGTH + b"HTTP",
    "rubbish after it": LENGTH + b"\0\0",
    "another answer after it": LENGTH + LENGTH,
}


@pytest.mark.parametrize("raw", ENDING.values(), ids=ENDING)
async def test_an_answer_that_the_connection_ends_with(raw: bytes) -> None:
    connection, wire = connected()
    reply = await reply_to_pieces(connection, [raw])
    assert (reply.status, reply.body) == (200, b"hello")
    assert (connection.is_open, wire.is_aborted) == (False, True)


async def test_an_old_version_may_keep_the_connection() -> None:
    connection, _ = connected()
    kept = LENGTH.replace(b"1.1", b"1.0").replace(b"X-A", b"Connection: keep-alive\r\nX-A")
    for _ in range(2):
        assert (await reply_to_pieces(connection, [kept])).body == b"hello"
    assert connection.is_open


async def test_an_answer_of_no_given_length_ends_with_the_connection() -> None:
    raw = b"HTTP/1.1 200 OK\r\n\r\nhello"
    connection, _ = connected()
    assert (await reply_to_pieces(connection, bytes_of(raw), ends=True)).body == b"hello"
    assert not connection.is_open


async def test_but_not_if_the_connection_broke() -> None:
    connection, _ = connected()
    asking = asyncio.ensure_future(connection.send_request(b"GET", 9, 5.0))
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 200 OK\r\n\r\nhel")
    connection.connection_lost(ConnectionResetError())
    with pytest.raises(ClosedEarlyError):
        await asking


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_body(status: int) -> None:
    connection, _ = connected()
    raw = f"HTTP/1.1 {status} Word\r\n\r\n".encode()
    for _ in range(2):
        assert (await reply_to_pieces(connection, [raw]))[::2] == (status, b"")
    assert connection.is_open


# Too early an end.


@pytest.mark.parametrize("part", [LENGTH[:1], LENGTH[:30], LENGTH[:-1], CHUNKED[:-1]])
async def test_an_answer_that_is_not_all_there(part: bytes) -> None:
    connection, _ = connected()
    await reply_to_pieces(connection, [LENGTH])
    with pytest.raises(ClosedEarlyError) as raised:
        await reply_to_pieces(connection, [part], ends=True)
    assert not isinstance(raised.value, StaleError)


async def test_only_a_connection_that_has_served_can_be_stale() -> None:
    connection, _ = connected()
    with pytest.raises(ClosedEarlyError) as raised:
        await reply_to_pieces(connection, [], ends=True)
    assert not isinstance(raised.value, StaleError)
    connection, _ = connected()
    await reply_to_pieces(connection, [LENGTH])
    with pytest.raises(StaleError):
        await reply_to_pieces(connection, [], ends=True)


async def test_what_comes_unasked_ends_the_connection() -> None:
    connection, wire = connected()
    await reply_to_pieces(connection, [LENGTH])
    connection.data_received(b"HTTP/1.1 408 Too late\r\n\r\n")
    assert (connection.is_open, wire.is_aborted) == (False, True)
    with pytest.raises(ClosedEarlyError):
        await connection.send_request(b"GET", 1, 1.0)


async def test_one_request_at_a_time() -> None:
    connection, wire = connected()
    asking = asyncio.ensure_future(connection.send_request(b"GET", 10, 5.0))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="a request is under way"):
        await connection.send_request(b"GET", 10, 5.0)
    connection.data_received(LENGTH)
    assert ((await asking).body, wire.written) == (b"hello", [b"GET"])


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\n\r\nhel"])
async def test_what_is_closed_on_our_side_is_neither_whole_nor_stale(part: bytes) -> None:
    connection, _ = connected()
    await reply_to_pieces(connection, [LENGTH])
    asking = asyncio.ensure_future(connection.send_request(b"GET", 10, 5.0))
    await asyncio.sleep(0)
    if part:
        connection.data_received(part)
    connection.close()
    connection.connection_lost(None)
    with pytest.raises(ClosedEarlyError) as raised:
        await asking
    assert not isinstance(raised.value, StaleError)


async def test_an_answer_before_the_request_is_sent_leaves_no_connection() -> None:
    connection, wire = connected()
    wire.unsent = 1
    assert (await reply_to_pieces(connection, [LENGTH])).body == b"hello"
    assert not connection.is_open


async def test_time_runs_out_and_an_answer_that_comes_then_is_none() -> None:
    connection, wire = connected()
    with pytest.raises(TimeoutError):
        await connection.send_request(b"GET", 10, 0.01)
    assert wire.is_aborted
    connection.data_received(LENGTH)
    connection.connection_lost(None)


async def test_silence_ends_a_request_sooner_than_the_time_for_all_of_it() -> None:
    connection, wire = connected()
    clock = asyncio.get_running_loop().time
    asking = asyncio.ensure_future(connection.send_request(b"GET", 10, 60.0, 0.5))
    await asyncio.sleep(0.1)
    connection.data_received(LENGTH[:20])
    heard = clock()
    with pytest.raises(TimeoutError):
        await asking
    assert wire.is_aborted
    # It begins anew with what is heard, and is far shorter than the time for all.
    assert 0.45 < clock() - heard < 30


async def test_whoever_stops_waiting_ends_the_connection() -> None:
    connection, wire = connected()
    asking = asyncio.ensure_future(connection.send_request(b"GET", 10, 5.0))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert wire.is_aborted
