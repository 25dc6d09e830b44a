"""What people do while a pool delivers: it takes effect at once, and groups keep their order."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from actors.dispatch.pool_actor import DispatchActor
from core.dispatch.job import GroupKey, Mode
from core.dispatch.job_actions import JobAction
from core.dispatch.subscription import Subscription
from storage.dispatch import groups, pools, subscriptions, webhook_secrets
from storage.dispatch.groups import PoolGroupKey
from storage.dispatch.pools import NewPool, PoolRow
from tests.support.pool_at_work import OK, PoolTenant, numbers, running_pool
from tests.support.scenario_runner import ScenarioRunner, Scenarios
from tests.support.subscriptions import subscription

story = Scenarios()
BLOCK = Mode.BLOCK_ON_ERROR

# Groups and pools.


@story
async def a_failed_job_holds_its_group_until_a_person_has_seen_to_it(
    runner: ScenarioRunner,
) -> None:
    shop = await runner.open_tenant("stuck", concurrency=10)
    shop.answers(lambda one: (400, {}) if one.number in (0, 100) else OK)
    async with shop.working() as actor:
        first = await shop.post(range(3), actor, message_group="g", mode=BLOCK)
        second = await shop.post(range(100, 103), actor, message_group="h", mode=BLOCK)
        await shop.post(range(200, 203), actor, message_group="i", mode=BLOCK)
        await shop.until(lambda: len(shop.came) == 5)
        await asyncio.sleep(1.0)
        assert sorted(numbers(shop.came)) == [0, 100, 200, 201, 202]
        assert (await actor.report())["stats"]["blocked_groups"] == 2
        shop.answers(lambda _: OK)
        await shop.do(JobAction.REQUEUE, first[0])
        await shop.do(JobAction.IGNORE, second[0])
        await actor.refresh()
        await shop.until(lambda: len(shop.came) == 10, 15)
        assert await shop.status(second[0]) == "ERROR"
        assert [await shop.status(one) for one in first] == ["COMPLETED"] * 3
    assert [n for n in numbers(shop.came) if n < 100] == [0, 0, 1, 2]
    assert [n for n in numbers(shop.came) if 100 <= n < 200] == [100, 101, 102]


@story
async def a_parked_group_waits_and_others_do_not(runner: ScenarioRunner) -> None:
    shop = await runner.open_tenant("parked")
    place = PoolGroupKey(shop.pool_no, "g")
    await groups.park(shop.database, shop.tenant, place, "looking into it", "me")
    async with shop.working() as actor:
        await actor.refresh()
        await shop.post(range(5), actor, message_group="g", mode=BLOCK)
        await shop.post(range(100, 105), actor, message_group="h", mode=BLOCK)
        await shop.until(lambda: len(shop.came) == 5)
        await asyncio.sleep(1.0)
        assert numbers(shop.came) == list(range(100, 105))
        assert actor._dispatcher._scheduler.knows(GroupKey(shop.tenant, "g"))
        assert await groups.unpark(shop.database, shop.tenant, place)
        await actor.refresh()
        await shop.done(10)
    assert numbers(shop.came[5:]) == list(range(5))


@story
async def a_suspended_pool_waits(runner: ScenarioRunner) -> None:
    shop = await runner.open_tenant("suspended")
    async with shop.working() as actor:
        await shop.change(status="SUSPENDED")
        await shop.until(lambda: not actor._dispatcher.limits.is_active)
        await shop.post(range(5), actor)
        await asyncio.sleep(1.0)
        assert shop.came == []
        await shop.change(status="ACTIVE")
        await shop.done(10)
    assert sorted(numbers(shop.came)) == list(range(5))


@story
async def a_subscription_that_moves_takes_its_order_along(runner: ScenarioRunner) -> None:
    shop = await runner.open_tenant("leaving")
    away = await pools.create(
        shop.database, shop.tenant, NewPool(pool_id="dpl_to", code="arriving", name="To"), 1_000
    )
    assert isinstance(away, PoolRow)
    target = shop.hooks.url(shop.path)
    terms = {"pool_no": shop.pool_no, "pool_code": shop.row.code, "target": target}
    made = await subscriptions.create(
        shop.database, subscription(shop.tenant, **terms), webhook_secrets.new_secret()
    )
    assert isinstance(made, Subscription)
    await shop.change(status="SUSPENDED")

    async def post(numbers: Sequence[int], to: DispatchActor, pool_no: int) -> None:
        """As its events would: for the subscription, in one group."""
        ids = await shop.post(numbers, pool_no=pool_no, message_group="orders:g", mode=BLOCK)
        await shop.database.execute(
            "update dispatch_jobs set subscription_id = $2 where job_id = any($1::text[])",
            ids,
            made.subscription_id,
        )
        await to.refresh()

    async with (
        shop.working() as old,
        running_pool(shop.dsn, away.pool_no, dispatch_poll=0.5) as new,
    ):
        await post(range(5), old, shop.pool_no)
        moved = await subscriptions.change(
            shop.database, shop.tenant, made.code, lambda held: replace(held, pool_no=away.pool_no)
        )
        assert isinstance(moved, Subscription)
        await post(range(5, 10), new, away.pool_no)
        await shop.done(15)
    assert numbers(shop.came) == list(range(10))


# Secrets and targets.


async def signatures(shop: PoolTenant, subscription_id: str) -> int:
    """Send one more; by how many secrets it is signed."""
    before = len(shop.came)
    now: float = await shop.database.fetchval("select extract(epoch from now())::float8")
    (job_id,) = await shop.post([before], scheduled_for=now + 0.5)
    await shop.database.execute(
        "update dispatch_jobs set subscription_id = nullif($2, '') where job_id = $1",
        job_id,
        subscription_id,
    )
    await shop.until(lambda: len(shop.came) == before + 1)
    return len(shop.came[-1].headers["webhook-signature"].split())


@story
async def secrets_are_replaced_at_once(runner: ScenarioRunner) -> None:
    shop = await runner.open_tenant("signed")
    terms = {"pool_no": shop.pool_no, "pool_code": shop.row.code}
    terms["target"] = shop.hooks.url(shop.path)
    made = await subscriptions.create(
        shop.database, subscription(shop.tenant, **terms), webhook_secrets.new_secret()
    )
    assert isinstance(made, Subscription)
    async with shop.working():
        for name in (made.subscription_id, webhook_secrets.OWN):
            assert await signatures(shop, name) == 1
            await webhook_secrets.rotate(
                shop.database, shop.tenant, name, webhook_secrets.new_secret(), 3_600
            )
            assert await signatures(shop, name) == 2


@story
async def what_waits_for_a_target_that_is_replaced_goes_to_the_new_one(
    runner: ScenarioRunner,
) -> None:
    shop = await runner.open_tenant("moved")
    old, new = shop.hooks.url(shop.path), shop.hooks.url("moved-new", "localhost")
    terms = {"pool_no": shop.pool_no, "pool_code": shop.row.code, "target": old}
    wish = subscription(shop.tenant, headers={"X-Key": "old"}, **terms)
    await subscriptions.create(shop.database, wish, webhook_secrets.new_secret())
    shop.answers(lambda _: (500, {}))
    async with shop.working() as actor:
        waits = await shop.post(range(20), max_retries=20)
        await shop.database.execute(
            "update dispatch_jobs set subscription_id = $2 where tenant_id = $1",
            shop.tenant,
            wish.subscription_id,
        )

        async def is_left_alone() -> bool:
            return [one["state"] for one in await actor.breakers(shop.tenant)] == ["OPEN"]

        await shop.until(is_left_alone)
        await subscriptions.change(
            shop.database,
            shop.tenant,
            wish.code,
            lambda held: replace(held, target=new, headers={"X-Key": "new"}),
        )
        await shop.done(20)
    came = shop.hooks.came("moved-new")
    assert {one.headers["x-key"] for one in shop.came} == {"old"}
    assert {one.headers["x-key"] for one in came} == {"new"}
    assert {one.job_id for one in came} == set(waits)


@pytest.mark.parametrize("name", story)
async def test_story(runner: ScenarioRunner, name: str) -> None:
    await runner.play(story)[name]
