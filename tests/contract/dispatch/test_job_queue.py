"""How a pool finds, takes and finishes its jobs: one owner at a time."""

import asyncio

from core.dispatch.attempt import AttemptStatus as Came
from core.dispatch.attempt import DeliveryAttempt, JobTransition
from core.dispatch.job import ANCHOR, GroupKey, JobKey, JobStatus
from storage.dispatch import job_queue, jobs
from storage.dispatch.job_queue import MAX_KEPT_DEFERRALS, JobQueue
from storage.postgres.pool import Pool
from tests.support.dispatch_queue import (
    BAD,
    FAILED,
    POOL,
    claim,
    claimed,
    field,
    finish,
    lease_over,
    store,
)


class TestTaking:
    async def test_two_owners_cannot_both_take_a_job(self, pool: Pool, tenant: int) -> None:
        keys = [await store(pool, tenant, f"j{at}") for at in range(50)]
        won = await asyncio.gather(*(claim(pool, *keys, owner=f"owner-{at}") for at in range(6)))
        taken = [name for names in won for name in names]
        assert sorted(taken) == sorted(key.job_id for key in keys)

    async def test_a_taken_job_is_under_way_and_leased(self, pool: Pool, tenant: int) -> None:
        key = await store(pool, tenant, "j", headers='{"X-A": "1"}', max_retries=7)
        (job,) = await claimed(pool, key)
        assert (job.send_no, job.max_retries, job.headers) == (1, 7, {"X-A": "1"})
        assert job.payload == b"{}"
        assert job.event is None
        assert await field(pool, key, "status") == "IN_PROGRESS"
        assert await field(pool, key, "owner") == "me"
        lease = await field(pool, key, "extract(epoch from lease_until - now())::float8")
        assert 30 < lease <= 35

    async def test_an_event_comes_with_its_job(self, pool: Pool, tenant: int) -> None:
        await pool.execute(
            "insert into events (tenant_id, event_id, spec_version, type, source, time, data,"
            " content_type, extensions) values ($1, 'e', '1.0', 'shop:a:b:c', 'shop',"
            " to_timestamp(5), '\\x31', 'text/plain', '{\"ext\": 1}')",
            tenant,
        )
        key = await store(
            pool, tenant, "j", kind="EVENT", event_tenant=tenant, event_id="e", payload=None
        )
        (job,) = await claimed(pool, key)
        assert (job.payload, job.content_type) == (b"1", "text/plain")
        assert job.event is not None
        assert (job.event.type, job.event.time) == ("shop:a:b:c", 5.0)
        assert job.event.extensions == {"ext": 1}

    async def test_what_is_over_not_due_or_anothers_is_left(self, pool: Pool, tenant: int) -> None:
        over = await store(pool, tenant, "over", status="COMPLETED", standing="done")
        other = await store(pool, tenant, "other", pool_no=2)
        later = await store(pool, tenant, "later")
        await pool.execute(
            "update dispatch_jobs set scheduled_for = now() + interval '1 minute'"
            " where job_id = 'later'"
        )
        assert await claim(pool, over, other, later, JobKey(tenant, "nobody")) == []
        assert await claim(pool, JobKey(tenant + 1, "later")) == []

    async def test_a_job_whose_owner_is_gone_can_be_taken(self, pool: Pool, tenant: int) -> None:
        key = await store(pool, tenant, "j")
        assert await claim(pool, key) == ["j"]
        assert await claim(pool, key, owner="you") == []
        await lease_over(pool, key)
        (job,) = await claimed(pool, key, owner="you")
        assert job.send_no == 2


async def test_the_anchor_learns_whose_event_it_gets(pool: Pool, tenant: int) -> None:
    event = {"event_tenant": tenant, "event_id": "e", "message_group": None}
    anchors = await store(pool, ANCHOR, "anchors", **event)
    own = await store(pool, tenant, "own", **event)
    found = {job.job_id: job.event_tenant for job in await claimed(pool, anchors, own)}
    assert found == {"anchors": "own", "own": None}
    (shown,) = await jobs.read_many(pool, ANCHOR, ["anchors"])
    assert shown.event_tenant == "own"
    (shown,) = await jobs.read_many(pool, tenant, ["own"])
    assert shown.event_tenant is None


