"""Idle connections: which is used next, and which are closed. Nothing is sent anywhere."""

import asyncio

import pytest

from handlers.http import connection
from handlers.http.connection import Connection, IdleConnections
from tests.support.wire import KEY, connected


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(connection, "time", clock)
    return clock


def kept(idle: IdleConnections, count: int) -> list[Connection]:
    made = [connected()[0] for _ in range(count)]
    for each in made:
        idle.put(each)
    return made


async def test_the_one_used_last_is_used_first() -> None:
    idle = IdleConnections(10, 30.0)
    first, second = kept(idle, 2)
    assert idle.take(("https", "a.example", 443)) is None
    assert [idle.take(KEY) for _ in range(3)] == [second, first, None]
    assert len(idle) == 0
    idle.close()


async def test_where_there_are_too_many_the_oldest_goes() -> None:
    idle = IdleConnections(2, 30.0)
    made = kept(idle, 3)
    assert [one.is_open for one in made] == [False, True, True]
    assert [idle.take(KEY) for _ in range(3)] == [made[2], made[1], None]
    idle.close()


async def test_one_that_is_gone_is_not_given() -> None:
    idle = IdleConnections(10, 30.0)
    made = kept(idle, 3)
    idle.forget(made[1])
    idle.forget(made[1])
    assert [idle.take(KEY) for _ in range(3)] == [made[2], made[0], None]
    idle.close()


async def test_one_that_is_idle_too_long_is_not_used(clock: Clock) -> None:
    idle = IdleConnections(10, 30.0)
    (old,) = kept(idle, 1)
    clock.now += 31
    assert idle.take(KEY) is None
    (new,) = kept(idle, 1)
    assert [idle.take(KEY), idle.take(KEY)] == [new, None]
    idle._close_expired()
    assert (old.is_open, new.is_open, len(idle)) == (False, True, 0)
    idle.close()


async def test_those_whose_time_is_over_are_closed_by_themselves() -> None:
    idle = IdleConnections(10, 0.02)
    lost = asyncio.Event()
    made = kept(idle, 2)
    made[1].close = lost.set  # type: ignore[method-assign]  # to be told
    await asyncio.wait_for(lost.wait(), 5)
    assert (made[0].is_open, len(idle)) == (False, 0)


async def test_the_end_closes_all() -> None:
    idle = IdleConnections(10, 30.0)
    made = kept(idle, 3)
    idle.close()
    assert not any(one.is_open for one in made)
    assert idle.take(KEY) is None
