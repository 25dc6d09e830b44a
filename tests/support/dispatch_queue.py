"""Jobs in a pool's queue, put there, taken and finished as a test wants it."""

from typing import Any

from core.dispatch.attempt import AttemptStatus as Came
from core.dispatch.attempt import DeliveryAttempt, ErrorType, JobTransition
from core.dispatch.claim import ClaimedJob
from core.dispatch.job import JobKey, JobStatus
from storage.dispatch.job_queue import JobQueue, JobResult
from storage.postgres.pool import Pool

POOL = 1
GRACE = 5.0
OK = DeliveryAttempt(status=Came.SUCCESS, code=200, body="fine", began_at=1_000.0, seconds=0.25)
BAD = DeliveryAttempt(
    status=Came.SERVER_ERROR, error_type=ErrorType.TRANSIENT, code=500, error="HTTP 500"
)
DONE = JobTransition(status=JobStatus.COMPLETED, attempt_count=1, attempt_number=1)
FAILED = JobTransition(status=JobStatus.ERROR, attempt_count=1, attempt_number=1, error="HTTP 500")


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


async def claimed(pool: Pool, *keys: JobKey, owner: str = "me") -> list[ClaimedJob]:
    return await JobQueue(pool, POOL, owner, GRACE).claim(keys)


async def finish(
    pool: Pool,
    key: JobKey,
    step: JobTransition = DONE,
    sent: DeliveryAttempt | None = OK,
    send_no: int = 1,
) -> dict[JobKey, float]:
    return await JobQueue(pool, 0).finish([JobResult(key, send_no, step, sent)])


async def field(pool: Pool, key: JobKey, name: str) -> Any:
    return await pool.fetchval(
        f"select {name} from dispatch_jobs where tenant_id = $1 and job_id = $2", *key
    )


async def lease_over(pool: Pool, key: JobKey) -> None:
    await pool.execute(
        "update dispatch_jobs set lease_until = now() - interval '1 second' where job_id = $1",
        key.job_id,
    )
