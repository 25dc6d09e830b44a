"""A pool's rounds: nothing is lost, nothing spins, nothing waits for ever."""

import asyncio
from collections.abc import Sequence

import pytest

from actors.dispatch.starter import Terms
from core.dispatch.claimed import Claimed
from core.dispatch.job import JobKey, JobStatus, Mode, Pointer, Standing
from core.dispatch.outcome import Sent
from tests.simulation.clockwork import simulate
from tests.unit.actors.dispatch_table import BLOCK, NEXT, A, B, Row, clock, jobs
from tests.unit.actors.dispatch_world import BAD, NO, OK, Scene, later, play

# Delivering.


def test_everything_is_sent_once_as_wide_as_allowed() -> None:
    async def story(scene: Scene) -> None:
        scene.post(*jobs(range(1, 201)))
        scene.postgres.store(*jobs(range(201, 401)))  # nobody told the pool
        await scene.done()

    scene = play(story)
    assert sorted(scene.sent) == sorted(f"j{at}" for at in range(1, 401))
    assert scene.most[""] == 10
    assert scene.heard.count(("j7", JobStatus.COMPLETED)) == 1
    assert scene.end["completed"] == 400
    assert scene.end["buffered"] == 0


def test_a_group_larger_than_its_share_of_the_board_goes_in_order_without_a_pause() -> None:
    async def story(scene: Scene) -> None:
        scene.postgres.latency["read_groups"] = 0.05  # its jobs go on while it is read
        scene.postgres.store(*jobs(range(1, 501), group="g", mode=BLOCK))
        took = await scene.done()
        assert took < 500 * 0.03

    assert play(story).sent == [f"j{at}" for at in range(1, 501)]


def test_a_board_smaller_than_the_backlog_is_filled_again_and_again() -> None:
    async def story(scene: Scene) -> None:
        for at in range(1, 1001):
            scene.postgres.store(Row(at, group=f"g{at % 7}", mode=BLOCK, target=(A, B)[at % 2]))
        await scene.done()

    scene = play(story, limit=20)
    for group in range(7):
        own = [one for one in scene.sent if int(one[1:]) % 7 == group]
        assert own == sorted(own, key=lambda one: int(one[1:]))
    assert len(scene.sent) == 1_000


def test_a_board_of_one_job_does_not_read_for_nothing() -> None:
    async def story(scene: Scene) -> None:
        scene.takes = 5.0
        scene.post(*jobs(range(1, 4)))
        await asyncio.sleep(4)
        assert scene.postgres.calls["scan"] < 10
        await scene.done()

    assert len(play(story, limit=1).sent) == 3


def test_what_is_handed_over_late_is_not_sent_again() -> None:
    async def story(scene: Scene) -> None:
        rows = jobs(range(1, 21), group="g", mode=BLOCK)
        pointers = scene.postgres.store(*rows)
        await scene.done()
        scene.reader.offer(pointers)
        scene.dispatcher.wake()
        scene.post(Row(21, group="g", mode=BLOCK))
        assert await scene.done() < 1.0
        await scene.until(lambda: len(scene.board) == 0, 1.0)

    assert len(play(story).sent) == 21


def test_reads_that_jobs_overtake_hold_no_group() -> None:
    """A look at the wrong moment sees a job under way that has ended when it is told of it."""

    async def story(scene: Scene) -> None:
        scene.postgres.latency["scan"] = 0.04

        async def post() -> None:
            for at in range(0, 1_000, 5):
                scene.post(*(Row(at + own, group=f"g{own}", mode=BLOCK) for own in range(1, 6)))
                await asyncio.sleep(0.0337)

        posting = asyncio.create_task(post())
        while not posting.done():
            await scene.look()
        assert await scene.done() < 1.0

    play(story)


# Failures.


@pytest.mark.parametrize("mode", [BLOCK, NEXT])
def test_groups_keep_their_order_whatever_fails(mode: Mode) -> None:
    async def story(scene: Scene) -> None:
        tries: dict[str, int] = {}

        def answer(job: Claimed) -> Sent:
            name = job.job_id
            tries[name] = tries.get(name, 0) + 1
            return OK if tries[name] > int(name[1:]) % 3 else later(1.0)

        scene.scripts[A] = answer
        scene.post(*(Row(at, group=f"g{at % 4}", mode=mode) for at in range(1, 81)))
        await scene.done(300)

    scene = play(story)
    assert len(scene.sent) == sum(1 + at % 3 for at in range(1, 81))
    if mode is BLOCK:
        for group in range(4):
            own = [int(one[1:]) for one in scene.sent if int(one[1:]) % 4 == group]
            assert own == sorted(own)


