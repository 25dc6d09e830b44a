"""Jobs as people see them, on a real Postgres: posted, listed, looked at."""

import asyncio

from core.dispatch.job import JobStatus, Kind, Mode
from core.dispatch.subscription import Signature
from core.shared.tsid import made_at
from storage.dispatch import jobs as dispatch_jobs
from storage.dispatch.jobs import Job, JobFilter, NewJob
from storage.postgres.bounded_scan import ScanPage
from tests.support.dispatch import DEFAULT_POOL, NOW, JobFactory, note_attempts

# Posting


async def test_a_job_is_kept_whole(jobs: JobFactory) -> None:
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
    pointer = new.to_job_ref(jobs.tenant, made.position)
    assert (pointer.due, pointer.group, pointer.place) == (NOW + 10.5, "g", (5, made.position))


async def test_a_batch_is_one_statement_and_keeps_its_order(jobs: JobFactory) -> None:
    news = [jobs.new(code=f"code-{number}") for number in range(100)]
    made = await dispatch_jobs.create(jobs.pool, jobs.tenant, news)
    assert [one.job_id for one in made] == [one.job_id for one in news]
    positions = [one.position for one in made]
    assert positions == sorted(positions)
    assert not any(one.known for one in made)


async def test_a_key_that_is_known_gives_the_first_job(
    jobs: JobFactory, others: JobFactory
) -> None:
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


async def test_of_many_who_post_one_key_at_once_one_makes_the_job(jobs: JobFactory) -> None:
    wishes = [[jobs.new(idempotency_key="k"), jobs.new()] for _ in range(8)]
    made = await asyncio.gather(
        *(dispatch_jobs.create(jobs.pool, jobs.tenant, wish) for wish in wishes)
    )
    assert len({both[0].job_id for both in made}) == 1
    assert [both[0].known for both in made].count(False) == 1
    assert await jobs.pool.fetchval("select count(*) from dispatch_jobs") == 9


# Looking


async def test_listings_are_newest_first_and_filtered(jobs: JobFactory, others: JobFactory) -> None:
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
    assert second == ScanPage([two, one])
    assert await dispatch_jobs.count(jobs.pool, jobs.tenant, JobFilter(), None, 2) == 2
    assert await dispatch_jobs.count(jobs.pool, jobs.tenant, JobFilter(), one, 9) == 2
    found = await dispatch_jobs.read_many(jobs.pool, jobs.tenant, [one, three])
    assert [job.job_id for job in found] == [three, one]
    assert all(job.payload is None for job in found)
    assert await dispatch_jobs.read_many(jobs.pool, others.tenant, [one]) == []
    assert await dispatch_jobs.read(jobs.pool, others.tenant, one) is None


async def test_times_are_exact_though_ids_are_looked_up(jobs: JobFactory) -> None:
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


async def test_an_events_job_shows_what_the_event_brings(jobs: JobFactory) -> None:
    await jobs.pool.execute(
        "insert into events (tenant_id, event_id, spec_version, type, source, time, data,"
        " content_type) values ($1, 'E1', '1.0', 't', 's', now(), $2, 'text/plain')",
        jobs.tenant,
        b"hello",
    )
    job_id = await jobs.post()
    await jobs.pool.execute(
        "update dispatch_jobs set kind = 'EVENT', event_tenant = $1, event_id = 'E1',"
        " payload = null, content_type = null",
        jobs.tenant,
    )
    job = await dispatch_jobs.read(jobs.pool, jobs.tenant, job_id)
    assert job is not None
    assert (job.payload, job.content_type) == (b"hello", "text/plain")
    found = await dispatch_jobs.page(jobs.pool, jobs.tenant, JobFilter(event_id="E1"), None, 10)
    assert found == ScanPage([job_id])


async def test_options_are_what_jobs_have(jobs: JobFactory, others: JobFactory) -> None:
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


async def test_attempts_come_in_pages_and_the_latest_at_once(
    jobs: JobFactory, others: JobFactory
) -> None:
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
