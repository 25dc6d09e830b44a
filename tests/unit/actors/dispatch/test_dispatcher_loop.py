"""A pool's rounds: nothing is lost, nothing spins, nothing waits for ever."""

import asyncio

import pytest

from actors.dispatch.start_queue import PoolLimits
from core.dispatch.attempt import DeliveryAttempt
from core.dispatch.claim import ClaimedJob
from core.dispatch.job import JobKey, JobStatus, Mode, QueueState
from tests.unit.actors.dispatch.dispatcher_fixtures import NO, OK, PoolScenario, later, run_scenario
from tests.unit.actors.dispatch.job_table import BLOCK, NEXT, A, B, FakeJobRow, clock, jobs

# Delivering.


def test_everything_is_sent_once_as_wide_as_allowed() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.post(*jobs(range(1, 201)))
        scene.postgres.store(*jobs(range(201, 401)))  # nobody told the pool
        await scene.done()

    scene = run_scenario(story)
    assert sorted(scene.sent) == sorted(f"j{at}" for at in range(1, 401))
    assert scene.most[""] == 10
    assert scene.job_finished.count(("j7", JobStatus.COMPLETED)) == 1
    assert scene.end["completed"] == 400
    assert scene.end["buffered"] == 0


def test_a_group_larger_than_its_share_of_the_board_goes_in_order_without_a_pause() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.postgres.latency["read_groups"] = 0.05  # its jobs go on while it is read
        scene.postgres.store(*jobs(range(1, 501), group="g", mode=BLOCK))
        took = await scene.done()
        assert took < 500 * 0.03

    assert run_scenario(story).sent == [f"j{at}" for at in range(1, 501)]


def test_a_board_smaller_than_the_backlog_is_filled_again_and_again() -> None:
    async def story(scene: PoolScenario) -> None:
        for at in range(1, 1001):
            scene.postgres.store(
                FakeJobRow(at, group=f"g{at % 7}", mode=BLOCK, target=(A, B)[at % 2])
            )
        await scene.done()

    scene = run_scenario(story, limit=20)
    for group in range(7):
        own = [one for one in scene.sent if int(one[1:]) % 7 == group]
        assert own == sorted(own, key=lambda one: int(one[1:]))
    assert len(scene.sent) == 1_000


def test_a_board_of_one_job_does_not_read_for_nothing() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.takes = 5.0
        scene.post(*jobs(range(1, 4)))
        await asyncio.sleep(4)
        assert scene.postgres.calls["scan"] < 10
        await scene.done()

    assert len(run_scenario(story, limit=1).sent) == 3


def test_what_is_handed_over_late_is_not_sent_again() -> None:
    async def story(scene: PoolScenario) -> None:
        rows = jobs(range(1, 21), group="g", mode=BLOCK)
        pointers = scene.postgres.store(*rows)
        await scene.done()
        scene.dispatcher.offer(pointers)
        scene.post(FakeJobRow(21, group="g", mode=BLOCK))
        assert await scene.done() < 1.0
        await scene.until(lambda: len(scene.scheduler) == 0, 1.0)

    assert len(run_scenario(story).sent) == 21


def test_reads_that_jobs_overtake_hold_no_group() -> None:
    """A look at the wrong moment sees a job under way that has ended when it is told of it."""

    async def story(scene: PoolScenario) -> None:
        scene.postgres.latency["scan"] = 0.04

        async def post() -> None:
            for at in range(0, 1_000, 5):
                scene.post(
                    *(FakeJobRow(at + own, group=f"g{own}", mode=BLOCK) for own in range(1, 6))
                )
                await asyncio.sleep(0.0337)

        posting = asyncio.create_task(post())
        while not posting.done():
            await scene.rescan()
        assert await scene.done() < 1.0

    run_scenario(story)


# Failures.


@pytest.mark.parametrize("mode", [BLOCK, NEXT])
def test_groups_keep_their_order_whatever_fails(mode: Mode) -> None:
    async def story(scene: PoolScenario) -> None:
        tries: dict[str, int] = {}

        def answer(job: ClaimedJob) -> DeliveryAttempt:
            name = job.job_id
            tries[name] = tries.get(name, 0) + 1
            return OK if tries[name] > int(name[1:]) % 3 else later(1.0)

        scene.scripts[A] = answer
        scene.post(*(FakeJobRow(at, group=f"g{at % 4}", mode=mode) for at in range(1, 81)))
        await scene.done(300)

    scene = run_scenario(story)
    assert len(scene.sent) == sum(1 + at % 3 for at in range(1, 81))
    if mode is BLOCK:
        for group in range(4):
            own = [int(one[1:]) for one in scene.sent if int(one[1:]) % 4 == group]
            assert own == sorted(own)


