"""What people do with jobs, and which are forgotten, on a real Postgres."""

import pytest

from core.dispatch.job import JobStatus, Mode
from core.dispatch.job_actions import Fate, JobAction
from core.shared.tsid import made_at
from storage.dispatch import job_actions
from storage.dispatch import jobs as dispatch_jobs
from storage.dispatch.jobs import JobFilter
from storage.postgres.bounded_scan import ScanPage
from tests.support.dispatch import DEFAULT_POOL, NOW, JobFactory, note_attempts

# What people do


async def fates(jobs: JobFactory, verb: JobAction, *job_ids: str) -> list[Fate]:
    told = await job_actions.apply(jobs.pool, jobs.tenant, verb, job_ids)
    assert [one.job_id for one in told] == list(job_ids)
    return [one.fate for one in told]


@pytest.mark.parametrize("status", [s for s in JobStatus if s is not JobStatus.IN_PROGRESS])
async def test_a_job_can_be_sent_anew_from_every_state_but_a_delivery(
    jobs: JobFactory, status: JobStatus
) -> None:
    job_id = await jobs.post(message_group="g", sequence=3, expires_at=NOW - 1)
    await jobs.put(job_id, status, "done", attempt_count=3, last_error="no", sends=4)
    await jobs.pool.execute(
        "update dispatch_jobs set ignored_at = now(), completed_at = now(), scheduled_for = now(),"
        " created_at = to_timestamp($1)",
        NOW - 101,
    )
    (told,) = await job_actions.apply(jobs.pool, jobs.tenant, JobAction.REQUEUE, [job_id])
    assert (told.fate, told.previous_status, told.pool_no) == (Fate.DONE, status, DEFAULT_POOL)
    assert told.job_ref is not None
    assert (told.job_ref.group, told.job_ref.sequence) == ("g", 3)
    job = await dispatch_jobs.read(jobs.pool, jobs.tenant, job_id)
    assert job is not None
    assert (job.status, job.standing) == (JobStatus.PENDING, "again")
    assert (job.attempt_count, job.last_error, job.sends) == (0, None, 4)
    assert job.ignored_at is job.completed_at is job.scheduled_for is None
    # As much time as it had.
    assert job.expires_at == pytest.approx(job.updated_at + 100, abs=1)


async def test_a_job_that_somebody_sends_stays_theirs(jobs: JobFactory) -> None:
    live, over = await jobs.post(), await jobs.post()
    await jobs.take(live)
    await jobs.take(over, -1)
    for verb in JobAction:
        assert await fates(jobs, verb, live) == [Fate.IN_PROGRESS]
    assert await fates(jobs, JobAction.CANCEL, over) == [Fate.IN_PROGRESS]
    assert await fates(jobs, JobAction.REQUEUE, live, over) == [Fate.IN_PROGRESS, Fate.DONE]
    assert await jobs.status(live) == ("IN_PROGRESS", "open")


async def test_a_pool_that_is_no_more_gets_nothing_to_do(jobs: JobFactory) -> None:
    job_id = await jobs.post()
    await jobs.fail(job_id)
    await jobs.pool.execute("update dispatch_pools set status = 'ARCHIVED'")
    assert await fates(jobs, JobAction.REQUEUE, job_id) == [Fate.POOL_ARCHIVED]
    assert await jobs.status(job_id) == ("ERROR", "error")


async def test_each_verb_says_what_became_of_each_job(jobs: JobFactory, others: JobFactory) -> None:
    queued, pending, failed, done = [await jobs.post() for _ in range(4)]
    await jobs.put(pending, JobStatus.PENDING, "again")
    await jobs.fail(failed)
    await jobs.put(done, JobStatus.COMPLETED, "done")
    theirs = await others.post()
    everything = (queued, pending, failed, done, theirs, "nobody")
    not_failed, unknown = Fate.NOT_FAILED, Fate.UNKNOWN
    fated = await fates(jobs, JobAction.COMPLETE, *everything)
    assert fated == [not_failed, not_failed, Fate.DONE, not_failed, unknown, unknown]
    assert await jobs.status(failed) == ("COMPLETED", "done")
    fated = await fates(jobs, JobAction.CANCEL, *everything)
    assert fated == [Fate.DONE, Fate.DONE, Fate.ENDED, Fate.ENDED, unknown, unknown]
    assert await jobs.status(queued) == await jobs.status(pending) == ("CANCELLED", "done")
    assert await others.status(theirs) == ("QUEUED", "open")
    assert await fates(others, JobAction.REQUEUE, queued) == [unknown]


