"""A pool that cannot send: it does not spin, and it does not keep others from going."""

import asyncio

import pytest

from actors.dispatch.start_queue import PoolLimits
from core.dispatch.job import GroupKey, JobKey, JobStatus, QueueState
from tests.unit.actors.dispatch.dispatcher_fixtures import (
    BAD,
    NO,
    OK,
    PoolScenario,
    later,
    run_scenario,
)
from tests.unit.actors.dispatch.job_table import BLOCK, A, B, FakeJobRow, clock, jobs

# Rounds that lead nowhere.


@pytest.mark.parametrize("rate", [None, 600])
def test_a_suspended_pool_sleeps(rate: int | None) -> None:
    async def story(scene: PoolScenario) -> None:
        scene.post(*jobs(range(1, 11)), *jobs(range(11, 21), scheduled_for=clock() + 5))
        await asyncio.sleep(60)
        assert scene.rounds < 100
        assert scene.sent == []
        scene.dispatcher.set_limits(PoolLimits(10, rate))
        await scene.done(5.0)

    run_scenario(story, limits=PoolLimits(10, rate, is_active=False))


@pytest.mark.parametrize("rate", [None, 600])
def test_a_pool_whose_places_are_all_taken_sleeps(rate: int | None) -> None:
    async def story(scene: PoolScenario) -> None:
        scene.takes = 25.0
        scene.post(*jobs(range(1, 11)), *jobs(range(11, 21), scheduled_for=clock() + 5))
        await asyncio.sleep(20)
        assert scene.rounds < 100
        await scene.done(300)

    assert run_scenario(story, limits=PoolLimits(2, rate)).most[""] == 2


def test_a_slow_pace_is_slept_through() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.post(*jobs(range(1, 4)), *jobs(range(4, 6), scheduled_for=clock() + 5))
        await asyncio.sleep(50)
        assert scene.rounds < 100
        assert len(scene.sent) == 2
        await scene.done(200)

    began = run_scenario(story, limits=PoolLimits(10, 2)).began
    assert all(later - sooner > 60 for sooner, later in zip(began, began[2:], strict=False))


def test_clocks_that_differ_cost_a_few_questions_at_most() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.post(*jobs(range(1, 4), scheduled_for=clock() + 5))
        assert await scene.done(10) > 4.7
        assert scene.postgres.calls["claim"] < 5

    run_scenario(story, skew=0.2)


# Pace.


@pytest.mark.parametrize("takes", [0.01, 1.0, 20.0])
def test_a_rate_is_kept_and_used(takes: float) -> None:
    async def story(scene: PoolScenario) -> None:
        scene.takes = takes
        scene.post(*jobs(range(1, 301)))
        await scene.done(60)

    began = run_scenario(story, limits=PoolLimits(300, 600), target_limit=300).began
    assert all(later - sooner > 1.0 for sooner, later in zip(began, began[10:], strict=False))
    assert began[-1] - began[0] < 300 * 0.1 * 1.02


def test_a_pool_that_becomes_slow_gives_back_what_it_took_and_one_that_becomes_fast_goes_on() -> (
    None
):
    async def story(scene: PoolScenario) -> None:
        scene.post(*jobs(range(1, 401)))
        await asyncio.sleep(1.0)
        scene.dispatcher.set_limits(PoolLimits(50, 60))
        await asyncio.sleep(0.1)
        sent = len(scene.sent)
        assert sent > 60
        assert scene.postgres.statuses()["IN_PROGRESS"] == 0
        await asyncio.sleep(20)
        assert len(scene.sent) == sent  # the last minute had more than it now may have
        scene.dispatcher.set_limits(PoolLimits(50, None))
        await scene.done(5.0)

    scene = run_scenario(story, limits=PoolLimits(50, 6_000))
    assert sorted(scene.sent) == sorted(f"j{at}" for at in range(1, 401))
    assert scene.end["retried"] == 0


def test_what_went_before_a_restart_counts() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.dispatcher.charge_recent_starts([59.0 - at for at in range(10)])
        scene.post(*jobs(range(1, 3)))
        assert await scene.done() > 1.0

    run_scenario(story, limits=PoolLimits(50, 10))


