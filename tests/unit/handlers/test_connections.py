"""Answers read from bytes in any pieces, and idle connections kept. Nothing is sent anywhere."""

import asyncio
import itertools
from typing import Any

import pytest
from httptools import HttpParserError, HttpParserUpgrade
from hypothesis import given
from hypothesis import strategies as st

from handlers import connections
from handlers.connections import (
    LARGEST_HEAD,
    ClosedEarlyError,
    Connection,
    Idle,
    Reply,
    StaleError,
)

KEY = ("http", "a.example", 80)


class Wire(asyncio.Transport):
    """Takes what is written, and ends when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.unsent = 0
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None:
        self.is_aborted = True

    def get_write_buffer_size(self) -> int:
        return self.unsent


def connected() -> tuple[Connection, Wire]:
    connection, wire = Connection(KEY, lambda _: None), Wire()
    connection.connection_made(wire)
    return connection, wire


async def asked(
    connection: Connection, pieces: list[bytes], *, most: int = 1_000, ends: bool = False
) -> Reply:
    """What a request brings if these pieces come back, and then perhaps the end."""
    asking = asyncio.ensure_future(connection.ask(b"GET", most, 5.0))
    await asyncio.sleep(0)
    for piece in pieces:
        if connection.is_open:
            connection.data_received(piece)
    if ends:
        connection.connection_lost(None)
    return await asking


def bytes_of(raw: bytes) -> list[bytes]:
    return [raw[at : at + 1] for at in range(len(raw))]


LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n"
    b"2;note=1\r\nhe\r\n3\r\nllo\r\n0\r\nX-Trailer: t\r\n\r\n"
)
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
        reply = await asked(connection, pieces)
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
        assert (await asked(connection, pieces)).body == b"hello"
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
    reply = await asked(connection, [raw])
    assert (reply.status, reply.body) == (200, b"hello")
    assert (connection.is_open, wire.is_aborted) == (False, True)


async def test_an_old_version_may_keep_the_connection() -> None:
    connection, _ = connected()
    kept = LENGTH.replace(b"1.1", b"1.0").replace(b"X-A", b"Connection: keep-alive\r\nX-A")
    for _ in range(2):
        assert (await asked(connection, [kept])).body == b"hello"
    assert connection.is_open


async def test_an_answer_of_no_given_length_ends_with_the_connection() -> None:
    raw = b"HTTP/1.1 200 OK\r\n\r\nhello"
    connection, _ = connected()
    assert (await asked(connection, bytes_of(raw), ends=True)).body == b"hello"
    assert not connection.is_open


async def test_but_not_if_the_connection_broke() -> None:
    connection, _ = connected()
    asking = asyncio.ensure_future(connection.ask(b"GET", 9, 5.0))
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
        assert (await asked(connection, [raw]))[::2] == (status, b"")
    assert connection.is_open


# Too early an end.


@pytest.mark.parametrize("part", [LENGTH[:1], LENGTH[:30], LENGTH[:-1], CHUNKED[:-1]])
async def test_an_answer_that_is_not_all_there(part: bytes) -> None:
    connection, _ = connected()
    await asked(connection, [LENGTH])
    with pytest.raises(ClosedEarlyError) as raised:
        await asked(connection, [part], ends=True)
    assert not isinstance(raised.value, StaleError)


async def test_only_a_connection_that_has_served_can_be_stale() -> None:
    connection, _ = connected()
    with pytest.raises(ClosedEarlyError) as raised:
        await asked(connection, [], ends=True)
    assert not isinstance(raised.value, StaleError)
    connection, _ = connected()
    await asked(connection, [LENGTH])
    with pytest.raises(StaleError):
        await asked(connection, [], ends=True)


async def test_what_comes_unasked_ends_the_connection() -> None:
    connection, wire = connected()
    await asked(connection, [LENGTH])
    connection.data_received(b"HTTP/1.1 408 Too late\r\n\r\n")
    assert (connection.is_open, wire.is_aborted) == (False, True)
    with pytest.raises(ClosedEarlyError):
        await connection.ask(b"GET", 1, 1.0)


async def test_one_request_at_a_time() -> None:
    connection, wire = connected()
    asking = asyncio.ensure_future(connection.ask(b"GET", 10, 5.0))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="one at a time"):
        await connection.ask(b"GET", 10, 5.0)
    connection.data_received(LENGTH)
    assert ((await asking).body, wire.written) == (b"hello", [b"GET"])


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\n\r\nhel"])
async def test_what_is_closed_on_our_side_is_neither_whole_nor_stale(part: bytes) -> None:
    connection, _ = connected()
    await asked(connection, [LENGTH])
    asking = asyncio.ensure_future(connection.ask(b"GET", 10, 5.0))
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
    assert (await asked(connection, [LENGTH])).body == b"hello"
    assert not connection.is_open


async def test_time_runs_out_and_an_answer_that_comes_then_is_none() -> None:
    connection, wire = connected()
    with pytest.raises(TimeoutError):
        await connection.ask(b"GET", 10, 0.01)
    assert wire.is_aborted
    connection.data_received(LENGTH)
    connection.connection_lost(None)


async def test_whoever_stops_waiting_ends_the_connection() -> None:
    connection, wire = connected()
    asking = asyncio.ensure_future(connection.ask(b"GET", 10, 5.0))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert wire.is_aborted


# Too much.


@pytest.mark.parametrize("raw", [LENGTH, CHUNKED, b"HTTP/1.1 200 OK\r\n\r\nhello"])
@pytest.mark.parametrize("is_whole", [True, False])
async def test_of_a_long_body_so_much_is_kept(raw: bytes, is_whole: bool) -> None:
    connection, _ = connected()
    reply = await asked(connection, [raw] if is_whole else bytes_of(raw), most=3)
    assert (reply.body, reply.is_cut, connection.is_open) == (b"hel", True, False)


async def test_a_body_as_long_as_is_kept_is_not_cut() -> None:
    connection, _ = connected()
    reply = await asked(connection, [LENGTH], most=5)
    assert (reply.body, reply.is_cut, connection.is_open) == (b"hello", False, True)


PROMISE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "one header": [b"HTTP/1.1 200 OK\r\nX: ", *[b"x" * 1_000] * 80],
    "many headers": [b"HTTP/1.1 200 OK\r\n", *[b"X: 0123456789\r\n" * 100] * 80],
    "a head in one piece": [b"HTTP/1.1 200 OK\r\nX: " + b"x" * LARGEST_HEAD + b"\r\n\r\n"],
    "promises": [PROMISE] * 4_000,
    "after the body": [CHUNKS, b"0\r\nX: ", *[b"x" * 1_000] * 80],
    "beside the body": [CHUNKS, *[b"1;" + b"x" * 1_000 + b"\r\na\r\n"] * 80],
}


@pytest.mark.parametrize("pieces", ENDLESS.values(), ids=ENDLESS)
async def test_what_goes_on_round_a_body_is_cut_off(pieces: list[bytes]) -> None:
    connection, wire = connected()
    with pytest.raises(HttpParserError):
        await asked(connection, pieces, ends=True)
    assert wire.is_aborted


async def test_a_body_in_chunks_of_a_byte_is_not() -> None:
    connection, _ = connected()
    pieces = [CHUNKS, *[b"1\r\na\r\n"] * 30_000, b"0\r\n\r\n"]
    assert len((await asked(connection, pieces, most=50_000)).body) == 30_000
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
        await asked(connection, [raw] if is_whole else bytes_of(raw))
    assert wire.is_aborted


@given(raw=st.binary(max_size=200), start=st.sampled_from([b"", LENGTH[:20], CHUNKS]))
def test_any_bytes_end_somehow(raw: bytes, start: bytes) -> None:
    async def check() -> None:
        connection, _ = connected()
        try:
            await asked(connection, [start, raw], ends=True)
        except (HttpParserError, HttpParserUpgrade, ClosedEarlyError):
            assert not connection.is_open

    asyncio.run(check())


# Idle connections.


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(connections, "time", clock)
    return clock


def kept(idle: Idle, count: int) -> list[Connection]:
    made = [connected()[0] for _ in range(count)]
    for connection in made:
        idle.put(connection)
    return made


async def test_the_one_used_last_is_used_first() -> None:
    idle = Idle(10, 30.0)
    first, second = kept(idle, 2)
    assert idle.take(("https", "a.example", 443)) is None
    assert [idle.take(KEY) for _ in range(3)] == [second, first, None]
    assert len(idle) == 0
    idle.close()


async def test_where_there_are_too_many_the_oldest_goes() -> None:
    idle = Idle(2, 30.0)
    made = kept(idle, 3)
    assert [one.is_open for one in made] == [False, True, True]
    assert [idle.take(KEY) for _ in range(3)] == [made[2], made[1], None]
    idle.close()


async def test_one_that_is_gone_is_not_given() -> None:
    idle = Idle(10, 30.0)
    made = kept(idle, 3)
    idle.forget(made[1])
    idle.forget(made[1])
    assert [idle.take(KEY) for _ in range(3)] == [made[2], made[0], None]
    idle.close()


async def test_one_that_is_idle_too_long_is_not_used(clock: Clock) -> None:
    idle = Idle(10, 30.0)
    (old,) = kept(idle, 1)
    clock.now += 31
    assert idle.take(KEY) is None
    (new,) = kept(idle, 1)
    assert [idle.take(KEY), idle.take(KEY)] == [new, None]
    idle._look()
    assert (old.is_open, new.is_open, len(idle)) == (False, True, 0)
    idle.close()


async def test_those_whose_time_is_over_are_closed_by_themselves() -> None:
    idle = Idle(10, 0.02)
    lost = asyncio.Event()
    made = kept(idle, 2)
    made[1].close = lost.set  # type: ignore[method-assign]  # to be told
    await asyncio.wait_for(lost.wait(), 5)
    assert (made[0].is_open, len(idle)) == (False, 0)


async def test_the_end_closes_all() -> None:
    idle = Idle(10, 30.0)
    made = kept(idle, 3)
    idle.close()
    assert not any(one.is_open for one in made)
    assert idle.take(KEY) is None