def test_a_failed_job_holds_its_group_until_a_person_has_seen_to_it() -> None:
    async def story(scene: Scene) -> None:
        scene.scripts[A] = lambda job: NO if job.job_id == "j1" else OK
        scene.post(*jobs((1, 3), group="g", mode=BLOCK), *jobs((2, 4), group="h", mode=BLOCK))
        await scene.until(lambda: len(scene.sent) == 3)
        await asyncio.sleep(10)
        assert sorted(scene.sent) == ["j1", "j2", "j4"]
        assert scene.dispatcher.snapshot()["blocked_groups"] == 1
        scene.postgres.rows[JobKey(1, "j1")].standing = Standing.DONE
        assert await scene.done() <= 3.0

    assert play(story).sent[3:] == ["j3"]


def test_any_of_many_failed_groups_is_freed() -> None:
    async def story(scene: Scene) -> None:
        scene.scripts[A] = lambda job: NO if int(job.job_id[1:]) <= 1_000 else OK
        for at in range(1, 1_001):
            scene.postgres.store(Row(at, group=f"g{at}", mode=BLOCK))
            scene.postgres.store(Row(1_000 + at, group=f"g{at}", mode=BLOCK))
        await scene.until(lambda: len(scene.sent) == 1_000)
        await asyncio.sleep(5)
        row = scene.postgres.rows[JobKey(1, "j1000")]
        row.standing = Standing.DONE
        await scene.until(lambda: len(scene.sent) == 1_001, 3.0)
        row = scene.postgres.rows[JobKey(1, "j500")]
        row.status, row.standing = JobStatus.PENDING, Standing.AGAIN
        scene.scripts.clear()
        await scene.until(lambda: len(scene.sent) == 1_003, 3.0)

    assert play(story).sent[1_000:] == ["j2000", "j500", "j1500"]


def test_a_job_put_off_for_long_is_sent_when_somebody_asks_for_it() -> None:
    async def story(scene: Scene) -> None:
        scene.scripts[A] = lambda _: later(40_000)
        scene.post(Row(1), Row(2, group="g", mode=BLOCK))
        await scene.until(lambda: len(scene.sent) == 2)
        await asyncio.sleep(1)
        scene.scripts.clear()
        for row in scene.postgres.rows.values():
            row.status, row.standing = JobStatus.PENDING, Standing.AGAIN
            row.scheduled_for = 0.0
        await scene.done(3.0)

    play(story)


def test_a_send_that_crashes_and_a_listener_that_breaks_do_not_break_the_pool() -> None:
    async def story(scene: Scene) -> None:
        def crash(_: Claimed) -> Sent:
            raise RuntimeError("a bug")

        scene.scripts[A] = crash
        scene.post(*jobs(range(1, 4)), *jobs(range(4, 8), target=B))
        await scene.done()

    scene = play(story, listens=False)
    assert scene.postgres.statuses() == {"ERROR": 3, "COMPLETED": 4}
    assert len(scene.sent) == 3 * 3 + 4


def test_expired_jobs_are_not_sent_and_cost_no_start() -> None:
    async def story(scene: Scene) -> None:
        scene.post(*jobs(range(1, 101), expires_at=clock() - 1))
        scene.post(*jobs(range(101, 103)))
        await scene.done(5.0)

    scene = play(story, terms=Terms(10, 2))
    assert sorted(scene.sent) == ["j101", "j102"]
    assert scene.end["expired"] == 100


def test_jobs_that_nobody_wants_any_more_are_cancelled_and_cost_no_start() -> None:
    async def story(scene: Scene) -> None:
        gone = jobs(range(1, 101), group="g", mode=BLOCK, subscription_id="sub_gone")
        scene.post(*gone, *jobs((101, 102), group="g", mode=BLOCK))
        await scene.done(5.0)

    scene = play(story, terms=Terms(10, 2))
    assert scene.sent == ["j101", "j102"]
    assert scene.postgres.statuses() == {"CANCELLED": 100, "COMPLETED": 2}


