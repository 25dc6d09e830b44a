"""Readers that come and go: what becomes of a correlation that nobody reads any more."""

import asyncio

import pytest

from core.waits.strategy import Status
from serve_app.streams.hub import MAX_ABANDON_ATTEMPTS, StreamFormat
from serve_app.waits.rendering import WAIT_FORMAT, render_wait_frames
from tests.unit.serve_app.container_fixtures import ADDRESS
from tests.unit.serve_app.streams.hub_fixtures import (
    HEARTBEAT,
    StreamScenario,
    clock,
    run_scenario,
    settle,
)

GRACE = 2.0
START = 1_000.0


def test_readers_are_counted_while_they_read() -> None:
    async def story(scene: StreamScenario) -> None:
        one, two = scene.read(), scene.read()
        await settle()
        assert (scene.hub.readers, len(scene.watches)) == (2, 1)
        await one.leave()
        assert (scene.hub.readers, len(scene.watches)) == (1, 1)
        await two.leave()
        assert (scene.hub.readers, len(scene.watches)) == (0, 0)

    run_scenario(story)


def test_different_stories_of_one_correlation_have_channels_of_their_own() -> None:
    async def story(scene: StreamScenario) -> None:
        one, two = (
            scene.read(),
            scene.read(story=StreamFormat("gather", render_wait_frames, includes_result=True)),
        )
        await settle()
        assert one.channel is not two.channel
        assert (scene.hub.readers, len(scene.watches)) == (2, 2)
        scene.cancel()
        await asyncio.gather(one.task, two.task)

    run_scenario(story)


def test_when_the_last_reader_has_left_for_longer_than_the_grace_it_is_told() -> None:
    async def story(scene: StreamScenario) -> None:
        one, two = scene.read(leaving=GRACE), scene.read(leaving=GRACE)
        await asyncio.sleep(1)
        await one.leave()
        await asyncio.sleep(5)
        assert scene.abandoned == []
        await two.leave()
        assert scene.hub.readers == 0
        await asyncio.sleep(1.9)
        assert scene.abandoned == []
        await asyncio.sleep(0.2)
        assert scene.abandoned == [START + 6 + GRACE]
        assert scene.pool.wait is not None
        assert scene.pool.wait.status is Status.CANCELLED
        assert scene.watches == []

    run_scenario(story)


def test_a_reader_that_comes_back_in_time_stops_it() -> None:
    async def story(scene: StreamScenario) -> None:
        first = scene.read(leaving=GRACE)
        await settle()
        await first.leave()
        await asyncio.sleep(1.9)
        second = scene.read(first.ids[-1], leaving=GRACE)
        await settle()
        assert second.channel is first.channel, "nothing had to be read again"
        await asyncio.sleep(100)
        assert (scene.abandoned, scene.hub.readers) == ([], 1)
        scene.callback("a")
        await settle()
        assert second.ids == [1]
        await second.leave()
        await asyncio.sleep(GRACE + 0.1)
        assert len(scene.abandoned) == 1

    run_scenario(story)


def test_each_leaving_has_its_whole_grace() -> None:
    """Whoever came back and left again has as long to come back as the first time."""

    async def story(scene: StreamScenario) -> None:
        for _ in range(5):
            reader = scene.read(leaving=GRACE)
            await asyncio.sleep(0.25)
            await reader.leave()
            await asyncio.sleep(1.5)
        assert scene.abandoned == []
        await asyncio.sleep(10)
        assert scene.abandoned == [START + 4 * 1.75 + 0.25 + GRACE]

    run_scenario(story)


def test_one_that_comes_and_leaves_at_once_counts_as_well() -> None:
    async def story(scene: StreamScenario) -> None:
        first = scene.read(leaving=GRACE)
        await settle()
        await first.leave()
        await asyncio.sleep(1)
        async with scene.hub.open(ADDRESS, WAIT_FORMAT, GRACE):
            pass
        assert scene.abandoned == []
        await asyncio.sleep(1.5)
        assert scene.abandoned == []
        await asyncio.sleep(1)
        assert scene.abandoned == [START + 1 + GRACE]

    run_scenario(story)


