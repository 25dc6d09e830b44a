"""Streams: everything once and in order, for however many readers. Time is simulated."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serve_app.http.sse import FROM_START, HEARTBEAT_FRAME, OPENING_FRAME
from tests.unit.serve_app.streams.hub_fixtures import (
    HEARTBEAT,
    Reader,
    StreamScenario,
    clock,
    run_scenario,
    settle,
)


@pytest.fixture
def short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A channel that remembers about a line, and reads about as much at once."""
    monkeypatch.setattr("serve_app.streams.hub.READ_AHEAD_BYTES", 100)


def test_a_reader_gets_the_story_as_it_happens_and_then_the_end() -> None:
    async def story(scene: StreamScenario) -> None:
        reader = scene.read()
        await settle()
        assert reader.kinds == ["registered"]
        scene.callback("a")
        await settle()
        assert reader.kinds == ["registered", "received"]
        scene.event("b")
        await reader.task
        assert reader.kinds == ["registered", "received", "received", "ended"]
        assert reader.ids == [0, 1, 2, 3]
        assert reader.chunks[0] == OPENING_FRAME
        assert clock() == 1_000.0, "nothing had to be waited for"

    run_scenario(story)


def test_a_reader_that_comes_late_gets_all_of_it_at_once() -> None:
    async def story(scene: StreamScenario) -> None:
        scene.callback("a")
        scene.event("b")
        for cursor in range(-1, 4):
            reader = scene.read(cursor)
            await reader.task
            assert reader.ids == [number for number in range(4) if number > cursor]

    run_scenario(story)


def test_many_readers_share_one_reading() -> None:
    async def questions(readers: int, scene: StreamScenario) -> int:
        reading = [scene.read() for _ in range(readers)]
        await settle()
        scene.callback("a")
        await settle()
        scene.event("b")
        await asyncio.gather(*(reader.task for reader in reading))
        assert {tuple(reader.ids) for reader in reading} == {(0, 1, 2, 3)}
        return scene.pool.asked

    async def story(scene: StreamScenario) -> None:
        one, many = await questions(1, scene), await questions(50, StreamScenario())
        assert many == one

    run_scenario(story)


def test_the_end_closes_all_at_whatever_number_they_are() -> None:
    async def story(scene: StreamScenario) -> None:
        scene.callback("a")
        readers = [scene.read(cursor) for cursor in (-1, 0, 1, 2, 99)]
        await settle()
        assert not any(reader.is_done for reader in readers)
        scene.cancel()
        await asyncio.gather(*(reader.task for reader in readers))
        assert [reader.ids for reader in readers] == [[0, 1, 2], [1, 2], [2], [], []]

    run_scenario(story)


@pytest.mark.usefixtures("short_memory")
def test_a_reader_far_behind_catches_up_from_the_log() -> None:
    async def story(scene: StreamScenario) -> None:
        slow, quick = scene.read(pause=100.0), scene.read()
        await settle()
        for number in range(20):
            scene.callback(f"c{number}", size=60)
            await settle()
        assert quick.ids == list(range(21))
        assert slow.ids == []
        asked = scene.pool.asked
        await asyncio.sleep(100.0 * 30)
        assert slow.ids == list(range(21))
        assert scene.pool.asked > asked
        scene.cancel()
        await asyncio.gather(slow.task, quick.task)
        assert slow.ids == quick.ids == list(range(22))

    run_scenario(story)


@pytest.mark.usefixtures("short_memory")
def test_what_a_channel_remembers_does_not_grow() -> None:
    async def story(scene: StreamScenario) -> None:
        reader = scene.read()
        for number in range(100):
            scene.callback(f"c{number}", size=60)
            await settle()
        assert reader.ids == list(range(101))
        assert reader.channel is not None
        assert len(reader.channel._frames) <= 2
        scene.cancel()
        await reader.task

    run_scenario(story)


@pytest.mark.usefixtures("short_memory")
@pytest.mark.parametrize("late", [0, 1, 2, 50])
@pytest.mark.parametrize("size", [10, 99, 100, 101, 500])
def test_an_end_with_any_number_of_late_lines_behind_it_is_an_end(late: int, size: int) -> None:
    async def story(scene: StreamScenario) -> None:
        scene.callback("a", size)
        scene.callback("again", size)
        scene.cancel()
        for number in range(late):
            scene.callback(f"late-{number}", size)
        for cursor in range(-1, 3):
            reader = scene.read(cursor)
            await asyncio.wait_for(reader.task, 1)
            assert reader.ids == [number for number in range(4) if number > cursor]
            assert reader.kinds[-1] == "ended"

    run_scenario(story)


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("callback"), st.integers(2, 150)),
        st.tuples(st.just("sleep"), st.integers(0, 40)),
        st.tuples(st.just("read"), st.integers(-1, 6)),
        st.tuples(st.just("slow"), st.integers(0, 30)),
        st.tuples(st.just("database"), st.integers(0, 3)),
        st.tuples(st.just("leave"), st.integers(0, 5)),
    ),
    max_size=25,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_steps, st.sampled_from(("cancel", "complete")), st.integers(0, 3))
