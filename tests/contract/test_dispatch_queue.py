"""How a pool finds, takes and finishes its jobs: one owner at a time, each group in its order."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from core.dispatch.claimed import Claimed
from core.dispatch.job import ANCHOR, GroupKey, JobKey, JobStatus
from core.dispatch.outcome import TOO_LATE, ErrorType, Sent, Step
from core.dispatch.outcome import Result as Came
from core.dispatch.verbs import Verb
from storage import access, dispatch_jobs, dispatch_queue, dispatch_verbs, subscriptions
from storage.dispatch_queue import KEPT_DEFERRALS, Result
from storage.pool import Pool, PoolOptions, open_pool
from storage.queries import Q
from tests.support.subscriptions import subscription

POOL = 1
OLD, NEW = "https://old.example/hook", "https://new.example/hook"
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
        ended = await dispatch_queue.expire(pool, POOL, 10)
        assert sorted(ended) == sorted([behind, backoff, again])
        for key in ended:
            assert await field(pool, key, "status") == "EXPIRED"
            assert await field(pool, key, "standing") == "done"
            assert await field(pool, key, "completed_at is not null")
            assert await field(pool, key, "last_error") == TOO_LATE
        assert await field(pool, failed, "status") == "ERROR"
        assert await claim(pool, after) == ["after"]
        assert await dispatch_queue.expire(pool, POOL, 10) == []

    async def test_what_is_under_way_or_anothers_is_left(self, pool: Pool, tenant: int) -> None:
        sending = await self.late(pool, tenant, "sending")
        abandoned = await self.late(pool, tenant, "abandoned")
        assert len(await claim(pool, sending, abandoned)) == 2
        await lease_over(pool, abandoned)
        other = await self.late(pool, tenant, "other", pool_no=2)
        ended = await self.late(pool, tenant, "ended", status="COMPLETED", standing="done")
        in_time = await store(pool, tenant, "in_time")
        assert await dispatch_queue.expire(pool, POOL, 10) == [abandoned]
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
        rounds = await asyncio.gather(*(dispatch_queue.expire(pool, POOL, 8) for _ in range(3)))
        assert all(len(ended) <= 8 for ended in rounds)
        while more := await dispatch_queue.expire(pool, POOL, 8):
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


async def test_the_anchor_learns_whose_event_it_gets(pool: Pool, tenant: int) -> None:
    event = {"event_tenant": tenant, "event_id": "e", "message_group": None}
    anchors = await store(pool, ANCHOR, "anchors", **event)
    own = await store(pool, tenant, "own", **event)
    found = {job.job_id: job.event_tenant for job in await claimed(pool, anchors, own)}
    assert found == {"anchors": "own", "own": None}
    (shown,) = await dispatch_jobs.read_many(pool, ANCHOR, ["anchors"])
    assert shown.event_tenant == "own"
    (shown,) = await dispatch_jobs.read_many(pool, tenant, ["own"])
    assert shown.event_tenant is None


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
        [one.size for one in await dispatch_queue.scan(pool, POOL, 0, 10)],
        sorted(one.size for one in await dispatch_queue.find(pool, POOL, keys)),
        [one.size for one in (await dispatch_queue.read_groups(pool, POOL, [group], 10))[group]],
    ]
    assert sizes == [[5, 0, 100_000], [0, 5, 100_000], [5, 0, 100_000]]


async def test_of_a_job_that_is_put_off_for_ever_the_latest_is_noted(
    pool: Pool, tenant: int
) -> None:
    key = await store(pool, tenant, "j", message_group="g")
    wait = Step(status=JobStatus.QUEUED, attempt_count=0, attempt_number=1, wait=0.0)
    asks = Sent(status=Came.DEFERRED, delay=0.0, code=429)
    (job,) = await claimed(pool, key)
    await finish(pool, key, wait, BAD)
    for _ in range(3 * KEPT_DEFERRALS):
        (job,) = await claimed(pool, key)
        await finish(pool, key, wait, asks, job.send_no)
    kept = await pool.fetch("select send_no, status from dispatch_attempts order by send_no")
    assert tuple(kept[0]) == (1, "SERVER_ERROR")
    assert kept[-1]["send_no"] == job.send_no == 3 * KEPT_DEFERRALS + 1
    assert KEPT_DEFERRALS < len(kept) <= 2 * KEPT_DEFERRALS


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
            *await dispatch_queue.scan(pool, POOL, 0, 10),
            *await dispatch_queue.find(pool, POOL, [key]),
            *(await dispatch_queue.read_groups(pool, POOL, [group], 10))[group],
        ]
        await dispatch_queue.mark_pending(pool, [key])
        found += await dispatch_queue.again(pool, POOL, 0, 10)
        assert [one.target for one in found] == [NEW] * 4
        (shown,) = await dispatch_jobs.read_many(pool, key.tenant, [key.job_id])
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
        (shown,) = await dispatch_jobs.read_many(pool, key.tenant, [key.job_id])
        assert shown.target_url == NEW
        await dispatch_verbs.apply(pool, key.tenant, Verb.REQUEUE, [key.job_id])
        (job,) = await claimed(pool, key)
        assert job.target_url == NEW

    async def test_what_is_over_says_where_it_went(self, pool: Pool, key: JobKey) -> None:
        await pool.execute("update dispatch_jobs set status = 'COMPLETED', standing = 'done'")
        (shown,) = await dispatch_jobs.read_many(pool, key.tenant, [key.job_id])
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
