"""What the sweeper forgets of deliveries."""

from actors.sweeper import SEEN_AFTER, Sweeper
from core.config import Config
from core.dispatch.job import JobStatus
from core.messages import Message, Reply
from storage import access, dispatch_warnings, events
from storage.dispatch_warnings import NewWarning, Severity
from storage.pool import PoolOptions, open_pool
from tests.support.dispatch import NOW, Jobs
from tests.support.happenings import NOW as THEN
from tests.support.happenings import event, jobs, subscription


async def nobody(_: list[Message]) -> list[Reply]:
    raise AssertionError("nothing is stranded here")


async def test_jobs_of_every_tenant_and_old_warnings_go(database: str) -> None:
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    config = Config(dsn=database)
    for slug in ("acme", "other"):
        work = Jobs(pool, await access.create_tenant(pool, slug), 1)
        done = await work.post()
        await work.put(done, JobStatus.COMPLETED, "done")
        waiting = await work.post()
        warning = NewWarning(
            tenant=work.tenant,
            category="c",
            severity=Severity.WARNING,
            source="s",
            message="m",
        )
        await dispatch_warnings.warn(pool, warning)
        assert (await work.status(waiting))[1] == "open"
    await pool.execute(
        "update dispatch_warnings set last_at = now() - $1 * interval '1 second'"
        " where tenant_id = $2",
        SEEN_AFTER + 1,
        work.tenant,
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


async def test_an_event_goes_once_its_jobs_have_gone(database: str) -> None:
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    tenant = await access.create_tenant(pool, "acme")
    config = Config(dsn=database)
    ended, busy, alone = event(tenant), event(tenant), event(tenant)
    await events.flush(pool, [ended, busy, alone], jobs([ended, busy], subscription(tenant)))
    await pool.execute(
        "update dispatch_jobs set status = 'COMPLETED', standing = 'done', completed_at = now()"
        " where event_id = $1",
        ended.event_id,
    )

    def sweeper(now: float) -> Sweeper:
        return Sweeper(config, pool, nobody, lambda: now)

    assert await sweeper(THEN + config.retention - 1).forget() == 0
    assert await sweeper(THEN + config.retention + 1).forget() == 3
    assert await events.read(pool, tenant, busy.event_id) == busy
    assert await events.read(pool, tenant, ended.event_id) is None
    pool.terminate()
