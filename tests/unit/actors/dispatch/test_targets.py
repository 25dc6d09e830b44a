"""Tenants and targets share a pool: none takes it all, and jobs go where their target is now."""

import asyncio

from actors.dispatch.start_queue import PoolLimits
from tests.unit.actors.dispatch.dispatcher_fixtures import BAD, PoolScenario, run_scenario
from tests.unit.actors.dispatch.job_table import BLOCK, A, B, FakeJobRow, jobs

# Tenants beside each other.


def test_the_paths_of_a_server_share_its_places() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.post(*(FakeJobRow(at, target=f"{A}/{at}") for at in range(1, 21)))
        await scene.done()

    assert run_scenario(story, target_limit=3).most[""] == 3


def test_the_paths_of_a_server_that_fails_are_left_alone_together() -> None:
    async def story(scene: PoolScenario) -> None:
        for at in range(1, 11):
            scene.scripts[f"{A}/{at}"] = lambda _: BAD
            scene.post(FakeJobRow(at, target=f"{A}/{at}", max_retries=1))
        await scene.until(lambda: scene.alone == [A])

    run_scenario(story)


def test_one_tenant_cannot_take_all_places_of_a_shared_pool() -> None:
    """All that it sends hangs, on as many servers as it likes."""

    async def story(scene: PoolScenario) -> None:
        scene.takes = 30.0
        scene.post(*(FakeJobRow(at, target=f"http://{at}.example") for at in range(1, 101)))
        await scene.until(lambda: len(scene.sent) == 5)
        scene.takes = 0.01
        scene.post(*(FakeJobRow(at, tenant=2, target=B) for at in range(101, 201)))
        await scene.until(lambda: len(scene.sent) == 105, 2.0)
        assert await scene.done(120.0) < 40.0

    scene = run_scenario(story, limits=PoolLimits(10, is_shared=True))
    assert len(scene.sent) == 200


def test_two_tenants_whose_receivers_hang_leave_places_for_a_third() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.takes = 900.0
        for tenant in (1, 2):
            first = tenant * 1_000
            rows = range(first, first + 100)
            scene.post(
                *(FakeJobRow(at, tenant=tenant, target=f"http://{at}.example") for at in rows)
            )
        await scene.until(lambda: len(scene.sent) >= 7)
        scene.takes = 0.01
        hanging = len(scene.sent)
        scene.post(*(FakeJobRow(at, tenant=3, target=B) for at in range(5_001, 5_021)))
        await scene.until(lambda: len(scene.sent) == hanging + 20, 5.0)

    run_scenario(story, limits=PoolLimits(10, is_shared=True))


def test_a_pool_of_one_place_is_shared_by_turns() -> None:
    async def story(scene: PoolScenario) -> None:
        for at in range(1, 41):
            scene.post(FakeJobRow(at, tenant=1 + at % 4, target=f"http://{at % 8}.example"))
        assert await scene.done() < 5.0

    assert run_scenario(story, limits=PoolLimits(1, is_shared=True)).most[""] == 1


# Targets that change.


def test_a_job_counts_at_the_target_that_it_has_now() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.takes = 1.0
        rows = jobs(range(1, 11))
        pointers = scene.postgres.store(*rows)
        for row in rows:
            row.target = B
        scene.dispatcher.offer(pointers)
        await scene.until(lambda: len(scene.sent) == 2)
        assert [one["target"] for one in scene.dispatcher.breakers(1)] == [A, B]
        assert [one["under_way"] for one in scene.dispatcher.breakers(1)] == [0, 2]
        await scene.done()

    scene = run_scenario(story, target_limit=2)
    assert scene.most == {"": 2, B: 2}
    assert sorted(set(scene.sent)) == sorted(f"j{at}" for at in range(1, 11))
    assert scene.rounds < 200


def test_what_waits_for_a_bad_target_goes_when_it_has_another() -> None:
    async def story(scene: PoolScenario) -> None:
        scene.scripts[A] = lambda _: BAD
        scene.post(*jobs(range(1, 11), max_retries=1))
        await scene.until(lambda: scene.alone == [A])
        rows = [*jobs(range(11, 14)), *jobs(range(14, 17), group="g", mode=BLOCK)]
        scene.post(*rows)
        await asyncio.sleep(0.5)
        assert len(scene.sent) == 10
        for row in rows:
            row.target = B
        await scene.dispatcher.rescan_targets()
        assert await scene.done() < 1.0

    assert len(run_scenario(story).sent) == 16