def test_a_reader_of_another_story_keeps_it() -> None:
    async def story(scene: StreamScenario) -> None:
        other = scene.read(story=StreamFormat("another", render_wait_frames, includes_result=True))
        reader = scene.read(leaving=GRACE)
        await settle()
        await reader.leave()
        await asyncio.sleep(10)
        assert scene.abandoned == []
        await other.leave()

    run_scenario(story)


def test_without_a_grace_it_is_told_at_once() -> None:
    async def story(scene: StreamScenario) -> None:
        reader = scene.read(leaving=0.0)
        await settle()
        await reader.leave()
        await settle()
        assert scene.abandoned == [START]

    run_scenario(story)


def test_one_that_may_be_left_alone_goes_on() -> None:
    async def story(scene: StreamScenario) -> None:
        reader = scene.read(leaving=None)
        await settle()
        await reader.leave()
        await asyncio.sleep(100)
        assert (scene.abandoned, scene.watches) == ([], [])

    run_scenario(story)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_what_has_ended_cannot_be_left(when: str) -> None:
    async def story(scene: StreamScenario) -> None:
        reader = scene.read(leaving=GRACE)
        await settle()
        if when == "before":
            scene.cancel()
            await reader.task
        else:
            await reader.leave()
            await asyncio.sleep(1)
            scene.cancel()
        await settle()
        assert (scene.watches, scene.hub.readers) == ([], 0)
        await asyncio.sleep(10)
        assert scene.abandoned == []

    run_scenario(story)


def test_a_shard_that_stays_away_is_told_a_few_times() -> None:
    async def story(scene: StreamScenario) -> None:
        scene.is_shard_away = True
        reader = scene.read(leaving=GRACE)
        await settle()
        await reader.leave()
        await asyncio.sleep(60)
        assert len(scene.abandoned) == MAX_ABANDON_ATTEMPTS
        assert scene.watches == []

    run_scenario(story)


def test_a_shard_that_is_away_or_new_is_told_when_it_is_back() -> None:
    async def story(scene: StreamScenario) -> None:
        scene.is_shard_new = True
        reader = scene.read(leaving=GRACE)
        await settle()
        await reader.leave()
        await asyncio.sleep(2.5)
        scene.is_shard_new, scene.is_shard_away = False, True
        await asyncio.sleep(1)
        scene.is_shard_away = False
        await asyncio.sleep(60)
        assert [at - START for at in scene.abandoned] == [2, 3, 4]
        assert scene.pool.wait is not None
        assert scene.pool.wait.status is Status.CANCELLED

    run_scenario(story)


def test_whoever_comes_while_the_shard_is_new_keeps_it() -> None:
    async def story(scene: StreamScenario) -> None:
        scene.is_shard_new = True
        reader = scene.read(leaving=GRACE)
        await settle()
        await reader.leave()
        await asyncio.sleep(2.5)
        scene.is_shard_new = False
        other = scene.read(leaving=GRACE)
        await asyncio.sleep(60)
        assert len(scene.abandoned) == 1
        await other.leave()

    run_scenario(story)


def test_a_replica_that_stops_tells_nobody() -> None:
    async def story(scene: StreamScenario) -> None:
        reader = scene.read(leaving=GRACE)
        await settle()
        await reader.leave()
        await scene.hub.close()
        await asyncio.sleep(10)
        assert scene.abandoned == []

    run_scenario(story)


def test_one_who_only_waits_for_the_end_is_a_reader() -> None:
    async def story(scene: StreamScenario) -> None:
        ended: list[float] = []

        async def hold() -> None:
            async with scene.hub.open(ADDRESS, WAIT_FORMAT, GRACE) as channel:
                await channel.ended()
                ended.append(clock())

        holding = asyncio.create_task(hold())
        await asyncio.sleep(HEARTBEAT * 2.5)
        assert scene.hub.readers == 1
        scene.cancel()
        await holding
        assert ended == [START + HEARTBEAT * 2.5]

    run_scenario(story)
