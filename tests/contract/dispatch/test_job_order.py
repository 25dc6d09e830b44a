"""Each group goes in its order, and does not wait for what holds nobody or is past its time."""

import asyncio
import json
from typing import Any

import pytest

from core.dispatch.attempt import EXPIRED_MESSAGE, JobTransition
from core.dispatch.job import JobKey, JobStatus
from storage.access import keys as access
from storage.dispatch.job_queue import JobQueue
from storage.postgres.pool import Pool
from storage.postgres.queries import Q
from tests.support.dispatch_queue import (
    BAD,
    FAILED,
    GRACE,
    POOL,
    claim,
    field,
    finish,
    lease_over,
    store,
)


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
        again = JobTransition(status=JobStatus.QUEUED, attempt_count=1, attempt_number=1, wait=60.0)
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


class TestManyFailures:
    """What failed in a group and holds nobody costs nobody anything."""

    MANY = 5_000

    async def poison(self, pool: Pool, tenant: int, mode: str) -> JobKey:
        """A group with many that failed, and one behind them."""
        await pool.execute(
            "insert into dispatch_jobs (tenant_id, job_id, pool_no, kind, code, target_url,"
            " message_group, mode, sequence, max_retries, timeout_seconds, data_only, status,"
            " standing, sends) select $1, 'E' || n, 1, 'TASK', 'c', 't', 'g', 'NEXT_ON_ERROR', 99,"
            " 3, 30, true, 'ERROR', 'error', 3 from generate_series(1, $2::integer) n",
            tenant,
            self.MANY,
        )
        key = await store(pool, tenant, "next", message_group="g", mode=mode)
        await pool.execute("analyze dispatch_jobs")
        return key

    @pytest.mark.parametrize("mode", ["NEXT_ON_ERROR", "BLOCK_ON_ERROR"])
    @pytest.mark.parametrize("query", ["claim_jobs", "read_groups"])
    async def test_they_are_not_read(self, pool: Pool, tenant: int, mode: str, query: str) -> None:
        key = await self.poison(pool, tenant, mode)
        arguments: dict[str, tuple[object, ...]] = {
            "claim_jobs": ([key.tenant], [key.job_id], POOL, "me", GRACE),
            "read_groups": (POOL, [tenant], ["g"], 100),
        }
        told = await pool.fetchval(
            f"explain (analyze, buffers, format json) {Q[query]}", *arguments[query]
        )
        plan = json.loads(told)[0]["Plan"]
        touched = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        assert touched < 60, told
        assert ['"Rows Removed by Filter": 5000' in told, plan["Actual Rows"]] == [False, 1]


class TestExpiry:
    """What is past its time ends by itself, whoever stands before it."""

    async def late(self, pool: Pool, tenant: int, name: str, **fields: Any) -> JobKey:
        key = await store(pool, tenant, name, **fields)
        await pool.execute(
            "update dispatch_jobs set expires_at = now() - interval '1 second' where job_id = $1",
            name,
        )
        return key

    async def test_what_waits_ends_and_its_group_goes_on(self, pool: Pool, tenant: int) -> None:
        group = {"message_group": "g"}
        failed = await store(pool, tenant, "failed", status="ERROR", standing="error", **group)
        behind = await self.late(pool, tenant, "behind", **group)
        backoff = await self.late(pool, tenant, "backoff", message_group="h", sends=1)
        again = await self.late(pool, tenant, "again", status="PENDING", standing="again")
        after = await store(pool, tenant, "after", message_group="h")
        assert await claim(pool, behind, after) == []
        ended = await JobQueue(pool, POOL).expire(10)
        assert sorted(ended) == sorted([behind, backoff, again])
        for key in ended:
            assert await field(pool, key, "status") == "EXPIRED"
            assert await field(pool, key, "standing") == "done"
            assert await field(pool, key, "completed_at is not null")
            assert await field(pool, key, "last_error") == EXPIRED_MESSAGE
        assert await field(pool, failed, "status") == "ERROR"
        assert await claim(pool, after) == ["after"]
        assert await JobQueue(pool, POOL).expire(10) == []

    async def test_what_is_under_way_or_anothers_is_left(self, pool: Pool, tenant: int) -> None:
        sending = await self.late(pool, tenant, "sending")
        abandoned = await self.late(pool, tenant, "abandoned")
        assert len(await claim(pool, sending, abandoned)) == 2
        await lease_over(pool, abandoned)
        other = await self.late(pool, tenant, "other", pool_no=2)
        ended = await self.late(pool, tenant, "ended", status="COMPLETED", standing="done")
        in_time = await store(pool, tenant, "in_time")
        assert await JobQueue(pool, POOL).expire(10) == [abandoned]
        assert await field(pool, sending, "status") == "IN_PROGRESS"
        assert await finish(pool, sending) == {sending: 0.0}, "its owner has the last word"
        assert await finish(pool, abandoned) == {}
        assert await field(pool, abandoned, "status") == "EXPIRED"
        for key in (other, in_time):
            assert await field(pool, key, "status") == "QUEUED"
        assert await field(pool, ended, "status") == "COMPLETED"

    async def test_a_round_is_bounded_and_two_do_not_wait_for_each_other(
        self, pool: Pool, tenant: int
    ) -> None:
        keys = [await self.late(pool, tenant, f"j{at}") for at in range(30)]
        rounds = await asyncio.gather(*(JobQueue(pool, POOL).expire(8) for _ in range(3)))
        assert all(len(ended) <= 8 for ended in rounds)
        while more := await JobQueue(pool, POOL).expire(8):
            rounds.append(more)
        assert sorted(key for ended in rounds for key in ended) == sorted(keys)

    @pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
    async def test_those_in_time_are_not_read(self, pool: Pool, tenant: int, filled: bool) -> None:
        if filled:
            await pool.execute(
                "insert into dispatch_jobs (tenant_id, job_id, pool_no, kind, code, target_url,"
                " message_group, mode, sequence, max_retries, timeout_seconds, data_only,"
                " expires_at) select $1, 'J' || n, 1, 'TASK', 'c', 't', 'g' || n % 100,"
                " 'BLOCK_ON_ERROR', 99, 3, 30, true, now() + interval '1 day'"
                " from generate_series(1, 20000) n",
                tenant,
            )
            await self.late(pool, tenant, "late")
        told = await pool.fetchval(
            f"explain (analyze, buffers, format json) {Q['expire_jobs']}", POOL, 1_000, "late"
        )
        plan = json.loads(told)[0]["Plan"]
        assert '"Index Name": "dispatch_jobs_expiry"' in told
        assert '"Node Type": "Seq Scan"' not in told
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 60, told
        assert plan["Actual Rows"] == int(filled)
