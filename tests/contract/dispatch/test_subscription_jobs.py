"""Jobs of a subscription go where it wants them now, and hold back nobody when it is gone."""

from dataclasses import replace

import pytest

from core.dispatch.job import GroupKey, JobKey
from core.dispatch.job_actions import JobAction
from storage.dispatch import job_actions, job_queue, jobs, subscriptions
from storage.dispatch.job_queue import JobQueue
from storage.postgres.pool import Pool
from tests.support.dispatch_queue import BAD, FAILED, POOL, claim, claimed, field, finish, store
from tests.support.subscriptions import subscription

OLD, NEW = "https://old.example/hook", "https://new.example/hook"


class TestTarget:
    """A subscription's job goes where its subscription wants it, with what is for there."""

    @pytest.fixture
    async def key(self, pool: Pool, tenant: int) -> JobKey:
        await subscriptions.create(pool, subscription(tenant, target=OLD), b"secret" * 6)
        key = await store(
            pool, tenant, "j", target_url=OLD, subscription_id="sub_orders", message_group="g"
        )
        await subscriptions.change(
            pool, tenant, "orders", lambda held: replace(held, target=NEW, headers={"X-Key": "new"})
        )
        return key

    async def test_an_open_job_follows_its_subscription(self, pool: Pool, key: JobKey) -> None:
        group = GroupKey(key.tenant, "g")
        found = [
            *await JobQueue(pool, POOL).scan(0, 10),
            *await JobQueue(pool, POOL).find([key]),
            *(await JobQueue(pool, POOL).read_groups([group], 10))[group],
        ]
        await job_queue.mark_pending(pool, [key])
        found += await JobQueue(pool, POOL).unclaimed(0, 10)
        assert [one.target for one in found] == [NEW] * 4
        (shown,) = await jobs.read_many(pool, key.tenant, [key.job_id])
        assert shown.target_url == NEW
        (job,) = await claimed(pool, key)
        assert job.target_url == NEW
        profiles = await subscriptions.profiles(pool, [(key.tenant, "sub_orders")])
        (profile,) = profiles.values()
        assert (profile.target, profile.headers) == (NEW, {"X-Key": "new"})

    async def test_a_failed_job_follows_when_it_is_sent_again(
        self, pool: Pool, key: JobKey
    ) -> None:
        await pool.execute("update dispatch_jobs set status = 'ERROR', standing = 'error'")
        (shown,) = await jobs.read_many(pool, key.tenant, [key.job_id])
        assert shown.target_url == NEW
        await job_actions.apply(pool, key.tenant, JobAction.REQUEUE, [key.job_id])
        (job,) = await claimed(pool, key)
        assert job.target_url == NEW

    async def test_what_is_over_says_where_it_went(self, pool: Pool, key: JobKey) -> None:
        await pool.execute("update dispatch_jobs set status = 'COMPLETED', standing = 'done'")
        (shown,) = await jobs.read_many(pool, key.tenant, [key.job_id])
        assert shown.target_url == OLD


class TestGone:
    """What is left of a subscription that was removed holds back nobody."""

    @pytest.fixture
    async def keys(self, pool: Pool, tenant: int) -> list[JobKey]:
        await subscriptions.create(pool, subscription(tenant), b"secret" * 6)
        own = {"subscription_id": "sub_orders", "message_group": "orders:g"}
        return [await store(pool, tenant, name, **own) for name in "abc"]

    async def test_what_failed_is_put_aside(self, pool: Pool, keys: list[JobKey]) -> None:
        first, second, _ = keys
        await claimed(pool, first)
        await finish(pool, first, FAILED, BAD)
        assert await claim(pool, second) == []
        await subscriptions.drop(pool, first.tenant, "orders")
        assert await field(pool, first, "status") == "ERROR"
        assert await field(pool, first, "standing") == "done"
        assert await field(pool, first, "ignored_at is not null")
        (job,) = await claimed(pool, second)
        assert (job.subscription_id, job.subscription_version) == ("sub_orders", None)

    async def test_what_fails_afterwards_is_put_aside(self, pool: Pool, keys: list[JobKey]) -> None:
        first, second, _ = keys
        await claimed(pool, first)
        await subscriptions.drop(pool, first.tenant, "orders")
        assert await finish(pool, first, FAILED, BAD) == {first: 0.0}
        assert await field(pool, first, "status || ' ' || standing") == "ERROR done"
        again = subscription(first.tenant, subscription_id="sub_again")
        await subscriptions.create(pool, again, b"secret" * 6)
        own = {"subscription_id": "sub_again", "message_group": "orders:g"}
        await store(pool, first.tenant, "new", **own)
        assert await claim(pool, second) == ["b"]

    async def test_others_stay_as_they_are(self, pool: Pool, keys: list[JobKey]) -> None:
        other = await store(pool, keys[0].tenant, "other", status="ERROR", standing="error")
        await subscriptions.drop(pool, keys[0].tenant, "orders")
        assert await field(pool, other, "standing") == "error"
