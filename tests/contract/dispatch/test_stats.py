"""How deliveries fare, counted on a real Postgres."""

import asyncpg
import pytest

from core.dispatch.job import JobStatus
from core.shared.tsid import made_at
from storage.access import keys
from storage.dispatch import stats
from storage.dispatch.stats import OutcomeCounts
from storage.operations import warnings
from storage.operations.warnings import NewWarning, Severity
from storage.postgres.queries import Q
from tests.support.dispatch import JobFactory


async def test_the_last_minutes_are_counted_by_when_jobs_were_made(jobs: JobFactory) -> None:
    others = JobFactory(jobs.pool, await keys.create_tenant(jobs.pool, "other"), 1)
    await others.fail(await others.post())
    first, second, third, _ = [await jobs.post() for _ in range(4)]
    await jobs.put(first, JobStatus.COMPLETED, "done")
    await jobs.fail(second)
    await jobs.put(third, JobStatus.COMPLETED, "done")

    async def counted(since: str, lately: str, most: int = 100) -> object:
        return await stats.recent_outcomes(
            jobs.pool, jobs.tenant, made_at(since), made_at(lately), most
        )

    assert await counted(first, third) == {1: (OutcomeCounts(2, 1), OutcomeCounts(1, 0))}
    assert await counted(second, second) == {1: (OutcomeCounts(1, 1), OutcomeCounts(1, 1))}
    assert await counted(first, first, most=2) == {1: (OutcomeCounts(1, 0), OutcomeCounts(1, 0))}


async def test_open_warnings_are_counted_by_severity(jobs: JobFactory) -> None:
    for source, severity in (("a", Severity.ERROR), ("b", Severity.ERROR), ("c", Severity.INFO)):
        last = await warnings.warn(
            jobs.pool,
            NewWarning(
                tenant=jobs.tenant, category="c", severity=severity, source=source, message="m"
            ),
        )
    await warnings.acknowledge(jobs.pool, jobs.tenant, last, "me")
    assert await warnings.count_open(jobs.pool, jobs.tenant) == {"ERROR": 2}
    assert await warnings.count_open(jobs.pool, jobs.tenant + 1) == {}


async def test_a_count_reads_so_many_whatever_they_are(jobs: JobFactory) -> None:
    others = JobFactory(jobs.pool, await keys.create_tenant(jobs.pool, "other"), 1)
    await others.post()
    await jobs.post()

    async def waiting(looks: int) -> int:
        (row,) = await jobs.pool.fetch(Q["queue_sizes"], jobs.tenant, [1], 10, looks)
        ready: int = row["ready"]
        return ready

    assert (await waiting(1), await waiting(2)) == (0, 1)
    blocking = await jobs.grouped("g")
    await jobs.fail(blocking)
    await jobs.fail(await jobs.post())
    for query, arguments in (
        ("blocked_groups", (10,)),
        ("failed_groups", (jobs.tenant, -1, "", [1], 10)),
    ):
        assert len(await jobs.pool.fetch(Q[query], *arguments, 2)) == 1
    failed = await jobs.pool.fetch(Q["failed_groups"], jobs.tenant, -1, "", [1], 10, 1)
    assert failed == []  # the newest that failed is in no group


@pytest.mark.parametrize(
    ("query", "arguments", "index"),
    [
        ("backlogs", (10,), "dispatch_jobs_open"),
        ("queue_sizes", (1, [1], 10, 10), "dispatch_jobs_open"),
        ("recent_outcomes", (1, "0", "1", 10), "dispatch_jobs_pkey"),
    ],
)
async def test_counting_has_its_index(
    database: str, query: str, arguments: tuple[object, ...], index: str
) -> None:
    conn = await asyncpg.connect(database)
    try:
        await conn.execute("set enable_seqscan = off; set enable_bitmapscan = off")
        plan = await conn.fetch(f"explain {Q[query]}", *arguments)
    finally:
        await conn.close()
    assert index in "\n".join(row[0] for row in plan)
