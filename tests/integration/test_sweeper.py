"""What the sweeper forgets of deliveries."""

from actors.sweeper import SEEN_AFTER, Sweeper
from core.config import Config
from core.dispatch.job import JobStatus
from core.messages import Message, Reply
from storage import access, dispatch_warnings
from storage.dispatch_warnings import NewWarning, Severity
from storage.pool import PoolOptions, open_pool
from tests.support.dispatch import NOW, Jobs


async def nobody(_: list[Message]) -> list[Reply]:
    raise AssertionError("nothing is stranded here")


async def test_jobs_of_every_tenant_and_old_warnings_go(database: str) -> None:
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    config = Config(dsn=database)
    for slug in ("acme", "other"):
        jobs = Jobs(pool, await access.create_tenant(pool, slug), 1)
        done = await jobs.post()
        await jobs.put(done, JobStatus.COMPLETED, "done")
        waiting = await jobs.post()
        warning = NewWarning(
            tenant=jobs.tenant,
            category="c",
            severity=Severity.WARNING,
            source="s",
            message="m",
        )
        await dispatch_warnings.warn(pool, warning)
        assert (await jobs.status(waiting))[1] == "open"
    await pool.execute(
        "update dispatch_warnings set last_at = now() - $1 * interval '1 second'"
        " where tenant_id = $2",
        SEEN_AFTER + 1,
        jobs.tenant,
    )

    def sweeper(now: float) -> Sweeper:
        return Sweeper(config, pool, nobody, lambda: now)

    assert await sweeper(NOW + config.retention - 1).forget() == 0
    assert await sweeper(NOW + config.retention + 1).forget() == 2
    assert await sweeper(NOW + config.retention + 1).forget() == 0
    assert await pool.fetchval("select count(*) from dispatch_jobs") == 2
    seen = "select count(*) from dispatch_warnings where acknowledged_by = 'muster'"
    assert await pool.fetchval(seen) == 1
    pool.terminate()