def test_places_can_be_added_and_taken_away() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.takes = 1.0
        scene.post(*jobs(range(1, 61)))
        await asyncio.sleep(3.5)
        assert scene.most[""] == 2
        scene.dispatcher.set_limits(PoolLimits(10))
        await asyncio.sleep(2.5)
        assert scene.under_way[""] == 10
        scene.dispatcher.set_limits(PoolLimits(1))
        await asyncio.sleep(2.5)
        assert scene.under_way[""] == 1
        await scene.done(60)

    run_scenario(story, limits=PoolLimits(2))


# Targets.


def test_a_target_has_so_many_and_others_go_past_it() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.takes = 1.0
        scene.post(*jobs(range(1, 41)), *jobs(range(41, 81), target=B))
        await scene.done()

    scene = run_scenario(story, limits=PoolLimits(10), target_limit=3)
    assert scene.most == {"": 6, A: 3, B: 3}


def test_a_target_that_fails_is_left_alone_tried_by_the_first_and_taken_up_again() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.scripts[A] = lambda _: BAD
        scene.post(*jobs(range(1, 11)))
        scene.post(*jobs(range(11, 21), group="g", mode=BLOCK))
        await scene.until(lambda: bool(scene.alone), 5.0)
        await asyncio.sleep(0.1)
        sent = len(scene.sent)
        await asyncio.sleep(4.5)
        assert len(scene.sent) == sent  # and no attempt is spent
        (told,) = scene.dispatcher.breakers(1)
        assert told["state"] == "OPEN"
        assert 0 < told["open_for"] < 1
        scene.scripts.clear()
        scene.post(*jobs(range(21, 31), target=B))
        await scene.done(30)

    scene = run_scenario(story)
    assert scene.alone == [A]
    grouped = [int(name[1:]) for name in scene.sent if 11 <= int(name[1:]) < 21]
    assert grouped == sorted(grouped)
    assert set(scene.postgres.statuses()) == {"COMPLETED"}


def test_what_was_taken_ahead_for_a_target_that_is_left_alone_is_given_back() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.post(*jobs(range(1, 301)))  # quick ones, so that some are taken ahead
        await scene.done()
        scene.scripts[A] = lambda _: BAD
        scene.post(*jobs(range(1_001, 1_201), max_retries=100))
        await scene.until(lambda: bool(scene.alone), 5.0)
        await asyncio.sleep(2)
        assert len(scene.sent) - 300 < 50 + 20  # what it takes to notice, and what is under way
        assert scene.postgres.statuses()["IN_PROGRESS"] == 0
        scene.scripts.clear()
        await scene.done(60)

    run_scenario(story, limits=PoolLimits(20))


def test_a_broken_target_that_is_reset_is_tried_at_once() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.scripts[A] = lambda _: BAD
        scene.post(*jobs(range(1, 11)))
        await scene.until(lambda: bool(scene.alone), 5.0)
        scene.scripts.clear()
        scene.post(*jobs(range(11, 21)))
        assert scene.dispatcher.reset_breakers(1, None) == 1
        await scene.until(lambda: len(scene.sent) == 20, 1.0)

    run_scenario(story)


# Room.


def others_go(scene: PoolScenario, first: int, count: int = 50) -> list[FakeJobRow]:
    """Jobs behind those that cannot go."""
    return jobs(range(first, first + count), target=B)


def test_jobs_of_a_broken_target_do_not_fill_the_board() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.scripts[A] = lambda _: BAD
        scene.postgres.store(*jobs(range(1, 501), max_retries=100))
        await scene.until(lambda: bool(scene.alone), 5.0)
        scene.postgres.store(*others_go(scene, 501))
        await scene.until(lambda: scene.postgres.statuses()["COMPLETED"] == 50, 5.0)
        scene.scripts.clear()
        await scene.done(120)

    run_scenario(story, limit=100)


def test_jobs_that_are_put_off_for_long_do_not_fill_the_board() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.scripts[A] = lambda job: later(300) if job.send_no == 1 else OK
        scene.postgres.store(*jobs(range(1, 301)))
        await scene.until(lambda: len(scene.sent) == 300, 5.0)
        scene.postgres.store(*others_go(scene, 301))
        await scene.until(lambda: scene.postgres.statuses()["COMPLETED"] == 50, 5.0)
        assert 290 < await scene.done(400) < 320

    run_scenario(story, limit=100)