def test_no_more_is_held_at_once_than_there_is_memory_for() -> None:
    async def story(scene: Scene) -> None:
        scene.takes = 0.2
        scene.post(*jobs(range(1, 41), size=300), *jobs(range(41, 51), size=5_000))
        scene.post(*jobs(range(51, 61), size=0, target=B))
        await scene.done(200.0)
        assert scene.dispatcher._starter.bytes == 0

    scene = play(story, most_bytes=1_000, terms=Terms(50))
    assert scene.most[""] <= 4 + 10
    assert len(set(scene.sent)) == 60
    assert scene.rounds < 2_000


# Tenants beside each other.


def test_the_paths_of_a_server_share_its_places() -> None:
    async def story(scene: Scene) -> None:
        scene.post(*(Row(at, target=f"{A}/{at}") for at in range(1, 21)))
        await scene.done()

    assert play(story, target_limit=3).most[""] == 3


def test_the_paths_of_a_server_that_fails_are_left_alone_together() -> None:
    async def story(scene: Scene) -> None:
        for at in range(1, 11):
            scene.scripts[f"{A}/{at}"] = lambda _: BAD
            scene.post(Row(at, target=f"{A}/{at}", max_retries=1))
        await scene.until(lambda: scene.alone == [A])

    play(story)


def test_one_tenant_cannot_take_all_places_of_a_shared_pool() -> None:
    """All that it sends hangs, on as many servers as it likes."""

    async def story(scene: Scene) -> None:
        scene.takes = 30.0
        scene.post(*(Row(at, target=f"http://{at}.example") for at in range(1, 101)))
        await scene.until(lambda: len(scene.sent) == 5)
        scene.takes = 0.01
        scene.post(*(Row(at, tenant=2, target=B) for at in range(101, 201)))
        await scene.until(lambda: len(scene.sent) == 105, 2.0)
        assert await scene.done(120.0) < 40.0

    scene = play(story, terms=Terms(10, is_shared=True))
    assert len(scene.sent) == 200


def test_a_pool_of_one_place_is_shared_by_turns() -> None:
    async def story(scene: Scene) -> None:
        for at in range(1, 41):
            scene.post(Row(at, tenant=1 + at % 4, target=f"http://{at % 8}.example"))
        assert await scene.done() < 5.0

    assert play(story, terms=Terms(1, is_shared=True)).most[""] == 1


# Targets that change.


def test_a_job_counts_at_the_target_that_it_has_now() -> None:
    async def story(scene: Scene) -> None:
        scene.takes = 1.0
        rows = jobs(range(1, 11))
        pointers = scene.postgres.store(*rows)
        for row in rows:
            row.target = B
        scene.reader.offer(pointers)
        scene.dispatcher.wake()
        await scene.until(lambda: len(scene.sent) == 2)
        assert [one["target"] for one in scene.dispatcher.sites.snapshot(1)] == [A, B]
        assert [one["under_way"] for one in scene.dispatcher.sites.snapshot(1)] == [0, 2]
        await scene.done()

    scene = play(story, target_limit=2)
    assert scene.most == {"": 2, B: 2}
    assert sorted(set(scene.sent)) == sorted(f"j{at}" for at in range(1, 11))
    assert scene.rounds < 200


def test_what_waits_for_a_bad_target_goes_when_it_has_another() -> None:
    async def story(scene: Scene) -> None:
        scene.scripts[A] = lambda _: BAD
        scene.post(*jobs(range(1, 11), max_retries=1))
        await scene.until(lambda: scene.alone == [A])
        rows = [*jobs(range(11, 14)), *jobs(range(14, 17), group="g", mode=BLOCK)]
        scene.post(*rows)
        await asyncio.sleep(0.5)
        assert len(scene.sent) == 10
        for row in rows:
            row.target = B
        await scene.reader.look_where()
        scene.dispatcher.wake()
        assert await scene.done() < 1.0

    assert len(play(story).sent) == 16


# Postgres away.


