"""Jobs as people see them, on a real Postgres."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from core.dispatch.job import JobStatus, Kind, Mode
from core.dispatch.verbs import Fate, Verb
from core.subscription import Signature
from core.tsid import made_at
from storage import access, dispatch_jobs, dispatch_verbs
from storage.dispatch_jobs import Job, JobFilter, NewJob
from storage.horizon import Found
from storage.pool import Pool, PoolOptions, open_pool
from storage.queries import Q
from tests.support.dispatch import NOW, Jobs

DEFAULT_POOL = 1


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test", plan_each_time=True))
    yield opened
    await opened.close()


@pytest.fixture
async def jobs(pool: Pool) -> Jobs:
    return Jobs(pool, await access.create_tenant(pool, "acme"), DEFAULT_POOL)


@pytest.fixture
async def others(pool: Pool) -> Jobs:
    return Jobs(pool, await access.create_tenant(pool, "other"), DEFAULT_POOL)


# Posting


async def test_a_job_is_kept_whole(jobs: Jobs) -> None:
    new = jobs.new(
        subject="order:7",
        correlation_id="c-1",
        external_id="x-1",
        message_group="g",
        mode=Mode.NEXT_ON_ERROR,
        sequence=5,
        max_retries=7,
        timeout_seconds=11,
        data_only=False,
        scheduled_for=NOW + 10.5,
        expires_at=NOW + 99,
        idempotency_key="once",
        payload=b'{"n":1}',
        headers={"X-Unit": "7"},
        auth={"type": "bearer", "token": "secret"},
        metadata=(("region", "eu"), ("é", "ü")),
        signature=Signature.CLASSIC,
        client_id="acme",
        schema_id="sch_1",
    )
    (made,) = await dispatch_jobs.create(jobs.pool, jobs.tenant, [new])
    assert (made.job_id, made.pool_no, made.known) == (new.job_id, DEFAULT_POOL, False)
    job = await dispatch_jobs.read(jobs.pool, jobs.tenant, new.job_id)
    assert job is not None
    assert (job.kind, job.status, job.pool_code) == (Kind.TASK, JobStatus.QUEUED, "default")
    kept = set(NewJob.__dataclass_fields__) & set(Job.__dataclass_fields__)
    assert len(kept) == 24
    for name in kept:
        assert getattr(job, name) == getattr(new, name), name
    assert job.has_auth
    assert "secret" not in repr((job, new))
    assert made.position == job.position
    pointer = new.to_pointer(jobs.tenant, made.position)
    assert (pointer.due, pointer.group, pointer.place) == (NOW + 10.5, "g", (5, made.position))


async def test_a_batch_is_one_statement_and_keeps_its_order(jobs: Jobs) -> None:
    news = [jobs.new(code=f"code-{number}") for number in range(100)]
    made = await dispatch_jobs.create(jobs.pool, jobs.tenant, news)
    assert [one.job_id for one in made] == [one.job_id for one in news]
    positions = [one.position for one in made]
    assert positions == sorted(positions)
    assert not any(one.known for one in made)


async def test_a_key_that_is_known_gives_the_first_job(jobs: Jobs, others: Jobs) -> None:
    first = await jobs.post(idempotency_key="k", code="first")
    again = [jobs.new(idempotency_key="k", code="second"), jobs.new(), jobs.new()]
    made = await dispatch_jobs.create(jobs.pool, jobs.tenant, again)
    assert [one.known for one in made] == [True, False, False]
    assert made[0].job_id == first
    twice = [jobs.new(idempotency_key="t"), jobs.new(idempotency_key="t")]
    made = await dispatch_jobs.create(jobs.pool, jobs.tenant, twice)
    assert [one.known for one in made] == [False, True]
    assert {one.job_id for one in made} == {twice[0].job_id}
    assert await others.post(idempotency_key="k") != first


async def test_of_many_who_post_one_key_at_once_one_makes_the_job(jobs: Jobs) -> None:
    wishes = [[jobs.new(idempotency_key="k"), jobs.new()] for _ in range(8)]
    made = await asyncio.gather(
        *(dispatch_jobs.create(jobs.pool, jobs.tenant, wish) for wish in wishes)
    )
    assert len({both[0].job_id for both in made}) == 1
    assert [both[0].known for both in made].count(False) == 1
    assert await jobs.pool.fetchval("select count(*) from dispatch_jobs") == 9


# Looking


async def test_listings_are_newest_first_and_filtered(jobs: Jobs, others: Jobs) -> None:
    one = await jobs.post(
        source="a", code="x", message_group="g", correlation_id="c", client_id="acme"
    )
    two = await jobs.post(source="a", code="y")
    three = await jobs.post(source="b", code="x")
    await others.post(source="a", code="x")
    await jobs.fail(two)
    await jobs.put(three, JobStatus.CANCELLED, "done")

    async def listed(before: str | None = None, limit: int = 10, **chosen: object) -> list[str]:
        wish = JobFilter(**chosen)  # type: ignore[arg-type]
        found = (await dispatch_jobs.page(jobs.pool, jobs.tenant, wish, before, limit)).items
        counted = await dispatch_jobs.count(jobs.pool, jobs.tenant, wish, None, 100)
        assert before or len(found) == min(limit, counted)
        ahead = (await dispatch_jobs.upcoming(jobs.pool, jobs.tenant, wish, None, 100)).items
        assert before or list(reversed(ahead))[:limit] == found
        return found

    assert await listed() == [three, two, one]
    assert await listed(limit=2) == [three, two]
    assert await listed(before=two) == [one]
    assert await listed(source="a") == [two, one]
    assert await listed(code="x", source="a") == [one]
    assert await listed(message_group="g") == await listed(correlation_id="c") == [one]
    assert await listed(client_id="acme") == [one]
    assert await listed(client_id="other") == []
    assert await listed(statuses=(JobStatus.QUEUED, JobStatus.ERROR)) == [two, one]
    assert await listed(statuses=(JobStatus.ERROR,), ignored=False) == [two]
    assert await listed(ignored=True) == await listed(event_id="e") == []
    assert await listed(subscription_id="s") == await listed(kind=Kind.EVENT) == []
    assert await listed(pools=(DEFAULT_POOL,)) == [three, two, one]
    assert await listed(pools=()) == []
    second = await dispatch_jobs.page(jobs.pool, jobs.tenant, JobFilter(), None, 2, 1)
    assert second == Found([two, one])
    assert await dispatch_jobs.count(jobs.pool, jobs.tenant, JobFilter(), None, 2) == 2
    assert await dispatch_jobs.count(jobs.pool, jobs.tenant, JobFilter(), one, 9) == 2
    found = await dispatch_jobs.read_many(jobs.pool, jobs.tenant, [one, three])
    assert [job.job_id for job in found] == [three, one]
    assert all(job.payload is None for job in found)
    assert await dispatch_jobs.read_many(jobs.pool, others.tenant, [one]) == []
    assert await dispatch_jobs.read(jobs.pool, others.tenant, one) is None


async def test_times_are_exact_though_ids_are_looked_up(jobs: Jobs) -> None:
    early, late = await jobs.post(), await jobs.post()
    at = made_at(early)
    for job_id, seconds in ((early, 0.25), (late, 0.75)):
        await jobs.pool.execute(
            "update dispatch_jobs set created_at = to_timestamp($2) where job_id = $1",
            job_id,
            at + seconds,
        )

    async def listed(after: float | None, before: float | None) -> list[str]:
        wish = JobFilter(
            created_after=None if after is None else at + after,
            created_before=None if before is None else at + before,
        )
        return (await dispatch_jobs.page(jobs.pool, jobs.tenant, wish, None, 10)).items

    assert await listed(0.25, 0.75) == [early]
    assert await listed(0.5, None) == [late]
    assert await listed(None, 0.25) == []
    assert await listed(None, 0.8) == [late, early]


async def test_an_events_job_shows_what_the_event_brings(jobs: Jobs, pool: Pool) -> None:
    await pool.execute(
        "insert into events (tenant_id, event_id, spec_version, type, source, time, data,"
        " content_type) values ($1, 'E1', '1.0', 't', 's', now(), $2, 'text/plain')",
        jobs.tenant,
        b"hello",
    )
    job_id = await jobs.post()
    await pool.execute(
        "update dispatch_jobs set kind = 'EVENT', event_tenant = $1, event_id = 'E1',"
        " payload = null, content_type = null",
        jobs.tenant,
    )
    job = await dispatch_jobs.read(pool, jobs.tenant, job_id)
    assert job is not None
    assert (job.payload, job.content_type) == (b"hello", "text/plain")
    found = await dispatch_jobs.page(pool, jobs.tenant, JobFilter(event_id="E1"), None, 10)
    assert found == Found([job_id])


async def test_options_are_what_jobs_have(jobs: Jobs, others: Jobs) -> None:
    await jobs.post(source="b", code="y")
    await jobs.post(source="a", code="x")
    await others.post(source="z", code="z")
    found = await dispatch_jobs.options(jobs.pool, jobs.tenant, 100)
    assert [(one.name, one.value) for one in found] == [
        ("code", "x"),
        ("code", "y"),
        ("pool", "default"),
        ("source", "a"),
        ("source", "b"),
    ]
    latest = await dispatch_jobs.options(jobs.pool, jobs.tenant, 1)
    assert {one.value for one in latest} == {"x", "a", "default"}


async def note_attempts(jobs: Jobs, job_id: str, number: int) -> None:
    for send_no in range(1, number + 1):
        await jobs.pool.execute(
            "insert into dispatch_attempts (tenant_id, job_id, send_no, attempt_number,"
            " attempted_at, duration_ms, status) values ($1, $2, $3, $3, now(), 5, 'SUCCESS')",
            jobs.tenant,
            job_id,
            send_no,
        )


async def test_attempts_come_in_pages_and_the_latest_at_once(jobs: Jobs, others: Jobs) -> None:
    job_id = await jobs.post()
    await note_attempts(jobs, job_id, 5)

    async def sent(after: int, limit: int) -> list[int]:
        found = await dispatch_jobs.attempts(jobs.pool, jobs.tenant, job_id, after, limit)
        return [attempt.send_no for attempt in found]

    assert await sent(0, 3) == [1, 2, 3]
    assert await sent(3, 3) == [4, 5]
    latest = await dispatch_jobs.latest_attempts(jobs.pool, jobs.tenant, job_id, 2)
    assert [attempt.send_no for attempt in latest] == [4, 5]
    assert await dispatch_jobs.attempts(jobs.pool, others.tenant, job_id, 0, 9) == []
    assert await dispatch_jobs.latest_attempts(jobs.pool, others.tenant, job_id, 9) == []


# What people do


async def fates(jobs: Jobs, verb: Verb, *job_ids: str) -> list[Fate]:
    told = await dispatch_verbs.apply(jobs.pool, jobs.tenant, verb, job_ids)
    assert [one.job_id for one in told] == list(job_ids)
    return [one.fate for one in told]


@pytest.mark.parametrize("status", [s for s in JobStatus if s is not JobStatus.IN_PROGRESS])
async def test_a_job_can_be_sent_anew_from_every_state_but_a_delivery(
    jobs: Jobs, status: JobStatus
) -> None:
    job_id = await jobs.post(message_group="g", sequence=3, expires_at=NOW - 1)
    await jobs.put(job_id, status, "done", attempt_count=3, last_error="no", sends=4)
    await jobs.pool.execute(
        "update dispatch_jobs set ignored_at = now(), completed_at = now(), scheduled_for = now(),"
        " created_at = to_timestamp($1)",
        NOW - 101,
    )
    (told,) = await dispatch_verbs.apply(jobs.pool, jobs.tenant, Verb.REQUEUE, [job_id])
    assert (told.fate, told.was, told.pool_no) == (Fate.DONE, status, DEFAULT_POOL)
    assert told.pointer is not None
    assert (told.pointer.group, told.pointer.sequence) == ("g", 3)
    job = await dispatch_jobs.read(jobs.pool, jobs.tenant, job_id)
    assert job is not None
    assert (job.status, job.standing) == (JobStatus.PENDING, "again")
    assert (job.attempt_count, job.last_error, job.sends) == (0, None, 4)
    assert job.ignored_at is job.completed_at is job.scheduled_for is None
    # As much time as it had.
    assert job.expires_at == pytest.approx(job.updated_at + 100, abs=1)


async def test_a_job_that_somebody_sends_stays_theirs(jobs: Jobs) -> None:
    live, over = await jobs.post(), await jobs.post()
    await jobs.take(live)
    await jobs.take(over, -1)
    for verb in Verb:
        assert await fates(jobs, verb, live) == [Fate.IN_PROGRESS]
    assert await fates(jobs, Verb.CANCEL, over) == [Fate.IN_PROGRESS]
    assert await fates(jobs, Verb.REQUEUE, live, over) == [Fate.IN_PROGRESS, Fate.DONE]
    assert await jobs.status(live) == ("IN_PROGRESS", "open")


async def test_a_pool_that_is_no_more_gets_nothing_to_do(jobs: Jobs, pool: Pool) -> None:
    job_id = await jobs.post()
    await jobs.fail(job_id)
    await pool.execute("update dispatch_pools set status = 'ARCHIVED'")
    assert await fates(jobs, Verb.REQUEUE, job_id) == [Fate.POOL_ARCHIVED]
    assert await jobs.status(job_id) == ("ERROR", "error")


async def test_each_verb_says_what_became_of_each_job(jobs: Jobs, others: Jobs) -> None:
    queued, pending, failed, done = [await jobs.post() for _ in range(4)]
    await jobs.put(pending, JobStatus.PENDING, "again")
    await jobs.fail(failed)
    await jobs.put(done, JobStatus.COMPLETED, "done")
    theirs = await others.post()
    everything = (queued, pending, failed, done, theirs, "nobody")
    not_failed, unknown = Fate.NOT_FAILED, Fate.UNKNOWN
    fated = await fates(jobs, Verb.COMPLETE, *everything)
    assert fated == [not_failed, not_failed, Fate.DONE, not_failed, unknown, unknown]
    assert await jobs.status(failed) == ("COMPLETED", "done")
    fated = await fates(jobs, Verb.CANCEL, *everything)
    assert fated == [Fate.DONE, Fate.DONE, Fate.ENDED, Fate.ENDED, unknown, unknown]
    assert await jobs.status(queued) == await jobs.status(pending) == ("CANCELLED", "done")
    assert await others.status(theirs) == ("QUEUED", "open")
    assert await fates(others, Verb.REQUEUE, queued) == [unknown]


async def test_what_is_ignored_stays_failed_and_holds_nobody(jobs: Jobs) -> None:
    job_id = await jobs.post()
    await jobs.fail(job_id)
    assert await fates(jobs, Verb.IGNORE, job_id) == [Fate.DONE]
    assert await jobs.status(job_id) == ("ERROR", "done")
    job = await dispatch_jobs.read(jobs.pool, jobs.tenant, job_id)
    assert job is not None
    assert job.ignored_at is not None
    assert job.last_error == "HTTP 500"
    for verb in (Verb.IGNORE, Verb.CANCEL, Verb.COMPLETE):
        assert await fates(jobs, verb, job_id) == [Fate.ENDED]
    wish = JobFilter(statuses=(JobStatus.ERROR,), ignored=False)
    assert await dispatch_jobs.page(jobs.pool, jobs.tenant, wish, None, 9) == Found([])


async def test_what_failed_since_a_time_is_found_oldest_first(jobs: Jobs) -> None:
    old, one, two = [await jobs.post() for _ in range(3)]
    for job_id, at in ((old, NOW - 100), (one, NOW + 1), (two, NOW + 2)):
        await jobs.fail(job_id)
        await jobs.pool.execute(
            "update dispatch_jobs set last_attempt_at = to_timestamp($2) where job_id = $1",
            job_id,
            at,
        )
    wish = JobFilter(statuses=(JobStatus.ERROR,), ignored=False, failed_after=NOW)
    assert await dispatch_jobs.upcoming(jobs.pool, jobs.tenant, wish, None, 10) == Found([one, two])
    assert await dispatch_jobs.upcoming(jobs.pool, jobs.tenant, wish, one, 10) == Found([two])
    assert await dispatch_jobs.count(jobs.pool, jobs.tenant, wish, one, 10) == 1


# Forgetting


async def test_what_ended_long_ago_is_forgotten_with_its_attempts(
    jobs: Jobs, others: Jobs, pool: Pool
) -> None:
    done, failed, waiting = [await jobs.post() for _ in range(3)]
    await jobs.put(done, JobStatus.COMPLETED, "done")
    await jobs.fail(failed)
    await note_attempts(jobs, done, 3)
    await note_attempts(jobs, waiting, 1)
    theirs = await others.post()
    await others.put(theirs, JobStatus.COMPLETED, "done")
    assert await dispatch_jobs.forget(pool, jobs.tenant, made_at(done), 100) == 0
    later = made_at(waiting) + 1
    assert await dispatch_jobs.forget(pool, jobs.tenant, later, 1) == 1
    assert await dispatch_jobs.forget(pool, jobs.tenant, later, 100) == 1
    assert await dispatch_jobs.forget(pool, jobs.tenant, later, 100) == 0
    left = await pool.fetch("select job_id from dispatch_jobs order by tenant_id")
    assert [row["job_id"] for row in left] == [waiting, theirs]
    assert await pool.fetchval("select count(*) from dispatch_attempts") == 1


async def test_what_holds_others_back_is_not_forgotten(jobs: Jobs, pool: Pool) -> None:
    head, held = await jobs.grouped("a"), await jobs.grouped("a")
    lone = await jobs.grouped("b")
    passed, passing = [await jobs.grouped("c", Mode.NEXT_ON_ERROR) for _ in range(2)]
    for job_id in (head, lone, passed):
        await jobs.fail(job_id)
    later = made_at(passing) + 1
    assert await dispatch_jobs.forget(pool, jobs.tenant, later, 100) == 2
    left = await pool.fetch("select job_id from dispatch_jobs order by job_id")
    assert [row["job_id"] for row in left] == [head, held, passing]


# Plans


BOUNDS = (1, "", "~")
OFF = (None,) * 16


@pytest.mark.parametrize(
    ("query", "arguments", "index"),
    [
        ("look_back_at_jobs", (*BOUNDS, 9), "dispatch_jobs_pkey"),
        ("look_ahead_at_jobs", (*BOUNDS, 9), "dispatch_jobs_pkey"),
        ("list_jobs", (*BOUNDS, *OFF, 10, 0), "dispatch_jobs_pkey"),
        ("next_jobs", (*BOUNDS, *OFF, 10), "dispatch_jobs_pkey"),
        ("next_jobs", (*BOUNDS, ["ERROR"], "error", False, *OFF[3:], 10), "dispatch_jobs_error"),
        ("count_jobs", (*BOUNDS, *OFF, 10), "dispatch_jobs_pkey"),
        ("read_jobs", (1, ["a"], True), "dispatch_jobs_pkey"),
        ("read_jobs", (1, ["a"], True), "on events e"),
        ("list_attempts", (1, "a", 0, 10), "dispatch_attempts_pkey"),
        ("latest_attempts", (1, "a", 10), "dispatch_attempts_pkey"),
        ("requeue_jobs", (1, ["a"]), "dispatch_jobs_pkey"),
        ("settle_jobs", (1, ["a"], ["ERROR"], "CANCELLED", False), "dispatch_jobs_pkey"),
        ("forget_jobs", (1, "Z", 10), "dispatch_jobs_group"),
    ],
)
async def test_each_look_has_its_index(
    database: str, query: str, arguments: tuple[object, ...], index: str
) -> None:
    conn = await asyncpg.connect(database)
    try:
        await conn.execute(
            "set enable_seqscan = off; set enable_bitmapscan = off;"
            " set plan_cache_mode = force_custom_plan"
        )
        plan = await conn.fetch(f"explain {Q[query]}", *arguments)
    finally:
        await conn.close()
    assert index in "\n".join(row[0] for row in plan)


async def test_an_event_is_found_among_many(jobs: Jobs, pool: Pool) -> None:
    for _ in range(20):
        await dispatch_jobs.create(pool, jobs.tenant, [jobs.new() for _ in range(100)])
    await pool.execute("update dispatch_jobs set event_id = 'E' || position")
    await pool.execute("analyze dispatch_jobs")
    bounds, off = (jobs.tenant, "", "~"), (None,) * 16
    plan = await pool.fetch(f"explain {Q['list_jobs']}", *bounds, *off[:8], "E77", *off[9:], 10, 0)
    assert "dispatch_jobs_event" in "\n".join(row[0] for row in plan)
