"""Actions on dispatch jobs over HTTP: on one of them, or on many with progress."""

import structlog

from core.access.permissions import Permission
from core.dispatch.job import JobStatus
from core.dispatch.job_actions import JobAction
from serve_app.dispatch import job_service
from serve_app.dispatch.job_models import JobChoice, RecoverRequest
from serve_app.dispatch.job_service import JobActionRound
from serve_app.dispatch.job_views import JobItem, JobsChanged, JobsRequeued
from serve_app.dispatch.jobs import JOB_PATH, JobName
from serve_app.http.router import Context, HttpRouter, unless_missing
from storage.dispatch import jobs
from storage.dispatch.jobs import JobFilter

# The jobs that each action is for, unless the caller names a status.
DEFAULT_STATUSES = {
    JobAction.REQUEUE: (JobStatus.ERROR,),
    JobAction.CANCEL: (JobStatus.QUEUED, JobStatus.PENDING),
    JobAction.COMPLETE: (JobStatus.ERROR,),
    JobAction.IGNORE: (JobStatus.ERROR,),
}

log = structlog.get_logger("dispatch_jobs")

router = HttpRouter("/api/dispatch-jobs", tag="dispatch jobs", writes=Permission.DISPATCH_WRITE)


@router.post("/requeue", logs=False)
async def requeue_dispatch_jobs(body: JobChoice, context: Context) -> JobsRequeued:
    """Deliver jobs again as if they were new: ids, a filter, or all that failed."""
    return JobsRequeued.of(await _apply(context, JobAction.REQUEUE, body))


@router.post("/cancel", logs=False)
async def cancel_dispatch_jobs(body: JobChoice, context: Context) -> JobsChanged:
    """Cancel jobs: ids, a filter, or all that wait."""
    return JobsChanged.of(await _apply(context, JobAction.CANCEL, body))


@router.post("/complete", logs=False)
async def complete_dispatch_jobs(body: JobChoice, context: Context) -> JobsChanged:
    """Mark failed jobs as completed: ids, a filter, or all that failed."""
    return JobsChanged.of(await _apply(context, JobAction.COMPLETE, body))


@router.post("/ignore", logs=False)
async def ignore_dispatch_jobs(body: JobChoice, context: Context) -> JobsChanged:
    """Ignore failed jobs: ids, a filter, or all that failed; their groups continue."""
    return JobsChanged.of(await _apply(context, JobAction.IGNORE, body))


@router.post("/recover", logs=False)
async def recover_dispatch_jobs(body: RecoverRequest, context: Context) -> JobsRequeued:
    """Deliver again what failed since a time, oldest first, a bounded number a call."""
    wanted = body.to_filter(await job_service.find_pool_numbers(context, body.pool_names))
    return JobsRequeued.of(await _apply_to_next(context, JobAction.REQUEUE, wanted, body))


@router.post(f"{JOB_PATH}/requeue", refuses=(404, 409))
async def requeue_dispatch_job(job_id: JobName, context: Context) -> JobItem:
    """Deliver a job again as if it were new, unless it is being delivered."""
    return await _apply_to_one(context, JobAction.REQUEUE, job_id)


@router.post(f"{JOB_PATH}/resend", refuses=(404, 409))
async def resend_dispatch_job(job_id: JobName, context: Context) -> JobItem:
    """Deliver a job once more, however it ended: the same as requeue. Its id and its key stay."""
    return await _apply_to_one(context, JobAction.REQUEUE, job_id)


@router.post(f"{JOB_PATH}/cancel", refuses=(404, 409))
async def cancel_dispatch_job(job_id: JobName, context: Context) -> JobItem:
    """Cancel a job that waits or has failed."""
    return await _apply_to_one(context, JobAction.CANCEL, job_id)


@router.post(f"{JOB_PATH}/complete", refuses=(404, 409))
async def complete_dispatch_job(job_id: JobName, context: Context) -> JobItem:
    """Mark a failed job as completed, because its purpose was met in another way."""
    return await _apply_to_one(context, JobAction.COMPLETE, job_id)


@router.post(f"{JOB_PATH}/ignore", refuses=(404, 409))
async def ignore_dispatch_job(job_id: JobName, context: Context) -> JobItem:
    """Ignore a failed job; its group continues."""
    return await _apply_to_one(context, JobAction.IGNORE, job_id)


async def _apply(context: Context, action: JobAction, body: JobChoice) -> JobActionRound:
    if body.ids is None:
        pools = await job_service.find_pool_numbers(context, body.pool_names)
        wanted = body.to_filter(pools, DEFAULT_STATUSES[action])
        return await _apply_to_next(context, action, wanted, body)
    done = JobActionRound(await job_service.apply_action(context, action, body.ids))
    return _logged(context, action, done)


async def _apply_to_next(
    context: Context, action: JobAction, wanted: JobFilter, body: JobChoice | RecoverRequest
) -> JobActionRound:
    done = await job_service.apply_action_to_next(context, action, wanted, body.cursor, body.limit)
    return _logged(context, action, done)


async def _apply_to_one(context: Context, action: JobAction, job_id: str) -> JobItem:
    await job_service.apply_action_to_one(context, action, job_id)
    # It may have been deleted in between.
    found = unless_missing(await context.read(jobs.read_many, [job_id]), f"dispatch job {job_id}")
    return JobItem.of(found[0])


def _logged(context: Context, action: JobAction, done: JobActionRound) -> JobActionRound:
    by = {"tenant": context.tenant, "by": context.caller.prefix}
    log.info("dispatch_jobs.changed", verb=action, jobs=done.changed, **by)
    return done
