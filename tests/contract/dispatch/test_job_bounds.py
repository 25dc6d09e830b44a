"""Jobs on a real Postgres: batches that are whole, and looks that end and have their index."""

import asyncio
from collections.abc import Sequence

import asyncpg
import pytest

from core.dispatch.job import JobStatus
from storage.dispatch import jobs as dispatch_jobs
from storage.dispatch.jobs import JobFilter, NewJob
from storage.postgres import bounded_scan
from storage.postgres.bounded_scan import ScanPage
from storage.postgres.queries import Q
from tests.support.dispatch import JobFactory
from tests.support.plans import plan_by_index

# Whether somebody waits for what this connection has not committed.
WAITED_FOR = (
    "select exists (select from pg_locks"
    " where not granted and pg_backend_pid() = any(pg_blocking_pids(pid)))"
)

BOUNDS = (1, "", "~")
OFF = (None,) * 16


async def test_a_batch_that_has_to_look_again_is_stored_whole_or_not_at_all(
    jobs: JobFactory, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = [jobs.new(), jobs.new(idempotency_key="k")]
    passes = 0
    columns = dispatch_jobs._columns

    def break_at_the_second(tenant: int, wishes: Sequence[NewJob]) -> list[list[object]]:
        nonlocal passes
        passes += 1
        if passes == 2:
            raise ConnectionError("gone")
        return columns(tenant, wishes)

    rival = await asyncpg.connect(database)
    try:
        held = rival.transaction()
        await held.start()
        await rival.execute(
            Q["create_jobs"], jobs.tenant, *columns(jobs.tenant, [jobs.new(idempotency_key="k")])
        )
        monkeypatch.setattr(dispatch_jobs, "_columns", break_at_the_second)
        storing = asyncio.create_task(dispatch_jobs.create(jobs.pool, jobs.tenant, batch))
        async with asyncio.timeout(30):
            while not await rival.fetchval(WAITED_FOR):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await held.commit()
        with pytest.raises(ConnectionError):
            await storing
        assert passes == 2
        assert await rival.fetchval("select count(*) from dispatch_jobs") == 1
    finally:
        await rival.close()
    monkeypatch.undo()
    made = await dispatch_jobs.create(jobs.pool, jobs.tenant, batch)
    assert [one.known for one in made] == [False, True]


async def test_a_look_reads_so_many_and_tells_where_it_ended(
    jobs: JobFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_scan, "SCAN_LIMIT", 3)
    ids = [await jobs.post(code="rare" if n in {0, 6} else "common") for n in range(7)]
    rare = JobFilter(code="rare")

    async def back(before: str | None) -> ScanPage[str, str]:
        return await dispatch_jobs.page(jobs.pool, jobs.tenant, rare, before, 10)

    async def ahead(after: str | None) -> ScanPage[str, str]:
        return await dispatch_jobs.upcoming(jobs.pool, jobs.tenant, rare, after, 10)

    assert await back(None) == ScanPage([ids[6]], ids[4])
    assert await back(ids[4]) == ScanPage([], ids[1])
    assert await back(ids[1]) == ScanPage([ids[0]])
    assert await back(ids[3]) == ScanPage([ids[0]])
    assert await ahead(None) == ScanPage([ids[0]], ids[2])
    assert await ahead(ids[2]) == ScanPage([], ids[5])
    assert await ahead(ids[5]) == ScanPage([ids[6]])
    for after, number in ((None, 1), (ids[0], 0), (ids[3], 1)):
        assert await dispatch_jobs.count(jobs.pool, jobs.tenant, rare, after, 10) == number


async def test_what_an_index_serves_is_found_however_far_it_is(
    jobs: JobFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_scan, "SCAN_LIMIT", 2)
    ids = [await jobs.post() for _ in range(6)]
    await jobs.fail(ids[0])
    failed = JobFilter(statuses=(JobStatus.ERROR,), ignored=False)
    assert await dispatch_jobs.page(jobs.pool, jobs.tenant, failed, None, 10) == ScanPage(ids[:1])
    everything = await dispatch_jobs.page(jobs.pool, jobs.tenant, JobFilter(), None, 10)
    assert everything == ScanPage(ids[::-1])


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
    assert index in await plan_by_index(database, query, arguments)


async def test_an_event_is_found_among_many(jobs: JobFactory) -> None:
    for _ in range(20):
        await dispatch_jobs.create(jobs.pool, jobs.tenant, [jobs.new() for _ in range(100)])
    await jobs.pool.execute("update dispatch_jobs set event_id = 'E' || position")
    await jobs.pool.execute("analyze dispatch_jobs")
    bounds, off = (jobs.tenant, "", "~"), (None,) * 16
    plan = await jobs.pool.fetch(
        f"explain {Q['list_jobs']}", *bounds, *off[:8], "E77", *off[9:], 10, 0
    )
    assert "dispatch_jobs_event" in "\n".join(row[0] for row in plan)
