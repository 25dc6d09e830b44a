"""How a pool finds, takes and finishes its jobs: one owner at a time, each group in its order."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.dispatch.claimed import Claimed
from core.dispatch.job import GroupKey, JobKey, JobStatus
from core.dispatch.outcome import ErrorType, Sent, Step
from core.dispatch.outcome import Result as Came
from storage import access, dispatch_queue
from storage.dispatch_queue import Result
from storage.pool import Pool, PoolOptions, open_pool

POOL = 1
GRACE = 5.0
OK = Sent(status=Came.SUCCESS, code=200, body="fine", began_at=1_000.0, seconds=0.25)
BAD = Sent(status=Came.SERVER_ERROR, error_type=ErrorType.TRANSIENT, code=500, error="HTTP 500")
DONE = Step(status=JobStatus.COMPLETED, attempt_count=1, attempt_number=1)
FAILED = Step(status=JobStatus.ERROR, attempt_count=1, attempt_number=1, error="HTTP 500")


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test", max_size=8))
    yield opened
    await opened.close()


@pytest.fixture
async def tenant(pool: Pool) -> int:
    return await access.create_tenant(pool, "own")


async def store(pool: Pool, tenant: int, name: str, **fields: Any) -> JobKey:
    """Store one job of a group, or of none."""
    row: dict[str, Any] = {
        "tenant_id": tenant,
        "job_id": name,
        "pool_no": POOL,
        "kind": "TASK",
        "code": "task",
        "target_url": "http://127.0.0.1:9/hook",
        "mode": "BLOCK_ON_ERROR",
        "sequence": 99,
        "max_retries": 3,
        "timeout_seconds": 30,
        "data_only": True,
        "payload": b"{}",
    } | fields
    values = ", ".join(f"${at}" for at in range(1, len(row) + 1))
    await pool.execute(
        f"insert into dispatch_jobs ({', '.join(row)}) values ({values})", *row.values()
    )
    return JobKey(tenant, name)


async def claim(pool: Pool, *keys: JobKey, owner: str = "me") -> list[str]:
    return sorted(job.job_id for job in await claimed(pool, *keys, owner=owner))


async def claimed(pool: Pool, *keys: JobKey, owner: str = "me") -> list[Claimed]:
    return await dispatch_queue.claim(pool, POOL, keys, owner, GRACE)


async def finish(
    pool: Pool, key: JobKey, step: Step = DONE, sent: Sent | None = OK, send_no: int = 1
) -> dict[JobKey, float]:
    return await dispatch_queue.finish(pool, [Result(key, send_no, step, sent)])


async def field(pool: Pool, key: JobKey, name: str) -> Any:
    return await pool.fetchval(
        f"select {name} from dispatch_jobs where tenant_id = $1 and job_id = $2", *key
    )


async def lease_over(pool: Pool, key: JobKey) -> None:
    await pool.execute(
        "update dispatch_jobs set lease_until = now() - interval '1 second' where job_id = $1",
        key.job_id,
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


class TestOrder:
    async def test_one_that_blocks_waits_for_all_before_it(self, pool: Pool, tenant: int) -> None:
        first = await store(pool, tenant, "a", message_group="g")
        second = await store(pool, tenant, "b", message_group="g")
        assert await claim(pool, second) == []
        assert await claim(pool, first, second) == ["a"]
        await finish(pool, first, FAILED, BAD)
        assert await claim(pool, second) == []
        await pool.execute("update dispatch_jobs set standing = 'done' where job_id = 'a'")
        assert await claim(pool, second) == ["b"]

    async def test_others_pass_by_what_failed(self, pool: Pool, tenant: int) -> None:
        group = {"message_group": "g", "mode": "NEXT_ON_ERROR"}
        first = await store(pool, tenant, "a", **group)
        second = await store(pool, tenant, "b", **group)
        assert await claim(pool, second) == []  # the first was never sent
        assert await claim(pool, first) == ["a"]
        assert await claim(pool, second) == []  # and now it is under way
        again = Step(status=JobStatus.QUEUED, attempt_count=1, attempt_number=1, wait=60.0)
        await finish(pool, first, again, BAD)
        assert await claim(pool, second) == ["b"]

    async def test_sequence_groups_and_tenants(self, pool: Pool, tenant: int) -> None:
        other = await access.create_tenant(pool, "other")
        late = await store(pool, tenant, "late", message_group="g")
        soon = await store(pool, tenant, "soon", message_group="g", sequence=1)
        same = await store(pool, other, "same", message_group="g")
        none = await store(pool, tenant, "none")
        loose = await store(pool, tenant, "loose", message_group="g", mode="IMMEDIATE")
        keys = (late, soon, same, none, loose)
        assert await claim(pool, *keys) == ["loose", "none", "same", "soon"]


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
        again = Step(status=JobStatus.QUEUED, attempt_count=1, attempt_number=1, wait=60.0)
        due = (await finish(pool, key, again, BAD))[key]
        assert due - await pool.fetchval("select extract(epoch from now())::float8") > 55
        (found,) = await dispatch_queue.scan(pool, POOL, 0, 10)
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
        odd = Sent(status=Came.SUCCESS, body="a\0b\ud800", error="\0", began_at=1.0)
        assert await finish(pool, key, sent=odd) == {key: 0.0}
        assert await pool.fetchval("select response_body from dispatch_attempts") == "a\ufffdb?"

    async def test_what_was_not_sent_has_no_attempt(self, pool: Pool, tenant: int) -> None:
        key = await store(pool, tenant, "j")
        await claim(pool, key)
        expired = Step(status=JobStatus.EXPIRED, attempt_count=0, attempt_number=0, error="late")
        assert await finish(pool, key, expired, None) == {key: 0.0}
        assert await field(pool, key, "status") == "EXPIRED"
        assert await pool.fetchval("select count(*) from dispatch_attempts") == 0


class TestFinding:
    async def test_jobs_are_found_in_the_order_they_were_stored(
        self, pool: Pool, tenant: int
    ) -> None:
        names = ["c", "a", "b"]
        for name in names:
            await store(pool, tenant, name)
        await store(pool, tenant, "over", standing="done", status="COMPLETED")
        await store(pool, tenant, "other", pool_no=2)
        found = await dispatch_queue.scan(pool, POOL, 0, 10)
        assert [job.job_id for job in found] == names
        rest = await dispatch_queue.scan(pool, POOL, found[0].position, 10)
        assert [job.job_id for job in rest] == names[1:]

    async def test_what_no_pool_has_is_found_again(self, pool: Pool, tenant: int) -> None:
        key = await store(pool, tenant, "j")
        assert await dispatch_queue.again(pool, POOL, 0, 10) == []
        await dispatch_queue.mark_pending(pool, [key])
        assert await field(pool, key, "status") == "PENDING"
        (found,) = await dispatch_queue.again(pool, POOL, 0, 10)
        assert found.job_id == "j"
        assert await claim(pool, key) == ["j"]
        await dispatch_queue.mark_pending(pool, [key])
        assert await field(pool, key, "status") == "IN_PROGRESS"

    async def test_what_nobody_has_any_more_is_found_when_its_time_is_over(
        self, pool: Pool, tenant: int
    ) -> None:
        gone = await store(pool, tenant, "gone")
        await claim(pool, gone)
        (found,) = await dispatch_queue.scan(pool, POOL, 0, 10)
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
        told = await dispatch_queue.not_failed(pool, [failed, ignored, again, done, gone])
        assert sorted(told) == sorted([ignored, again, done, gone])

    async def test_jobs_are_found_by_their_keys(self, pool: Pool, tenant: int) -> None:
        key = await store(pool, tenant, "j")
        over = await store(pool, tenant, "over", standing="done", status="COMPLETED")
        found = await dispatch_queue.find(pool, POOL, [key, over])
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
        found = await dispatch_queue.read_groups(pool, POOL, [group, nobody], 10)
        assert [(job.job_id, job.stuck) for job in found[group]] == [("a", True), ("b", False)]
        assert found[nobody] == []
        assert len((await dispatch_queue.read_groups(pool, POOL, [group], 1))[group]) == 1

    async def test_people_can_hold_groups_back(self, pool: Pool, tenant: int) -> None:
        await pool.execute(
            "insert into dispatch_parked_groups (pool_no, tenant_id, message_group, parked_by)"
            " values ($1, $2, 'g', 'me')",
            POOL,
            tenant,
        )
        assert await dispatch_queue.parked_groups(pool, POOL) == {GroupKey(tenant, "g")}
        assert await dispatch_queue.parked_groups(pool, POOL + 1) == set()
