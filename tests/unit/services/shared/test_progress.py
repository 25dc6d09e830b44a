"""Work that waits and does not get done is measured; nothing else is."""

import asyncio

import pytest

from actors.runtime.actor import Actor, ActorEnvironment
from core.shared.config import Config
from core.shared.errors import UnavailableError
from services.shared.progress import FORGET_AFTER, WorkProgress
from tests.support.happenings import event
from tests.unit.actors.dispatch.dispatcher_fixtures import PoolScenario, run_scenario
from tests.unit.actors.dispatch.job_table import jobs
from tests.unit.services.events.writer_fixtures import WriterFixture


class Clock:
    """Time that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_who_has_nothing_to_do_is_not_stalled() -> None:
    clock = Clock()
    progress = WorkProgress(clock)
    clock.now += 1_000
    assert progress.stalled_seconds == 0.0
    progress.waits()
    progress.done()
    clock.now += 1_000
    assert progress.stalled_seconds == 0.0


def test_trying_again_is_no_progress() -> None:
    clock = Clock()
    progress = WorkProgress(clock)
    for _ in range(5):
        progress.waits()
        clock.now += 10
    assert progress.stalled_seconds == 50.0


def test_who_is_busy_is_not_stalled() -> None:
    clock = Clock()
    progress = WorkProgress(clock)
    for _ in range(100):
        progress.waits()
        clock.now += 1
        assert progress.stalled_seconds == 1.0
        progress.done()


def test_callers_who_give_up_and_come_again_see_one_stall() -> None:
    clock = Clock()
    progress = WorkProgress(clock)
    for _ in range(3):
        progress.waits()
        clock.now += 10
        progress.given_up()
        clock.now += 1
    assert progress.stalled_seconds == 33.0


def test_when_nobody_comes_again_the_stall_is_over() -> None:
    """Or a replica that nobody asks any more, because it said so, would never be asked again."""
    clock = Clock()
    progress = WorkProgress(clock)
    progress.given_up()
    progress.waits()
    clock.now += 30
    progress.given_up()
    assert progress.stalled_seconds == 30.0
    clock.now += FORGET_AFTER + 1
    assert progress.stalled_seconds == 0.0
    progress.waits()
    clock.now += 2
    assert progress.stalled_seconds == 2.0


async def test_a_process_tells_of_its_start_and_its_rounds() -> None:
    clock = Clock()
    begin, rounds = asyncio.Event(), asyncio.Semaphore(0)

    class SlowActor(Actor):
        async def _start(self) -> None:
            await begin.wait()

    process = SlowActor("timer", Config(dsn=""), ActorEnvironment(clock))
    assert process._describe()["stalled"] == {}

    async def work() -> None:
        rounds.release()
        if clock.now > 150:
            raise ConnectionError

    starting = process._begin()
    assert process._begin() is starting
    clock.now += 30
    assert process._describe()["stalled"] == {"start": 30.0}
    begin.set()
    await starting
    await asyncio.sleep(0)
    process._every(0.001, work, "look")
    await rounds.acquire()
    await rounds.acquire()
    assert process._describe()["stalled"]["start"] == 0.0
    assert process._describe()["stalled"]["look"] == 0.0
    clock.now += 100
    for _ in range(3):
        await rounds.acquire()
    clock.now += 100
    await rounds.acquire()
    assert process._describe()["stalled"]["look"] > 90
    process._measure("flush", lambda: 7.0)
    assert process._describe()["stalled"]["flush"] == 7.0
    await process._close()


async def test_a_writer_that_stores_nothing_is_stalled_until_it_does() -> None:
    """Also if each of its callers gives up before."""
    desk = WriterFixture(patience=0.05, max_pause=0.01)
    clock = Clock()
    desk.writer.progress = WorkProgress(clock)
    desk.table.before = [ConnectionError() for _ in range(1_000)]
    for _ in range(3):
        with pytest.raises(UnavailableError):
            await desk.writer.put([event()])
        clock.now += 4
    assert desk.writer.progress.stalled_seconds == 12.0
    desk.table.before = []
    await desk.writer.put([event()])
    assert desk.writer.progress.stalled_seconds == 0.0


def test_a_dispatch_pool_without_answers_from_postgres_is_stalled_until_it_has_them() -> None:
    stalls: list[tuple[bool, bool]] = []

    async def story(scene: PoolScenario) -> None:
        dispatcher = scene.dispatcher

        def look() -> None:
            claiming, writing = dispatcher.claiming, dispatcher.writing
            stalls.append((claiming.stalled_seconds > 20, writing.stalled_seconds > 20))

        look()
        scene.postgres.latency["claim"] = 30.0
        scene.post(*jobs(range(1, 3)))
        await asyncio.sleep(25)
        look()
        scene.postgres.latency["claim"] = 0.0
        scene.postgres.latency["finish"] = 30.0
        await asyncio.sleep(30)
        look()
        scene.postgres.latency["finish"] = 0.0
        await scene.done()
        look()

    run_scenario(story)
    assert stalls == [(False, False), (True, False), (False, True), (False, False)]
