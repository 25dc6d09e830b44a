import asyncio
from collections.abc import Sequence

import pytest

from services.shared.cache import Cache


class Source:
    """Counts its readings; each can be held back."""

    def __init__(self) -> None:
        self.now = 0.0
        self.readings: list[str] = []
        self.value = 1
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.asked = asyncio.Event()

    async def read(self, key: str) -> int:
        self.readings.append(key)
        self.asked.set()
        value = self.value
        await self.go_on.wait()
        if value < 0:
            raise OSError(key)
        return value

    def cache(self, limit: int = 10) -> Cache[str, int]:
        return Cache(self.read, ttl=lambda _: 10.0, monotonic=lambda: self.now, limit=limit)


async def test_a_value_is_kept_for_its_time_and_no_longer() -> None:
    source = Source()
    cache = source.cache()
    assert await cache.get("a") == 1
    source.value, source.now = 2, 9.9
    assert await cache.get("a") == 1
    source.now = 10.0
    assert await cache.get("a") == 2


async def test_age_counts_from_before_the_reading() -> None:
    source = Source()
    cache = source.cache()
    source.go_on.clear()
    asking = asyncio.create_task(cache.get("a"))
    await source.asked.wait()
    source.now = 8.0
    source.go_on.set()
    await asking
    source.value, source.now = 2, 10.0
    assert await cache.get("a") == 2


async def test_many_askers_share_one_reading() -> None:
    source = Source()
    cache = source.cache()
    assert await asyncio.gather(*(cache.get("a") for _ in range(50))) == [1] * 50
    assert source.readings == ["a"]


async def test_one_who_gives_up_takes_nothing_from_the_others() -> None:
    source = Source()
    cache = source.cache()
    source.go_on.clear()
    first, second = (asyncio.create_task(cache.get("a")) for _ in range(2))
    await source.asked.wait()
    first.cancel()
    source.go_on.set()
    assert await second == 1


async def test_a_failed_reading_is_told_and_not_kept() -> None:
    source = Source()
    cache = source.cache()
    source.value = -1
    with pytest.raises(OSError, match="a"):
        await cache.get("a")
    source.value = 3
    assert await cache.get("a") == 3


async def test_a_refresh_never_trusts_a_reading_that_began_before_it() -> None:
    source = Source()
    cache = source.cache()
    source.go_on.clear()
    old = asyncio.create_task(cache.get("a"))
    await source.asked.wait()
    source.value = 2  # written after the reading began, before the refresh was asked for
    fresh = [asyncio.create_task(cache.refresh("a")) for _ in range(5)]
    await asyncio.sleep(0)
    source.go_on.set()
    assert await asyncio.gather(*fresh) == [2] * 5
    assert await old == 1
    assert source.readings == ["a", "a"]


async def test_what_is_forgotten_is_read_again() -> None:
    source = Source()
    cache = source.cache()
    await cache.get("a")
    source.value = 2
    cache.forget("a")
    cache.forget("never seen")
    assert await cache.get("a") == 2


async def test_the_oldest_leaves_when_there_are_too_many() -> None:
    source = Source()
    cache = source.cache(limit=2)
    for key in ("a", "b", "c", "b", "c"):
        await cache.get(key)
    assert source.readings == ["a", "b", "c"]
    await cache.get("a")
    assert source.readings[-1] == "a"


async def test_a_cleared_cache_reads_everything_again_even_what_is_being_read() -> None:
    source = Source()
    cache = source.cache()
    await cache.get("a")
    source.go_on.clear()
    source.asked.clear()
    asking = asyncio.create_task(cache.get("b"))
    await source.asked.wait()
    source.value = 2
    cache.clear()
    source.go_on.set()
    assert await asking == 1  # it asked before the change
    assert await asyncio.gather(cache.get("a"), cache.get("b")) == [2, 2]
    assert source.readings == ["a", "b", "a", "b"]


async def test_some_are_forgotten_and_the_others_stay() -> None:
    source = Source()
    cache = source.cache()
    for key in ("a", "b"):
        await cache.get(key)
    source.value = 2
    cache.forget_where(lambda key: key == "a")
    assert [await cache.get(key) for key in ("a", "b")] == [2, 1]


async def test_many_are_read_together_unless_something_changes_meanwhile() -> None:
    source = Source()
    cache = source.cache()
    asked: list[list[str]] = []
    await cache.get("a")

    async def read(keys: Sequence[str]) -> dict[str, int]:
        asked.append(sorted(keys))
        if source.value == 2:
            cache.forget("elsewhere")
        return dict.fromkeys(keys, source.value)

    await cache.fill({"a", "b", "c"}, read)
    await cache.fill({"a", "b", "c"}, read)
    assert asked == [["b", "c"]]
    assert await cache.get("b") == 1
    source.value = 2
    await cache.fill({"d"}, read)
    source.value = 3
    assert await cache.get("d") == 3  # what was read then may be older than the change
    assert source.readings == ["a", "d"]
