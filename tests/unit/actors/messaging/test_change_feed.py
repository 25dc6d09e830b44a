"""Who is told of which change, and who is known to read."""

import asyncio
from dataclasses import dataclass, field

from actors.messaging.change_feed import ABSENT_AFTER, ChangeFeeds

A, B = b"a" * 16, b"b" * 16


@dataclass
class Scene:
    now: float = 0.0
    feeds: ChangeFeeds = field(init=False)

    def __post_init__(self) -> None:
        self.feeds = ChangeFeeds(lambda: self.now)

    async def look(
        self, name: str, *watch: bytes, unwatch: list[bytes] | None = None
    ) -> set[bytes]:
        return set(await self.feeds.listen(name, list(watch), unwatch or [], 0))


async def test_what_is_newly_watched_counts_as_changed() -> None:
    scene = Scene()
    assert await scene.look("r1", A, B) == {A, B}
    assert await scene.look("r1") == set()
    assert await scene.look("r1", A) == {A}


async def test_a_change_is_told_once_to_each_feed_that_watches() -> None:
    scene = Scene()
    await scene.look("r1", A, B)
    await scene.look("r2", A)
    for key in (A, A, B):
        scene.feeds.changed(key)
    assert await scene.look("r1") == {A, B}
    assert await scene.look("r2") == {A}
    assert await scene.look("r1") == await scene.look("r2") == set()


async def test_one_that_listens_is_woken_by_a_change() -> None:
    scene = Scene()
    await scene.look("r1", A)
    listening = asyncio.create_task(scene.feeds.listen("r1", [], [], 60))
    await asyncio.sleep(0)
    scene.feeds.changed(A)
    assert await listening == [A]


async def test_what_is_not_watched_any_more_is_not_told() -> None:
    scene = Scene()
    await scene.look("r1", A, B)
    scene.feeds.changed(A)
    assert await scene.look("r1", unwatch=[A]) == set()
    scene.feeds.changed(A)
    assert await scene.look("r1") == set()
    assert len(scene.feeds) == 1


async def test_the_last_to_leave_is_told_that_nobody_reads() -> None:
    scene = Scene()
    await scene.look("r1", A)
    await scene.look("r2", A)
    assert scene.feeds.leave("r1", A)
    assert not scene.feeds.leave("r2", A)
    assert len(scene.feeds) == 0


async def test_one_that_left_does_not_count_for_the_others_before_its_next_call() -> None:
    """Its next call may be twenty seconds away, and only then would it say what it unwatches."""
    scene = Scene()
    await scene.look("r1", A)
    assert not scene.feeds.leave("r1", A)
    await scene.look("r2", A)
    assert not scene.feeds.leave("r2", A)


async def test_one_that_comes_back_counts_again() -> None:
    scene = Scene()
    await scene.look("r1", A)
    await scene.look("r2", A)
    scene.feeds.leave("r1", A)
    assert await scene.look("r1", A) == {A}
    assert scene.feeds.leave("r2", A)


async def test_leaving_what_one_never_watched_harms_nobody() -> None:
    scene = Scene()
    assert not scene.feeds.leave("r1", A)
    await scene.look("r2", A)
    assert scene.feeds.leave("r1", A)
    scene.feeds.changed(A)
    assert await scene.look("r2") == {A}


async def test_a_feed_that_has_not_asked_for_long_is_forgotten_and_reads_nothing() -> None:
    scene = Scene()
    await scene.look("r1", A)
    scene.now = ABSENT_AFTER - 1
    await scene.look("r2", A)
    scene.now = ABSENT_AFTER + 1
    scene.feeds.forget_absent()
    assert not scene.feeds.leave("r2", A)
    assert len(scene.feeds) == 0