def test_groups_that_failed_do_not_fill_the_board() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.scripts[A] = lambda _: NO
        for at in range(1, 301):
            group = f"g{at}"
            scene.postgres.store(*jobs((at, 1_000 + at, 2_000 + at), group=group, mode=BLOCK))
        await scene.until(lambda: len(scene.sent) == 300, 10.0)
        scene.post(*others_go(scene, 5_000))
        await scene.until(lambda: scene.postgres.statuses()["COMPLETED"] == 50, 5.0)
        scene.scripts.clear()
        for at in range(1, 301):
            scene.postgres.rows[JobKey(1, f"j{at}")].standing = QueueState.DONE
        await scene.done(40)

    scene = run_scenario(story, limit=100)
    assert scene.postgres.statuses() == {"ERROR": 300, "COMPLETED": 650}


def test_many_groups_that_are_freed_at_once_share_the_board() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.scripts[A] = lambda job: NO if job.send_no == 1 else OK
        for at in range(1, 81):
            numbers = range(at, at + 80 * 20, 80)
            scene.postgres.store(*jobs(numbers, group=f"g{at}", mode=BLOCK, max_retries=9))
        await scene.until(lambda: len(scene.sent) == 80, 10.0)
        scene.scripts.clear()
        for at in range(1, 81):
            row = scene.postgres.rows[JobKey(1, f"j{at}")]
            row.status, row.standing = JobStatus.PENDING, QueueState.UNCLAIMED
        await scene.done(60)

    scene = run_scenario(story, limit=120, limits=PoolLimits(100))
    assert len(scene.sent) == 80 * 21
    assert scene.fullest <= 120 + 80 * 5
    for at in (1, 33, 80):
        own = [int(name[1:]) for name in scene.sent if int(name[1:]) % 80 == at % 80]
        assert own == sorted(own)


def test_groups_that_people_hold_back_do_not_fill_the_board() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.postgres.parked = {GroupKey(1, f"g{at}") for at in range(10)}
        await scene.rescan()
        scene.post(*(FakeJobRow(at, group=f"g{at % 10}", mode=BLOCK) for at in range(1, 401)))
        scene.post(*others_go(scene, 500))
        await scene.until(lambda: scene.postgres.statuses()["COMPLETED"] == 50, 3.0)
        await asyncio.sleep(5)
        assert len(scene.sent) == 50
        scene.postgres.parked = set()
        await scene.done(20)

    scene = run_scenario(story, limit=100)
    for group in range(10):
        own = [int(n[1:]) for n in scene.sent if int(n[1:]) <= 400 and int(n[1:]) % 10 == group]
        assert own == sorted(own)


def test_a_full_board_of_one_busy_target_keeps_it_busy() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.takes = 0.1
        scene.postgres.store(*jobs(range(1, 1_001)))
        await scene.done(40)  # twice the time that it takes

    assert run_scenario(story, limit=100, target_limit=5).most[""] == 5


def test_what_nobody_told_of_and_no_look_finds_is_found_in_the_end() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.postgres.store(*jobs(range(100, 200)))
        await scene.done()
        await asyncio.sleep(60)
        scene.postgres.store(FakeJobRow(1))  # committed a minute late
        await asyncio.sleep(10)
        assert len(scene.sent) == 100
        await scene.done(1_000)

    run_scenario(story)


def test_more_that_no_pool_has_than_one_look_reads_is_found_by_the_next() -> None:
    async def story(scene: PoolScenario) -> None:
        await asyncio.sleep(60)
        again = {"status": JobStatus.PENDING, "standing": QueueState.UNCLAIMED}
        scene.reader._trail.clear()
        scene.reader._cursor = 10**6  # all that is stored stands before what was read
        scene.postgres.store(*jobs(range(1, 5_501), **again))
        scene.postgres.store(*jobs(range(5_501, 5_801), **again, group="g", mode=BLOCK))
        await scene.done(200)

    scene = run_scenario(story, limits=PoolLimits(100))
    assert scene.sent.count("j5499") == 1
    grouped = [int(name[1:]) for name in scene.sent if int(name[1:]) > 5_500]
    assert grouped == list(range(5_501, 5_801))
