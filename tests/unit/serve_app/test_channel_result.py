"""Who waits for an end gets it from the channel, with all that counts. Time is simulated."""

import asyncio

import pytest

from serve_app.stories import frames_of_wait
from serve_app.wire.mapper import payloads_of
from tests.unit.serve_app.channel_world import Scene, play
from tests.unit.serve_app.world import ADDRESS


@pytest.mark.parametrize("size", [2, 500])
def test_an_end_comes_with_all_that_counts(monkeypatch: pytest.MonkeyPatch, *, size: int) -> None:
    monkeypatch.setattr("serve_app.channels.READ_AHEAD", 100)  # a long story is read in parts

    async def story(scene: Scene) -> None:
        async with scene.hub.open(ADDRESS, "wait", frames_of_wait) as channel:
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

    play(story)


def test_without_a_correlation_there_is_no_end() -> None:
    async def story(scene: Scene) -> None:
        async with scene.hub.open(ADDRESS, "wait", frames_of_wait) as channel:
            await asyncio.sleep(1)
            scene.pool.wait = None
            for watch in scene.watches:
                watch.wake()
            await channel.ended()
            assert channel.result is None

    play(story)