def test_while_postgres_is_away_nothing_is_lost_from_sight() -> None:
    async def story(scene: Scene) -> None:
        scene.post(*jobs(range(1, 101)), *jobs(range(101, 301), group="g", mode=BLOCK))
        for at in range(20):
            scene.postgres.away_until = clock() + 0.3
            await asyncio.sleep(0.3 + 0.013 * at)
        assert await scene.done() < 20.0

    scene = play(story)
    assert sorted(scene.sent) == sorted(f"j{at}" for at in range(1, 301))


def test_refused_jobs_that_cannot_be_looked_up_at_once_are_looked_up_later() -> None:
    async def story(scene: Scene) -> None:
        row = Row(1, status=JobStatus.IN_PROGRESS, sends=1, lease_until=clock() + 60)
        scene.postgres.store(row)
        await asyncio.sleep(59)
        row.lease_until += 20  # whoever has it took it once more
        looked_up = scene.postgres.find

        async def find(keys: Sequence[JobKey]) -> list[Pointer]:
            scene.postgres.away_until = clock() + 1.0  # just now
            scene.postgres.find = looked_up
            return await looked_up(keys)

        scene.postgres.find = find
        assert 20 < await scene.done() < 22

    assert play(story).sent == ["j1"]


def test_a_claim_whose_answer_is_lost_is_not_sent_before_its_time_is_over() -> None:
    async def story(scene: Scene) -> None:
        scene.postgres.loses_answers = True
        scene.post(Row(1), *jobs((2, 3), group="g", mode=BLOCK))
        await asyncio.sleep(0.01)
        scene.postgres.loses_answers = False
        assert [row.status for row in scene.postgres.rows.values()].count(
            JobStatus.IN_PROGRESS
        ) == 2
        await asyncio.sleep(40)
        assert scene.sent == []
        assert await scene.done() < 10

    assert sorted(play(story).sent) == ["j1", "j2", "j3"]


def test_a_result_whose_answer_is_lost_is_not_sent_again() -> None:
    async def story(scene: Scene) -> None:
        scene.takes = 1.0
        scene.scripts[A] = lambda job: later(5.0) if job.send_no == 1 else OK
        scene.post(*jobs((1, 2, 3), group="g", mode=BLOCK))
        await scene.until(lambda: len(scene.sent) == 1)
        await asyncio.sleep(0.99)
        scene.postgres.loses_answers = True
        await asyncio.sleep(0.05)
        scene.postgres.loses_answers = False
        assert await scene.done() < 30

    assert play(story).sent == ["j1", "j1", "j2", "j2", "j3", "j3"]


def test_one_result_that_cannot_be_written_keeps_no_other() -> None:
    async def story(scene: Scene) -> None:
        scene.postgres.chokes_on = JobKey(1, "j50")
        scene.post(*jobs(range(1, 101)))
        await scene.until(lambda: scene.postgres.statuses()["COMPLETED"] == 99, 5.0)
        scene.postgres.chokes_on = None
        await scene.done(60)

    scene = play(story, terms=Terms(100))
    assert scene.sent.count("j50") == 2


def test_an_owner_that_dies_is_followed_when_its_time_is_over() -> None:
    async def run() -> None:
        first = Scene(takes=1_000)
        async with first.running():
            first.post(*jobs(range(1, 10)), *jobs(range(11, 21), group="g", mode=BLOCK))
            await first.until(lambda: len(first.sent) == 10)
        second = Scene(postgres=first.postgres.as_seen_by("other"))
        async with second.running():
            assert 44 < await second.done() < 47
        assert sorted(second.sent[:10]) == sorted(first.sent)
        assert second.sent[10:] == [f"j{at}" for at in range(12, 21)]

    simulate(run())


def test_two_owners_send_nothing_twice_and_keep_the_order() -> None:
    async def run() -> None:
        first = Scene()
        second = Scene(postgres=first.postgres.as_seen_by("other"))
        async with first.running(), second.running():
            rows = [Row(at, group=f"g{at % 5}", mode=BLOCK) for at in range(1, 201)]
            pointers = first.postgres.store(*rows, *jobs(range(201, 401)))
            for scene in (first, second):
                scene.reader.offer(pointers)
                scene.dispatcher.wake()
            await first.done()
        both = [int(name[1:]) for _, name in sorted(first.log + second.log)]
        assert len(both) == len(set(both)) == 400
        for group in range(5):
            own = [at for at in both if at <= 200 and at % 5 == group]
            assert own == sorted(own)

    simulate(run())
