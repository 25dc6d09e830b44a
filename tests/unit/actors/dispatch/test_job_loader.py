"""What a reader asks for, what it makes of the answers, and where it goes on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from actors.dispatch import job_loader as module
from actors.dispatch.job_loader import RECENT_SECONDS, REREAD_DELAY, JobLoader
from actors.dispatch.result_writer import BATCH_SIZE, ResultWriter
from core.dispatch.attempt import JobTransition
from core.dispatch.job import GroupKey, JobKey, JobStatus, QueueState
from core.dispatch.scheduler import JobScheduler
from storage.dispatch.job_queue import JobResult
from tests.simulation.clockwork import simulate
from tests.support.deliveries import task
from tests.unit.actors.dispatch.dispatcher_fixtures import OK
from tests.unit.actors.dispatch.job_table import BLOCK, A, FakeJobQueue, FakeJobRow, clock, jobs

GROUP = GroupKey(1, "g")


class Scene:
    """A reader without anybody who takes jobs off its board."""

    def __init__(self, limit: int = 100) -> None:
        self.postgres, self.scheduler = FakeJobQueue(), JobScheduler()
        self.reader = JobLoader(self.postgres, self.scheduler, limit, clock, clock)

    def knows(self, *numbers: int) -> bool:
        return all(JobKey(1, f"j{at}") in self.scheduler for at in numbers)

    async def read_all(self) -> None:
        while await self.reader.read_next_page():
            pass

    def take(self) -> JobKey:
        taken = self.scheduler.take(clock(), lambda _: True)
        assert taken is not None
        return taken.key

    def end(self, key: JobKey) -> None:
        self.postgres.rows[key].standing = QueueState.DONE
        self.scheduler.finish(key, clock())


def play(story: Callable[[Scene], Awaitable[None]], limit: int = 100) -> None:
    async def run() -> None:
        await story(Scene(limit))

    with capture_logs():
        simulate(run())


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 10)


def test_after_a_start_everything_is_read_page_by_page() -> None:
    async def story(scene: Scene) -> None:
        scene.postgres.store(*jobs(range(1, 36)))
        assert scene.reader.is_behind
        await scene.read_all()
        assert not scene.reader.is_behind
        assert scene.postgres.calls["scan"] == 4
        assert scene.knows(*range(1, 36))

    play(story)


def test_what_is_past_its_time_leaves_the_board_and_its_group_goes_on() -> None:
    async def story(scene: Scene) -> None:
        rows = [*jobs(range(1, 36), group="g", mode=BLOCK)]
        for row in rows[:25]:
            row.expires_at = clock() + 5
        rows[0].scheduled_for = clock() + 60
        scene.reader.offer(scene.postgres.store(*rows))
        await scene.read_all()
        assert await scene.reader.expire() == 0
        await asyncio.sleep(6)
        assert await scene.reader.expire() == 25
        assert scene.postgres.calls["expire"] == 1 + 3, "a page at a time"
        await scene.reader.settle(scene.scheduler.stale_groups(10))
        assert not scene.knows(1)
        assert scene.take() == JobKey(1, "j26")

    play(story)


def test_what_is_past_its_time_is_ended_in_bounded_portions() -> None:
    async def story(scene: Scene) -> None:
        rows = [*jobs(range(1, 81))]
        for row in rows:
            row.expires_at = clock() + 1
        scene.postgres.store(*rows)
        await asyncio.sleep(2)
        assert await scene.reader.expire() == module.PAGES_AT_ONCE * module.PAGE
        assert await scene.reader.expire() == 30

    play(story)


def test_what_finds_no_room_is_read_when_there_is_room() -> None:
    async def story(scene: Scene) -> None:
        await scene.read_all()
        scene.reader.offer(scene.postgres.store(*jobs(range(1, 31))))
        assert scene.reader.is_behind
        assert len(scene.scheduler) == 20
        assert not await scene.reader.read_next_page()
        for _ in range(10):
            scene.end(scene.take())
        await scene.read_all()
        assert scene.knows(*range(11, 31))

    play(story, limit=20)


def test_a_look_finds_what_nobody_handed_over_and_forgets_nothing_it_has_no_room_for() -> None:
    async def story(scene: Scene) -> None:
        await scene.read_all()
        await scene.reader.rescan()
        scene.postgres.store(*jobs(range(1, 6)))
        await scene.reader.rescan()
        assert scene.knows(*range(1, 6))
        scene.postgres.store(*jobs(range(6, 10)))
        await scene.reader.rescan()  # two of these find no room
        assert scene.reader.is_behind
        await asyncio.sleep(10 * RECENT_SECONDS)
        while len(scene.scheduler):
            scene.end(scene.take())
        await scene.read_all()
        assert scene.knows(8, 9)

    play(story, limit=7)


def test_rows_that_come_to_light_late_are_found() -> None:
    async def story(scene: Scene) -> None:
        await scene.read_all()
        for at in range(10, 100, 10):
            await scene.reader.rescan()
            scene.postgres.store(FakeJobRow(at))
            await asyncio.sleep(2)
        await scene.reader.rescan()
        scene.postgres.store(FakeJobRow(55))  # committed some seconds late
        await scene.reader.rescan()
        assert scene.knows(55, *range(10, 100, 10))
        assert len(scene.reader._trail) <= RECENT_SECONDS / 2 + 3

    play(story)


def test_more_than_a_page_of_late_is_read_page_by_page() -> None:
    async def story(scene: Scene) -> None:
        await scene.read_all()
        scene.postgres.store(*jobs(range(1, 31)))
        await scene.reader.rescan()
        assert scene.reader.is_behind
        await scene.read_all()
        assert scene.knows(*range(1, 31))

    play(story)


def test_what_falls_further_behind_during_a_read_is_read_after_it() -> None:
    async def story(scene: Scene) -> None:
        scene.postgres.store(*jobs(range(10, 14)))
        await scene.reader.read_next_page()
        assert not scene.reader.is_behind
        scene.reader._fall_behind(20)
        reading = asyncio.create_task(scene.reader.read_next_page())
        await asyncio.sleep(0)
        scene.reader.offer(scene.postgres.store(*jobs(range(1, 6))))  # three find room
        await reading
        assert scene.reader.is_behind
        while len(scene.scheduler):
            scene.end(scene.take())
        await scene.read_all()
        assert scene.knows(4, 5)

    play(story, limit=7)


def test_what_ends_while_it_is_read_does_not_come_back() -> None:
    async def story(scene: Scene) -> None:
        scene.postgres.store(*jobs((1, 2), group="g", mode=BLOCK), FakeJobRow(3))
        await scene.read_all()
        await scene.reader.rescan()
        keys = [scene.take(), scene.take()]
        for read in (
            scene.reader.rescan(),
            scene.reader.settle([GROUP]),
            scene.reader.find([JobKey(1, "j3")]),
        ):
            reading = asyncio.create_task(read)
            await asyncio.sleep(0.003)
            if keys:
                scene.scheduler.finish(keys.pop(), clock())
            await reading
        assert scene.knows(2)
        scene.postgres.rows[JobKey(1, "j1")].standing = QueueState.DONE

    play(story)


def test_everything_is_read_again_after_a_while_and_sooner_after_some_was_let_go() -> None:
    async def story(scene: Scene) -> None:
        scene.postgres.store(*jobs(range(10, 15)))
        await scene.read_all()
        scene.scheduler.evict(clock(), clock(), 0, lambda _: True)
        assert len(scene.scheduler) == 5
        await asyncio.sleep(800)
        await scene.reader.rescan()
        assert not scene.reader.is_behind
        await asyncio.sleep(101)
        await scene.reader.rescan()
        assert scene.reader.is_behind
        await scene.read_all()
        scene.reader.reread_later()
        await scene.reader.rescan()
        assert not scene.reader.is_behind
        await asyncio.sleep(REREAD_DELAY)
        await scene.reader.rescan()
        assert scene.reader.is_behind

    play(story)


def test_groups_that_no_pool_has_are_read_whole() -> None:
    async def story(scene: Scene) -> None:
        await scene.read_all()
        scene.postgres.store(*jobs(range(1, 5), group="g", mode=BLOCK), FakeJobRow(5))
        for at in (2, 5):
            row = scene.postgres.rows[JobKey(1, f"j{at}")]
            row.status, row.standing = JobStatus.PENDING, QueueState.UNCLAIMED
        await scene.reader._read_unclaimed()
        assert scene.knows(5)
        assert scene.scheduler.stale_groups(10) == [GROUP]
        await scene.reader.settle([GROUP])
        assert scene.knows(1, 2, 3, 4)
        await scene.reader._read_unclaimed()
        assert scene.scheduler.stale_groups(10) == []

    play(story)


def test_what_no_pool_has_is_looked_at_in_turn() -> None:
    async def story(scene: Scene) -> None:
        again = {"status": JobStatus.PENDING, "standing": QueueState.UNCLAIMED}
        scene.postgres.store(*jobs(range(1, 101), **again))
        await scene.reader._read_unclaimed()
        assert len(scene.scheduler) == 50
        await scene.reader._read_unclaimed()
        assert len(scene.scheduler) == 70  # there is no more room
        for _ in range(50):
            scene.end(scene.take())
        await scene.reader._read_unclaimed()
        assert scene.knows(*range(51, 101))
        await scene.reader._read_unclaimed()
        assert scene.postgres.calls["again"] < 20

    play(story, limit=70)


# Writing.


def result(at: int) -> JobResult:
    step = JobTransition(status=JobStatus.COMPLETED, attempt_count=1, attempt_number=1)
    return JobResult(JobKey(1, f"j{at}"), 1, step, OK)


def written(
    count: int, finish: Callable[[list[JobResult]], None]
) -> tuple[list[int], list[tuple[str, bool]]]:
    """Let a scribe write so many; the size of each statement, and what was told of each."""
    sizes: list[int] = []
    told: list[tuple[str, bool]] = []

    async def run() -> None:
        async def write(results: Any) -> dict[JobKey, float]:
            sizes.append(len(results))
            await asyncio.sleep(0.001)
            finish(results)
            return {one.key: 0.0 for one in results}

        def hear(outcomes: Any, kept: dict[JobKey, float]) -> None:
            told.extend((one.key.job_id, one.key in kept) for _, one in outcomes)

        scribe = ResultWriter(write, hear, lambda: 0.5)
        for at in range(count):
            scribe.add(task(A), result(at))
        assert len(scribe) == count
        await asyncio.sleep(10)
        assert len(scribe) == 0
        await scribe.close()

    with capture_logs():
        simulate(run())
    return sizes, told


def test_results_are_written_together_and_in_order() -> None:
    sizes, told = written(2_500, lambda _: None)
    assert sizes == [BATCH_SIZE, BATCH_SIZE, 500]
    assert told == [(f"j{at}", True) for at in range(2_500)]


def test_results_wait_for_postgres() -> None:
    tries = iter(range(5))

    def finish(_: list[JobResult]) -> None:
        if next(tries, None) is not None:
            raise ConnectionRefusedError

    sizes, told = written(10, finish)
    assert sizes == [10] * 6
    assert len(told) == 10


def test_one_that_cannot_be_written_is_told_as_lost_and_the_others_are_written() -> None:
    def finish(results: list[JobResult]) -> None:
        if any(one.key.job_id == "j37" for one in results):
            raise ValueError("no such letter")

    sizes, told = written(100, finish)
    assert dict(told) == {f"j{at}": at != 37 for at in range(100)}
    assert len(told) == 100
    assert len(sizes) < 25


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.ReadOnlySQLTransactionError("a standby"),
        asyncpg.UndefinedColumnError("renamed"),
        asyncpg.InsufficientPrivilegeError("revoked"),
        asyncpg.TargetServerAttributeNotMatched("no writable server"),
        asyncpg.QueryCanceledError("statement timeout"),
    ],
)
def test_what_was_delivered_is_kept_while_the_server_is_in_trouble(error: Exception) -> None:
    tries = iter(range(10))

    def finish(_: list[JobResult]) -> None:
        if next(tries, None) is not None:
            raise error

    sizes, told = written(100, finish)
    assert told == [(f"j{at}", True) for at in range(100)]
    is_slow = isinstance(error, asyncpg.QueryCanceledError)
    assert sizes[:3] == ([100, 50, 25] if is_slow else [100, 100, 100])