@pytest.mark.usefixtures("short_memory")
def test_nothing_twice_and_nothing_missing_however_it_comes_together(
    steps: list[tuple[str, int]], end: str, late: int
) -> None:
    async def story(scene: StreamScenario) -> None:
        readers: list[Reader] = [scene.read()]
        for index, (step, number) in enumerate(steps):
            await _step(scene, readers, index, step, number)
        scene.event("order")
        if end == "cancel":
            scene.cancel()
        else:
            scene.callback("last")
        if scene.pool.wait is None or scene.pool.wait.ending is None:
            scene.cancel()
        for number in range(late):
            scene.callback(f"late-{number}", 70)
        readers.append(scene.read())
        staying = [reader for reader in readers if not reader.task.cancelled()]
        await asyncio.wait_for(asyncio.gather(*(reader.task for reader in staying)), 10_000)
        assert scene.pool.wait is not None
        assert scene.pool.wait.ending is not None
        last = scene.pool.wait.ending.seq
        for reader in staying:
            assert reader.ids == list(range(reader.cursor + 1, last + 1))
        assert scene.hub.readers == 0

    run_scenario(story)


async def _step(
    scene: StreamScenario, readers: list[Reader], index: int, step: str, number: int
) -> None:
    match step:
        case "callback":
            scene.callback(f"c{index}", number)
        case "sleep":
            await asyncio.sleep(number)
        case "read":
            readers.append(scene.read(min(number, len(scene.pool.entries))))
        case "slow":
            readers.append(scene.read(pause=float(number)))
        case "database":
            scene.pool.lasts = number / 2
        case _:
            await readers[number % len(readers)].leave()


# Beats.


def test_a_quiet_stream_beats_for_every_reader() -> None:
    async def story(scene: StreamScenario) -> None:
        readers = [scene.read() for _ in range(3)]
        await asyncio.sleep(HEARTBEAT * 3 + 1)
        assert all(
            reader.beats == [1_000.0 + HEARTBEAT * n for n in (1, 2, 3)] for reader in readers
        )
        scene.cancel()
        await asyncio.gather(*(reader.task for reader in readers))
        assert all(reader.chunks.count(HEARTBEAT_FRAME) == 3 for reader in readers)

    run_scenario(story)


def test_a_stream_on_which_something_happens_needs_no_beat() -> None:
    async def story(scene: StreamScenario) -> None:
        reader = scene.read()
        for number in range(10):
            await asyncio.sleep(HEARTBEAT - 1)
            scene.callback(f"c{number}")
        await settle()
        assert (reader.beats, len(reader.ids)) == ([], 11)
        scene.cancel()
        await reader.task

    run_scenario(story)


def test_a_change_that_nobody_heard_of_is_found_with_the_next_beat() -> None:
    async def story(scene: StreamScenario) -> None:
        reader = scene.read()
        await settle()
        watches, scene.watches = scene.watches, []
        scene.callback("a")
        scene.watches = watches
        await asyncio.sleep(HEARTBEAT + 1)
        assert reader.ids == [0, 1]
        scene.cancel()
        await reader.task

    run_scenario(story)


# Trouble.


@pytest.mark.usefixtures("short_memory")
def test_while_the_database_is_away_streams_beat_and_then_go_on() -> None:
    async def story(scene: StreamScenario) -> None:
        reader, slow = scene.read(), scene.read(pause=10.0)
        await settle()
        for number in range(5):
            scene.callback(f"c{number}", 60)
            await settle()
        scene.pool.broken = ConnectionRefusedError()
        scene.callback("unseen", 60)
        await asyncio.sleep(5 * HEARTBEAT)
        assert reader.ids == [0, 1, 2, 3, 4, 5]
        for one in (reader, slow):
            assert not one.is_done
            assert len([at for at in one.beats if at > 1_000.0 + HEARTBEAT]) > 3
        scene.pool.broken = None
        await asyncio.sleep(2)
        assert reader.ids == [0, 1, 2, 3, 4, 5, 6]
        scene.cancel()
        await asyncio.gather(reader.task, slow.task)
        assert reader.ids == slow.ids == list(range(8))

    run_scenario(story)


def test_a_database_that_hangs_is_one_that_is_away() -> None:
    async def story(scene: StreamScenario) -> None:
        scene.pool.lasts = 10_000.0
        reader = scene.read()
        await asyncio.sleep(100)
        assert (reader.ids, reader.is_done) == ([], False)
        assert reader.beats
        scene.pool.lasts = 0.0
        await asyncio.sleep(scene.config.request_timeout + 2)
        assert reader.ids == [0]
        scene.cancel()
        await reader.task

    run_scenario(story)


@pytest.mark.usefixtures("short_memory")
def test_a_correlation_that_is_forgotten_closes_its_streams() -> None:
    async def story(scene: StreamScenario) -> None:
        reader, slow = scene.read(), scene.read(pause=100.0)
        for number in range(5):
            scene.callback(f"c{number}", 60)
            await settle()
        scene.pool.wait = None
        await asyncio.wait_for(asyncio.gather(reader.task, slow.task), 1_000)
        assert reader.ids == list(range(6))

    run_scenario(story)


@pytest.mark.usefixtures("short_memory")
def test_a_mistake_closes_the_streams_so_that_readers_come_back() -> None:
    """To wait for what will never come would be worse."""

    async def story(scene: StreamScenario) -> None:
        readers = [scene.read(), scene.read(), scene.read(pause=10.0)]
        for number in range(5):
            scene.callback(f"c{number}", 60)
            await settle()
        scene.pool.broken = ZeroDivisionError("a mistake of ours")
        scene.callback("unseen")
        closing = asyncio.gather(*(reader.task for reader in readers), return_exceptions=True)
        await asyncio.wait_for(closing, 100)
        scene.pool.broken = None
        scene.cancel()
        for reader in readers:
            again = scene.read(reader.ids[-1] if reader.ids else FROM_START)
            await again.task
            assert reader.ids + again.ids == list(range(8))

    run_scenario(story)