def test_a_failed_job_holds_its_group_until_a_person_has_seen_to_it() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.scripts[A] = lambda job: NO if job.job_id == "j1" else OK
        scene.post(*jobs((1, 3), group="g", mode=BLOCK), *jobs((2, 4), group="h", mode=BLOCK))
        await scene.until(lambda: len(scene.sent) == 3)
        await asyncio.sleep(10)
        assert sorted(scene.sent) == ["j1", "j2", "j4"]
        assert scene.dispatcher.snapshot()["blocked_groups"] == 1
        scene.postgres.rows[JobKey(1, "j1")].standing = QueueState.DONE
        assert await scene.done() <= 3.0

    assert run_scenario(story).sent[3:] == ["j3"]


def test_any_of_many_failed_groups_is_freed() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.scripts[A] = lambda job: NO if int(job.job_id[1:]) <= 1_000 else OK
        for at in range(1, 1_001):
            scene.postgres.store(FakeJobRow(at, group=f"g{at}", mode=BLOCK))
            scene.postgres.store(FakeJobRow(1_000 + at, group=f"g{at}", mode=BLOCK))
        await scene.until(lambda: len(scene.sent) == 1_000)
        await asyncio.sleep(5)
        row = scene.postgres.rows[JobKey(1, "j1000")]
        row.standing = QueueState.DONE
        await scene.until(lambda: len(scene.sent) == 1_001, 3.0)
        row = scene.postgres.rows[JobKey(1, "j500")]
        row.status, row.standing = JobStatus.PENDING, QueueState.UNCLAIMED
        scene.scripts.clear()
        await scene.until(lambda: len(scene.sent) == 1_003, 3.0)

    assert run_scenario(story).sent[1_000:] == ["j2000", "j500", "j1500"]


def test_a_job_put_off_for_long_is_sent_when_somebody_asks_for_it() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.scripts[A] = lambda _: later(40_000)
        scene.post(FakeJobRow(1), FakeJobRow(2, group="g", mode=BLOCK))
        await scene.until(lambda: len(scene.sent) == 2)
        await asyncio.sleep(1)
        scene.scripts.clear()
        for row in scene.postgres.rows.values():
            row.status, row.standing = JobStatus.PENDING, QueueState.UNCLAIMED
            row.scheduled_for = 0.0
        await scene.done(3.0)

    run_scenario(story)


def test_a_send_that_crashes_and_a_listener_that_breaks_do_not_break_the_pool() -> None:
    async def story(scene: PoolScenario) -> None:
        def crash(_: ClaimedJob) -> DeliveryAttempt:
            raise RuntimeError("a bug")

        scene.scripts[A] = crash
        scene.post(*jobs(range(1, 4)), *jobs(range(4, 8), target=B))
        await scene.done()

    scene = run_scenario(story, listens=False)
    assert scene.postgres.statuses() == {"ERROR": 3, "COMPLETED": 4}
    assert len(scene.sent) == 3 * 3 + 4


def test_expired_jobs_are_not_sent_and_cost_no_start() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.post(*jobs(range(1, 101), expires_at=clock() - 1))
        scene.post(*jobs(range(101, 103)))
        await scene.done(5.0)

    scene = run_scenario(story, limits=PoolLimits(10, 2))
    assert sorted(scene.sent) == ["j101", "j102"]
    assert scene.end["expired"] == 100


def test_jobs_that_nobody_wants_any_more_are_cancelled_and_cost_no_start() -> None:
    async def story(scene: PoolScenario) -> None:
        gone = jobs(range(1, 101), group="g", mode=BLOCK, subscription_id="sub_gone")
        scene.post(*gone, *jobs((101, 102), group="g", mode=BLOCK))
        await scene.done(5.0)

    scene = run_scenario(story, limits=PoolLimits(10, 2))
    assert scene.sent == ["j101", "j102"]
    assert scene.postgres.statuses() == {"CANCELLED": 100, "COMPLETED": 2}


def test_no_more_is_held_at_once_than_there_is_memory_for() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.takes = 0.2
        scene.post(*jobs(range(1, 41), size=300), *jobs(range(41, 51), size=5_000))
        scene.post(*jobs(range(51, 61), size=0, target=B))
        await scene.done(200.0)
        assert scene.dispatcher._start_queue.bytes == 0

    scene = run_scenario(story, max_bytes=1_000, limits=PoolLimits(50))
    assert scene.most[""] <= 4 + 10
    assert len(set(scene.sent)) == 60
    assert scene.rounds < 2_000