class TestFinishing:
    async def test_what_became_is_written_with_its_attempt(self, pool: Pool, tenant: int) -> None:
        key = await store(pool, tenant, "j")
        await claim(pool, key)
        assert await finish(pool, key) == {key: 0.0}
        assert await field(pool, key, "status") == "COMPLETED"
        assert await field(pool, key, "standing") == "done"
        assert await field(pool, key, "lease_until is null and owner is null")
        row = await pool.fetchrow("select * from dispatch_attempts")
        assert row is not None
        assert (row["send_no"], row["attempt_number"], row["duration_ms"]) == (1, 1, 250)
        assert (row["status"], row["response_code"], row["response_body"]) == (
            "SUCCESS",
            200,
            "fine",
        )

    async def test_a_job_that_is_to_go_again_says_when(self, pool: Pool, tenant: int) -> None:
        key = await store(pool, tenant, "j")
        await claim(pool, key)
        again = JobTransition(status=JobStatus.QUEUED, attempt_count=1, attempt_number=1, wait=60.0)
        due = (await finish(pool, key, again, BAD))[key]
        assert due - await pool.fetchval("select extract(epoch from now())::float8") > 55
        (found,) = await JobQueue(pool, POOL).scan(0, 10)
        assert (found.due, found.retrying) == (due, True)
        assert await claim(pool, key) == []

    async def test_an_owner_who_lost_it_changes_nothing(self, pool: Pool, tenant: int) -> None:
        key = await store(pool, tenant, "j")
        await claim(pool, key)
        await lease_over(pool, key)
        await claim(pool, key, owner="you")
        assert await finish(pool, key, send_no=1) == {}
        assert await field(pool, key, "status") == "IN_PROGRESS"
        assert await finish(pool, key, send_no=2) == {key: 0.0}
        # Both were sent, and both are told of.
        assert await pool.fetchval("select count(*) from dispatch_attempts") == 2

    async def test_whatever_a_receiver_says_can_be_written(self, pool: Pool, tenant: int) -> None:
        key = await store(pool, tenant, "j")
        await claim(pool, key)
        odd = DeliveryAttempt(status=Came.SUCCESS, body="a\0b\ud800", error="\0", began_at=1.0)
        assert await finish(pool, key, sent=odd) == {key: 0.0}
        assert await pool.fetchval("select response_body from dispatch_attempts") == "a\ufffdb?"

    async def test_what_was_not_sent_has_no_attempt(self, pool: Pool, tenant: int) -> None:
        key = await store(pool, tenant, "j")
        await claim(pool, key)
        expired = JobTransition(
            status=JobStatus.EXPIRED, attempt_count=0, attempt_number=0, error="late"
        )
        assert await finish(pool, key, expired, None) == {key: 0.0}
        assert await field(pool, key, "status") == "EXPIRED"
        assert await pool.fetchval("select count(*) from dispatch_attempts") == 0


async def test_of_a_job_that_is_put_off_for_ever_the_latest_is_noted(
    pool: Pool, tenant: int
) -> None:
    key = await store(pool, tenant, "j", message_group="g")
    wait = JobTransition(status=JobStatus.QUEUED, attempt_count=0, attempt_number=1, wait=0.0)
    asks = DeliveryAttempt(status=Came.DEFERRED, delay=0.0, code=429)
    (job,) = await claimed(pool, key)
    await finish(pool, key, wait, BAD)
    for _ in range(3 * MAX_KEPT_DEFERRALS):
        (job,) = await claimed(pool, key)
        await finish(pool, key, wait, asks, job.send_no)
    kept = await pool.fetch("select send_no, status from dispatch_attempts order by send_no")
    assert tuple(kept[0]) == (1, "SERVER_ERROR")
    assert kept[-1]["send_no"] == job.send_no == 3 * MAX_KEPT_DEFERRALS + 1
    assert MAX_KEPT_DEFERRALS < len(kept) <= 2 * MAX_KEPT_DEFERRALS


