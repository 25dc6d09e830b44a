"""Answers that go on for ever, and what is no answer at all. Nothing is sent anywhere."""

import asyncio

import pytest
from httptools import HttpParserError, HttpParserUpgrade
from hypothesis import given
from hypothesis import strategies as st

from handlers.http.connection import MAX_HEAD_BYTES, ClosedEarlyError
from tests.support.wire import CHUNKED, LENGTH, bytes_of, connected, reply_to_pieces

# Too much.


@pytest.mark.parametrize("raw", [LENGTH, CHUNKED, b"HTTP/1.1 200 OK\r\n\r\nhello"])
@pytest.mark.parametrize("is_whole", [True, False])
async def test_of_a_long_body_so_much_is_kept(raw: bytes, is_whole: bool) -> None:
    connection, _ = connected()
    reply = await reply_to_pieces(connection, [raw] if is_whole else bytes_of(raw), most=3)
    assert (reply.body, reply.is_cut, connection.is_open) == (b"hel", True, False)


async def test_a_body_as_long_as_is_kept_is_not_cut() -> None:
    connection, _ = connected()
    reply = await reply_to_pieces(connection, [LENGTH], most=5)
    assert (reply.body, reply.is_cut, connection.is_open) == (b"hello", False, True)


PROMISE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "one header": [b"HTTP/1.1 200 OK\r\nX: ", *[b"x" * 1_000] * 80],
    "many headers": [b"HTTP/1.1 200 OK\r\n", *[b"X: 0123456789\r\n" * 100] * 80],
    "a head in one piece": [b"HTTP/1.1 200 OK\r\nX: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n"],
    "promises": [PROMISE] * 4_000,
    "after the body": [CHUNKS, b"0\r\nX: ", *[b"x" * 1_000] * 80],
    "beside the body": [CHUNKS, *[b"1;" + b"x" * 1_000 + b"\r\na\r\n"] * 80],
}


@pytest.mark.parametrize("pieces", ENDLESS.values(), ids=ENDLESS)
async def test_what_goes_on_round_a_body_is_cut_off(pieces: list[bytes]) -> None:
    connection, wire = connected()
    with pytest.raises(HttpParserError):
        await reply_to_pieces(connection, pieces, ends=True)
    assert wire.is_aborted


async def test_a_body_in_chunks_of_a_byte_is_not() -> None:
    connection, _ = connected()
    pieces = [CHUNKS, *[b"1\r\na\r\n"] * 30_000, b"0\r\n\r\n"]
    assert len((await reply_to_pieces(connection, pieces, most=50_000)).body) == 30_000
    assert connection.is_open


# Not HTTP.


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 what\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        CHUNKS + b"zz\r\n",
        b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ],
)
@pytest.mark.parametrize("is_whole", [True, False])
async def test_what_is_no_answer(raw: bytes, is_whole: bool) -> None:
    connection, wire = connected()
    with pytest.raises((HttpParserError, HttpParserUpgrade)):
        await reply_to_pieces(connection, [raw] if is_whole else bytes_of(raw))
    assert wire.is_aborted


@given(raw=st.binary(max_size=200), start=st.sampled_from([b"", LENGTH[:20], CHUNKS]))
def test_any_bytes_end_somehow(raw: bytes, start: bytes) -> None:
    async def check() -> None:
        connection, _ = connected()
        try:
            await reply_to_pieces(connection, [start, raw], ends=True)
        except (HttpParserError, HttpParserUpgrade, ClosedEarlyError):
            assert not connection.is_open

    asyncio.run(check())
