"""Keys that a replica does not know: what asking for them costs, and whom it may hold up."""

import asyncio

import pytest

from core.shared.errors import OverloadedError
from serve_app.http.auth import (
    LOOKUP_BATCH_SIZE,
    MAX_UNKNOWN_KEYS,
    MAX_WAITING_LOOKUPS,
    UNKNOWN_TTL,
    KeyLookup,
)


class Table:
    """The table of keys. Answers when it is let to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.live = {"live"}
        self.asked: list[list[str]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.away = False
        self.under_way = self.most_under_way = 0

    async def find_live(self, prefixes: list[str]) -> set[str]:
        self.asked.append(prefixes)
        self.under_way += 1
        self.most_under_way = max(self.under_way, self.most_under_way)
        await self.open.wait()
        self.under_way -= 1
        if self.away:
            raise ConnectionResetError
        return self.live & set(prefixes)

    def lookup(self) -> KeyLookup:
        return KeyLookup(self.find_live, lambda: self.now)


async def test_whether_there_is_such_a_key() -> None:
    table = Table()
    lookup = table.lookup()
    assert await lookup.exists("live")
    assert not await lookup.exists("other")


async def test_one_that_there_is_not_is_not_asked_for_again_at_once() -> None:
    table = Table()
    lookup = table.lookup()
    for _ in range(5):
        assert not await lookup.exists("later")
    assert len(table.asked) == 1
    table.live.add("later")
    table.now += UNKNOWN_TTL
    assert await lookup.exists("later")


async def test_one_that_was_just_made_is_asked_for_at_once() -> None:
    table = Table()
    lookup = table.lookup()
    assert not await lookup.exists("later")
    table.live.add("later")
    lookup.forget("later")
    assert await lookup.exists("later")


async def test_a_flood_shares_queries_and_has_one_under_way() -> None:
    table = Table()
    lookup = table.lookup()
    table.open.clear()
    asked = [asyncio.create_task(lookup.exists(f"k{n}")) for n in range(MAX_WAITING_LOOKUPS)]
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError):
        await lookup.exists("one too many")
    # Who asks for one that is being asked for anyway takes no further place.
    again = asyncio.create_task(lookup.exists("k1"))
    table.open.set()
    assert not any(await asyncio.gather(*asked, again))
    assert table.most_under_way == 1
    assert len(table.asked) <= MAX_WAITING_LOOKUPS // LOOKUP_BATCH_SIZE + 1
    assert await lookup.exists("live"), "it works again"


async def test_what_is_remembered_has_a_bound() -> None:
    table = Table()
    lookup = table.lookup()
    for number in range(MAX_UNKNOWN_KEYS + 100):
        await lookup.exists(f"k{number}")
    assert len(lookup._unknown) == MAX_UNKNOWN_KEYS


async def test_trouble_is_told_to_all_who_asked_and_forgotten() -> None:
    table = Table()
    lookup = table.lookup()
    table.away = True
    asked = [asyncio.create_task(lookup.exists(name)) for name in ("live", "other", "live")]
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(answer, ConnectionResetError)
    table.away = False
    assert await lookup.exists("live")


async def test_who_gives_up_leaves_the_answer_to_the_others() -> None:
    table = Table()
    lookup = table.lookup()
    table.open.clear()
    first, second = (asyncio.create_task(lookup.exists("live")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    table.open.set()
    assert await second