class TestFinding:
    async def test_jobs_are_found_in_the_order_they_were_stored(
        self, pool: Pool, tenant: int
    ) -> None:
        names = ["c", "a", "b"]
        for name in names:
            await store(pool, tenant, name)
        await store(pool, tenant, "over", standing="done", status="COMPLETED")
        await store(pool, tenant, "other", pool_no=2)
        found = await JobQueue(pool, POOL).scan(0, 10)
        assert [job.job_id for job in found] == names
        rest = await JobQueue(pool, POOL).scan(found[0].position, 10)
        assert [job.job_id for job in rest] == names[1:]

    async def test_what_no_pool_has_is_found_again(self, pool: Pool, tenant: int) -> None:
        key = await store(pool, tenant, "j")
        assert await JobQueue(pool, POOL).unclaimed(0, 10) == []
        await job_queue.mark_pending(pool, [key])
        assert await field(pool, key, "status") == "PENDING"
        (found,) = await JobQueue(pool, POOL).unclaimed(0, 10)
        assert found.job_id == "j"
        assert await claim(pool, key) == ["j"]
        await job_queue.mark_pending(pool, [key])
        assert await field(pool, key, "status") == "IN_PROGRESS"

    async def test_what_nobody_has_any_more_is_found_when_its_time_is_over(
        self, pool: Pool, tenant: int
    ) -> None:
        gone = await store(pool, tenant, "gone")
        await claim(pool, gone)
        (found,) = await JobQueue(pool, POOL).scan(0, 10)
        lease = await field(pool, gone, "extract(epoch from lease_until)::float8")
        assert (found.job_id, found.due, found.retrying) == ("gone", lease, False)

    async def test_failed_jobs_are_told_from_those_that_hold_nobody(
        self, pool: Pool, tenant: int
    ) -> None:
        failed, ignored, again, done = [
            await store(pool, tenant, name, status=status, standing=standing)
            for name, status, standing in (
                ("failed", "ERROR", "error"),
                ("ignored", "ERROR", "done"),
                ("again", "PENDING", "again"),
                ("done", "COMPLETED", "done"),
            )
        ]
        gone = JobKey(tenant, "gone")
        told = await JobQueue(pool, POOL).not_failed([failed, ignored, again, done, gone])
        assert sorted(told) == sorted([ignored, again, done, gone])

    async def test_jobs_are_found_by_their_keys(self, pool: Pool, tenant: int) -> None:
        key = await store(pool, tenant, "j")
        over = await store(pool, tenant, "over", standing="done", status="COMPLETED")
        found = await JobQueue(pool, POOL).find([key, over])
        assert [job.key for job in found] == [key]

    async def test_a_group_is_read_with_what_holds_it(self, pool: Pool, tenant: int) -> None:
        group = GroupKey(tenant, "g")
        failed = await store(pool, tenant, "a", message_group="g")
        await store(pool, tenant, "b", message_group="g")
        await store(pool, tenant, "c", message_group="g", sequence=1, mode="NEXT_ON_ERROR")
        await store(pool, tenant, "d", message_group="g", mode="IMMEDIATE")
        await claim(pool, JobKey(tenant, "c"))
        await finish(pool, JobKey(tenant, "c"), FAILED, BAD)
        await claim(pool, failed)
        await finish(pool, failed, FAILED, BAD)
        nobody = GroupKey(tenant, "nobody")
        found = await JobQueue(pool, POOL).read_groups([group, nobody], 10)
        assert [(job.job_id, job.stuck) for job in found[group]] == [("a", True), ("b", False)]
        assert found[nobody] == []
        assert len((await JobQueue(pool, POOL).read_groups([group], 1))[group]) == 1

    async def test_people_can_hold_groups_back(self, pool: Pool, tenant: int) -> None:
        await pool.execute(
            "insert into dispatch_parked_groups (pool_no, tenant_id, message_group, parked_by)"
            " values ($1, $2, 'g', 'me')",
            POOL,
            tenant,
        )
        assert await JobQueue(pool, POOL).parked_groups() == {GroupKey(tenant, "g")}
        assert await JobQueue(pool, POOL + 1).parked_groups() == set()


async def test_a_pool_knows_the_size_of_what_it_has_not_read(pool: Pool, tenant: int) -> None:
    await pool.execute(
        "insert into events (tenant_id, event_id, spec_version, type, source, time, data)"
        " values ($1, 'e', '1.0', 't', 's', now(), $2)",
        tenant,
        b"x" * 100_000,
    )
    own = {"message_group": "g"}
    keys = [
        await store(pool, tenant, "task", payload=b"12345", **own),
        await store(pool, tenant, "none", payload=None, **own),
        await store(pool, tenant, "event", payload=None, event_tenant=tenant, event_id="e", **own),
    ]
    group = GroupKey(tenant, "g")
    sizes = [
        [one.size for one in await JobQueue(pool, POOL).scan(0, 10)],
        sorted(one.size for one in await JobQueue(pool, POOL).find(keys)),
        [one.size for one in (await JobQueue(pool, POOL).read_groups([group], 10))[group]],
    ]
    assert sizes == [[5, 0, 100_000], [0, 5, 100_000], [5, 0, 100_000]]
