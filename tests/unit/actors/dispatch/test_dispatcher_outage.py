"""Postgres goes away, answers are lost, owners die: no job is lost, and none is sent too early."""

import asyncio
from collections.abc import Sequence

from actors.dispatch.start_queue import PoolLimits
from core.dispatch.job import JobKey, JobRef, JobStatus
from tests.simulation.clockwork import simulate
from tests.unit.actors.dispatch.dispatcher_fixtures import OK, PoolScenario, later, run_scenario
from tests.unit.actors.dispatch.job_table import BLOCK, A, FakeJobRow, clock, jobs


def test_while_postgres_is_away_nothing_is_lost_from_sight() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.post(*jobs(range(1, 101)), *jobs(range(101, 301), group="g", mode=BLOCK))
        for at in range(20):
            scene.postgres.away_until = clock() + 0.3
            await asyncio.sleep(0.3 + 0.013 * at)
        assert await scene.done() < 20.0

    scene = run_scenario(story)
    assert sorted(scene.sent) == sorted(f"j{at}" for at in range(1, 301))


def test_refused_jobs_that_cannot_be_looked_up_at_once_are_looked_up_later() -> None:
    async def story(scene: PoolScenario) -> None:
        row = FakeJobRow(1, status=JobStatus.IN_PROGRESS, sends=1, lease_until=clock() + 60)
        scene.postgres.store(row)
        await asyncio.sleep(59)
        row.lease_until += 20  # whoever has it took it once more
        looked_up = scene.postgres.find

        async def find(keys: Sequence[JobKey]) -> list[JobRef]:
            scene.postgres.away_until = clock() + 1.0  # just now
            scene.postgres.find = looked_up
            return await looked_up(keys)

        scene.postgres.find = find
        assert 20 < await scene.done() < 22

    assert run_scenario(story).sent == ["j1"]


def test_a_claim_whose_answer_is_lost_is_not_sent_before_its_time_is_over() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.postgres.loses_answers = True
        scene.post(FakeJobRow(1), *jobs((2, 3), group="g", mode=BLOCK))
        await asyncio.sleep(0.01)
        scene.postgres.loses_answers = False
        assert [row.status for row in scene.postgres.rows.values()].count(
            JobStatus.IN_PROGRESS
        ) == 2
        await asyncio.sleep(40)
        assert scene.sent == []
        assert await scene.done() < 10

    assert sorted(run_scenario(story).sent) == ["j1", "j2", "j3"]


def test_a_result_whose_answer_is_lost_is_not_sent_again() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.takes = 1.0
        scene.scripts[A] = lambda job: later(5.0) if job.send_no == 1 else OK
        scene.post(*jobs((1, 2, 3), group="g", mode=BLOCK))
        await scene.until(lambda: len(scene.sent) == 1)
        await asyncio.sleep(0.99)
        scene.postgres.loses_answers = True
        await asyncio.sleep(0.05)
        scene.postgres.loses_answers = False
        assert await scene.done() < 30

    assert run_scenario(story).sent == ["j1", "j1", "j2", "j2", "j3", "j3"]


def test_one_result_that_cannot_be_written_keeps_no_other() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.postgres.chokes_on = JobKey(1, "j50")
        scene.post(*jobs(range(1, 101)))
        await scene.until(lambda: scene.postgres.statuses()["COMPLETED"] == 99, 5.0)
        scene.postgres.chokes_on = None
        await scene.done(60)

    scene = run_scenario(story, limits=PoolLimits(100))
    assert scene.sent.count("j50") == 2


def test_an_owner_that_dies_is_followed_when_its_time_is_over() -> None:
    async def run() -> None:
        first = PoolScenario(takes=1_000)
        async with first.running():
            first.post(*jobs(range(1, 10)), *jobs(range(11, 21), group="g", mode=BLOCK))
            await first.until(lambda: len(first.sent) == 10)
        second = PoolScenario(postgres=first.postgres.as_seen_by("other"))
        async with second.running():
            assert 44 < await second.done() < 47
        assert sorted(second.sent[:10]) == sorted(first.sent)
        assert second.sent[10:] == [f"j{at}" for at in range(12, 21)]

    simulate(run())


def test_two_owners_send_nothing_twice_and_keep_the_order() -> None:
    async def run() -> None:
        first = PoolScenario()
        second = PoolScenario(postgres=first.postgres.as_seen_by("other"))
        async with first.running(), second.running():
            rows = [FakeJobRow(at, group=f"g{at % 5}", mode=BLOCK) for at in range(1, 201)]
            pointers = first.postgres.store(*rows, *jobs(range(201, 401)))
            for scene in (first, second):
                scene.dispatcher.offer(pointers)
            await first.done()
        both = [int(name[1:]) for _, name in sorted(first.log + second.log)]
        assert len(both) == len(set(both)) == 400
        for group in range(5):
            own = [at for at in both if at <= 200 and at % 5 == group]
            assert own == sorted(own)

    simulate(run())
