"""Jobs in a database, without anybody who delivers them."""

from collections.abc import Callable
from itertools import count
from typing import Any

from core.dispatch.job import JobStatus, Mode
from core.shared.tsid import IdMaker
from storage.dispatch import jobs
from storage.dispatch.jobs import NewJob
from storage.postgres.pool import Pool

NOW = 1_700_000_000.0
DEFAULT_POOL = 1


def id_maker(maker: int = 0) -> Callable[[], str]:
    """Ids of one test: each a millisecond later than the one before."""
    ticks = count()
    return IdMaker(maker, lambda: NOW + next(ticks) / 1000)


class JobFactory:
    """Posts jobs for a tenant and puts them where a test needs them."""

    def __init__(self, pool: Pool, tenant: int, pool_no: int) -> None:
        self.pool, self.tenant, self.pool_no = pool, tenant, pool_no
        self._new_id = id_maker(tenant)

    def new(self, **fields: Any) -> NewJob:
        """A job to post."""
        usual: dict[str, Any] = {
            "job_id": self._new_id(),
            "pool_no": self.pool_no,
            "code": "shop:orders:order:ship",
            "source": "test",
            "target_url": "http://127.0.0.1:9/",
            "payload": b"{}",
            "content_type": "application/json",
        }
        return NewJob(**usual | fields)

    async def post(self, **fields: Any) -> str:
        """Post one; its id."""
        (made,) = await jobs.create(self.pool, self.tenant, [self.new(**fields)])
        return made.job_id

    async def grouped(self, group: str, mode: Mode = Mode.BLOCK_ON_ERROR, **fields: Any) -> str:
        """Post one of a group."""
        return await self.post(message_group=group, mode=mode, **fields)

    async def put(self, job_id: str, status: JobStatus, standing: str, **columns: Any) -> None:
        """Let it stand as if a pool had been at work."""
        given = {"status": status.value, "standing": standing, **columns}
        sets = ", ".join(f"{name} = ${at}" for at, name in enumerate(given, start=3))
        statement = f"update dispatch_jobs set {sets} where tenant_id = $1 and job_id = $2"
        await self.pool.execute(statement, self.tenant, job_id, *given.values())

    async def fail(self, job_id: str, error: str = "HTTP 500") -> None:
        """Let it fail for good."""
        await self.put(job_id, JobStatus.ERROR, "error", last_error=error, attempt_count=3)
        await self.pool.execute(
            "update dispatch_jobs set last_attempt_at = now() where job_id = $1", job_id
        )

    async def take(self, job_id: str, seconds: float = 60.0) -> None:
        """Let somebody send it; their time is over in so many seconds."""
        await self.put(job_id, JobStatus.IN_PROGRESS, "open", owner="somebody", sends=1)
        await self.pool.execute(
            "update dispatch_jobs set lease_until = now() + $2 * interval '1 second'"
            " where job_id = $1",
            job_id,
            seconds,
        )

    async def status(self, job_id: str) -> tuple[str, str]:
        """How it stands."""
        row = await self.pool.fetchrow(
            "select status, standing from dispatch_jobs where tenant_id = $1 and job_id = $2",
            self.tenant,
            job_id,
        )
        assert row is not None
        return row["status"], row["standing"]


async def note_attempts(jobs: JobFactory, job_id: str, number: int) -> None:
    """Let it have been sent so often."""
    for send_no in range(1, number + 1):
        await jobs.pool.execute(
            "insert into dispatch_attempts (tenant_id, job_id, send_no, attempt_number,"
            " attempted_at, duration_ms, status) values ($1, $2, $3, $3, now(), 5, 'SUCCESS')",
            jobs.tenant,
            job_id,
            send_no,
        )