async def test_what_is_ignored_stays_failed_and_holds_nobody(jobs: JobFactory) -> None:
    job_id = await jobs.post()
    await jobs.fail(job_id)
    assert await fates(jobs, JobAction.IGNORE, job_id) == [Fate.DONE]
    assert await jobs.status(job_id) == ("ERROR", "done")
    job = await dispatch_jobs.read(jobs.pool, jobs.tenant, job_id)
    assert job is not None
    assert job.ignored_at is not None
    assert job.last_error == "HTTP 500"
    for verb in (JobAction.IGNORE, JobAction.CANCEL, JobAction.COMPLETE):
        assert await fates(jobs, verb, job_id) == [Fate.ENDED]
    wish = JobFilter(statuses=(JobStatus.ERROR,), ignored=False)
    assert await dispatch_jobs.page(jobs.pool, jobs.tenant, wish, None, 9) == ScanPage([])


async def test_what_failed_since_a_time_is_found_oldest_first(jobs: JobFactory) -> None:
    old, one, two = [await jobs.post() for _ in range(3)]
    for job_id, at in ((old, NOW - 100), (one, NOW + 1), (two, NOW + 2)):
        await jobs.fail(job_id)
        await jobs.pool.execute(
            "update dispatch_jobs set last_attempt_at = to_timestamp($2) where job_id = $1",
            job_id,
            at,
        )
    wish = JobFilter(statuses=(JobStatus.ERROR,), ignored=False, failed_after=NOW)
    assert await dispatch_jobs.upcoming(jobs.pool, jobs.tenant, wish, None, 10) == ScanPage(
        [one, two]
    )
    assert await dispatch_jobs.upcoming(jobs.pool, jobs.tenant, wish, one, 10) == ScanPage([two])
    assert await dispatch_jobs.count(jobs.pool, jobs.tenant, wish, one, 10) == 1


# Forgetting


async def test_what_ended_long_ago_is_forgotten_with_its_attempts(
    jobs: JobFactory, others: JobFactory
) -> None:
    done, failed, waiting = [await jobs.post() for _ in range(3)]
    await jobs.put(done, JobStatus.COMPLETED, "done")
    await jobs.fail(failed)
    await note_attempts(jobs, done, 3)
    await note_attempts(jobs, waiting, 1)
    theirs = await others.post()
    await others.put(theirs, JobStatus.COMPLETED, "done")
    assert await dispatch_jobs.forget(jobs.pool, jobs.tenant, made_at(done), 100) == 0
    later = made_at(waiting) + 1
    assert await dispatch_jobs.forget(jobs.pool, jobs.tenant, later, 1) == 1
    assert await dispatch_jobs.forget(jobs.pool, jobs.tenant, later, 100) == 1
    assert await dispatch_jobs.forget(jobs.pool, jobs.tenant, later, 100) == 0
    left = await jobs.pool.fetch("select job_id from dispatch_jobs order by tenant_id")
    assert [row["job_id"] for row in left] == [waiting, theirs]
    assert await jobs.pool.fetchval("select count(*) from dispatch_attempts") == 1


async def test_what_holds_others_back_is_not_forgotten(jobs: JobFactory) -> None:
    head, held = await jobs.grouped("a"), await jobs.grouped("a")
    lone = await jobs.grouped("b")
    passed, passing = [await jobs.grouped("c", Mode.NEXT_ON_ERROR) for _ in range(2)]
    for job_id in (head, lone, passed):
        await jobs.fail(job_id)
    later = made_at(passing) + 1
    assert await dispatch_jobs.forget(jobs.pool, jobs.tenant, later, 100) == 2
    left = await jobs.pool.fetch("select job_id from dispatch_jobs order by job_id")
    assert [row["job_id"] for row in left] == [head, held, passing]
