"""What people do with jobs: each a conditional update that tells what became of every one."""

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from core.dispatch.job import JobStatus, Mode, Pointer
from core.dispatch.job_actions import FROM, INTO, Fate, Verb, why_not
from storage.postgres.pool import Pool
from storage.postgres.queries import Q


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one job, and how it was before; neither that nor a pool if there is none."""

    job_id: str
    fate: Fate
    was: JobStatus | None = None
    pool_no: int = 0
    pointer: Pointer | None = None


async def apply(pool: Pool, tenant: int, verb: Verb, job_ids: Sequence[str]) -> list[Told]:
    """Do this with these jobs, as far as they let it be done; in their order."""
    if verb is Verb.REQUEUE:
        rows = await pool.fetch(Q["requeue_jobs"], tenant, list(job_ids))
    else:
        rows = await pool.fetch(
            Q["settle_jobs"],
            tenant,
            list(job_ids),
            [status.value for status in FROM[verb]],
            INTO.get(verb),
            verb is Verb.IGNORE,
        )
    found = {row["job_id"]: _told(tenant, verb, row) for row in rows}
    return [found.get(job_id, Told(job_id, Fate.UNKNOWN)) for job_id in job_ids]


def _told(tenant: int, verb: Verb, row: asyncpg.Record) -> Told:
    was = JobStatus(row["status"])
    changed = bool(row["changed"])
    return Told(
        row["job_id"],
        Fate.DONE if changed else why_not(verb, was, ignored=row["ignored"]),
        was,
        row["pool_no"],
        _pointer(tenant, row) if changed and verb is Verb.REQUEUE else None,
    )


def _pointer(tenant: int, row: asyncpg.Record) -> Pointer:
    return Pointer(
        tenant=tenant,
        job_id=row["job_id"],
        position=row["position"],
        target=row["target_url"],
        mode=Mode(row["mode"]),
        group=row["message_group"],
        sequence=row["sequence"],
    )
