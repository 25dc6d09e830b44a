"""Who waits for an end gets it from the channel, or is told that it cannot. Time is simulated."""

import asyncio

import pytest

from core.shared.errors import UnavailableError
from core.waits.output import payloads_of
from serve_app.streams.hub import StreamFormat
from serve_app.waits.rendering import WAIT_FORMAT
from tests.unit.serve_app.container_fixtures import ADDRESS
from tests.unit.serve_app.streams.hub_fixtures import StreamScenario, clock, run_scenario, settle


@pytest.mark.parametrize("size", [2, 500])
def test_an_end_comes_with_all_that_counts(monkeypatch: pytest.MonkeyPatch, *, size: int) -> None:
    monkeypatch.setattr(
        "serve_app.streams.hub.READ_AHEAD_BYTES", 100
    )  # a long story is read in parts

    async def story(scene: StreamScenario) -> None:
        async with scene.hub.open(ADDRESS, WAIT_FORMAT) as channel:
            scene.callback("a", size)
            await asyncio.sleep(1)
            assert channel.result is None
            scene.event("b", size)
            await channel.ended()
            end = channel.result
        assert end is not None
        assert end.wait == scene.pool.wait
        assert end.counted is not None
        payloads = payloads_of(end.wait, end.counted)
        assert [len(payload) for payload in payloads.values()] == [size, size]

    run_scenario(story)


def test_without_a_correlation_there_is_no_end() -> None:
    async def story(scene: StreamScenario) -> None:
        async with scene.hub.open(ADDRESS, WAIT_FORMAT) as channel:
            await asyncio.sleep(1)
            scene.pool.wait = None
            for watch in scene.watches:
                watch.wake()
            await channel.ended()
            assert channel.result is None

    run_scenario(story)


def test_a_story_that_does_not_tell_the_result_does_not_read_it() -> None:
    """A hundred large answers would be read again for each reader, to say that all have come."""

    async def questions(scene: StreamScenario, story: StreamFormat) -> int:
        before = scene.pool.asked
        reader = scene.read(story=story)
        await reader.task
        assert reader.kinds[-1] == "ended"
        return scene.pool.asked - before

    async def story(scene: StreamScenario) -> None:
        scene.callback("a")
        scene.event("b")
        whole = await questions(scene, WAIT_FORMAT)
        brief = await questions(scene, StreamFormat("brief", WAIT_FORMAT.render))
        assert (whole, brief) == (3, 2)

    run_scenario(story)


def test_an_end_that_cannot_be_read_is_waited_for_only_so_long() -> None:
    async def story(scene: StreamScenario) -> None:
        async with scene.hub.open(ADDRESS, WAIT_FORMAT) as channel:
            await settle()
            scene.pool.broken = ConnectionRefusedError("Postgres is away")
            scene.cancel()
            began = clock()
            with pytest.raises(UnavailableError) as refusal:
                await channel.ended_within(20.0)
            assert clock() - began == 20.0
            assert refusal.value.retry_after > 0
            scene.pool.broken = None
            await channel.ended_within(20.0)
            assert channel.result is not None

    run_scenario(story)


def test_a_channel_that_breaks_is_not_a_correlation_that_is_gone() -> None:
    async def story(scene: StreamScenario) -> None:
        async with scene.hub.open(ADDRESS, WAIT_FORMAT) as channel:
            await settle()
            scene.pool.broken = RuntimeError("a mistake of ours")
            scene.callback("a")
            with pytest.raises(UnavailableError):
                await channel.ended_within(20.0)

    run_scenario(story)


def test_a_correlation_that_is_gone_has_no_end_and_nobody_waits_for_it() -> None:
    async def story(scene: StreamScenario) -> None:
        async with scene.hub.open(ADDRESS, WAIT_FORMAT) as channel:
            await settle()
            scene.pool.wait = None
            scene.watches[0].wake()
            await channel.ended_within(20.0)
            assert channel.result is None

    run_scenario(story)
