"""Operators' actions on jobs: conditional updates that return the result for each job."""

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from core.dispatch.job import JobRef, JobStatus, Mode
from core.dispatch.job_actions import (
    ALLOWED_STATUSES,
    RESULTING_STATUS,
    Fate,
    JobAction,
    refusal_of,
)
from storage.postgres.pool import Pool
from storage.postgres.queries import Q


@dataclass(frozen=True, slots=True)
class JobActionResult:
    """The result for one job, and its earlier status if the job exists."""

    job_id: str
    fate: Fate
    previous_status: JobStatus | None = None
    pool_no: int = 0
    job_ref: JobRef | None = None


async def apply(
    pool: Pool, tenant: int, action: JobAction, job_ids: Sequence[str]
) -> list[JobActionResult]:
    """Apply an action to the jobs whose status permits it; return the results in their order."""
    if action is JobAction.REQUEUE:
        rows = await pool.fetch(Q["requeue_jobs"], tenant, list(job_ids))
    else:
        rows = await pool.fetch(
            Q["settle_jobs"],
            tenant,
            list(job_ids),
            [status.value for status in ALLOWED_STATUSES[action]],
            RESULTING_STATUS.get(action),
            action is JobAction.IGNORE,
        )
    found = {row["job_id"]: _result(tenant, action, row) for row in rows}
    return [found.get(job_id, JobActionResult(job_id, Fate.UNKNOWN)) for job_id in job_ids]


def _result(tenant: int, action: JobAction, row: asyncpg.Record) -> JobActionResult:
    job_id, was = row["job_id"], JobStatus(row["status"])
    if not row["changed"]:
        refusal = refusal_of(action, was, ignored=row["ignored"])
        return JobActionResult(job_id, refusal, was, row["pool_no"])
    ref = None
    if action is JobAction.REQUEUE:
        ref = JobRef(
            tenant=tenant,
            job_id=job_id,
            position=row["position"],
            target=row["target_url"],
            mode=Mode(row["mode"]),
            group=row["message_group"],
            sequence=row["sequence"],
        )
    return JobActionResult(job_id, Fate.DONE, was, row["pool_no"], ref)
