"""What people do with dispatch jobs: one of them, or many with progress."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.dispatch.job import JobStatus
from core.dispatch.job_actions import Fate, JobAction
from core.shared.errors import NotFoundError
from core.shared.tsid import PATTERN
from serve_app.dispatch import job_service
from serve_app.dispatch.job_models import JobChoice, RecoverRequest
from serve_app.dispatch.job_rendering import changed_document, job_action_error, job_item
from serve_app.dispatch.job_service import JobActionRound
from serve_app.dispatch.job_views import JobItem, JobsChanged, JobsRequeued
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.path_types import TSID
from serve_app.http.permissions import caller_of, replica_of, requires
from storage.dispatch import jobs

# What each verb is done with, where nobody says otherwise.
DEFAULT_STATUSES = {
    JobAction.REQUEUE: (JobStatus.ERROR,),
    JobAction.CANCEL: (JobStatus.QUEUED, JobStatus.PENDING),
    JobAction.COMPLETE: (JobStatus.ERROR,),
    JobAction.IGNORE: (JobStatus.ERROR,),
}

log = structlog.get_logger("dispatch_jobs")

router = APIRouter(prefix="/api/dispatch-jobs", tags=["dispatch jobs"])

Writes = requires(Permission.DISPATCH_WRITE)

JOB_PATH = f"/{{jobId:{TSID}}}"
JobName = Annotated[str, Path(alias="jobId", pattern=PATTERN, examples=["0HZXEQ5Y8JY5Z"])]


@router.post(
    "/requeue",
    dependencies=[Writes],
    operation_id="requeueDispatchJobs",
    responses=describe_responses({200: JobsRequeued}),
    openapi_extra=json_body(JobChoice),
)
async def requeue_jobs(request: Request) -> Response:
    """Deliver jobs again as if they were new: ids, a filter, or all that failed."""
    return await _change_many(request, JobAction.REQUEUE)


@router.post(
    "/cancel",
    dependencies=[Writes],
    operation_id="cancelDispatchJobs",
    responses=describe_responses({200: JobsChanged}),
    openapi_extra=json_body(JobChoice),
)
async def cancel_jobs(request: Request) -> Response:
    """Cancel jobs: ids, a filter, or all that wait."""
    return await _change_many(request, JobAction.CANCEL)


@router.post(
    "/complete",
    dependencies=[Writes],
    operation_id="completeDispatchJobs",
    responses=describe_responses({200: JobsChanged}),
    openapi_extra=json_body(JobChoice),
)
async def complete_jobs(request: Request) -> Response:
    """Call failed jobs completed: ids, a filter, or all that failed."""
    return await _change_many(request, JobAction.COMPLETE)


@router.post(
    "/ignore",
    dependencies=[Writes],
    operation_id="ignoreDispatchJobs",
    responses=describe_responses({200: JobsChanged}),
    openapi_extra=json_body(JobChoice),
)
async def ignore_jobs(request: Request) -> Response:
    """Put failed jobs aside: ids, a filter, or all that failed; their groups go on."""
    return await _change_many(request, JobAction.IGNORE)


@router.post(
    "/recover",
    dependencies=[Writes],
    operation_id="recoverDispatchJobs",
    responses=describe_responses({200: JobsRequeued}),
    openapi_extra=json_body(RecoverRequest),
)
async def recover_jobs(request: Request) -> Response:
    """Deliver again what failed since a time, oldest first, a bounded number a call."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(RecoverRequest, raw)
    chosen = body.to_filter(await job_service.find_pool_numbers(replica, tenant, body.pool_names))
    done = await job_service.apply_action_to_next(
        replica, tenant, JobAction.REQUEUE, chosen, body.cursor, body.limit
    )
    return _changed(request, JobAction.REQUEUE, done)


@router.post(
    f"{JOB_PATH}/requeue",
    dependencies=[Writes],
    operation_id="requeueDispatchJob",
    responses=describe_responses({200: JobItem}, 404, 409),
)
async def requeue_job(request: Request, job_id: JobName) -> Response:
    """Deliver a job again as if it were new, unless it is being delivered."""
    return await _change_one(request, JobAction.REQUEUE, job_id)


@router.post(
    f"{JOB_PATH}/resend",
    dependencies=[Writes],
    operation_id="resendDispatchJob",
    responses=describe_responses({200: JobItem}, 404, 409),
)
async def resend_job(request: Request, job_id: JobName) -> Response:
    """Deliver a job once more, however it ended: the same as requeue. Its id and its key stay."""
    return await _change_one(request, JobAction.REQUEUE, job_id)


@router.post(
    f"{JOB_PATH}/cancel",
    dependencies=[Writes],
    operation_id="cancelDispatchJob",
    responses=describe_responses({200: JobItem}, 404, 409),
)
async def cancel_job(request: Request, job_id: JobName) -> Response:
    """Cancel a job that waits or has failed."""
    return await _change_one(request, JobAction.CANCEL, job_id)


@router.post(
    f"{JOB_PATH}/complete",
    dependencies=[Writes],
    operation_id="completeDispatchJob",
    responses=describe_responses({200: JobItem}, 404, 409),
)
async def complete_job(request: Request, job_id: JobName) -> Response:
    """Call a failed job completed: what it was for has happened some other way."""
    return await _change_one(request, JobAction.COMPLETE, job_id)


@router.post(
    f"{JOB_PATH}/ignore",
    dependencies=[Writes],
    operation_id="ignoreDispatchJob",
    responses=describe_responses({200: JobItem}, 404, 409),
)
async def ignore_job(request: Request, job_id: JobName) -> Response:
    """Put a failed job aside; its group goes on."""
    return await _change_one(request, JobAction.IGNORE, job_id)


async def _change_many(request: Request, verb: JobAction) -> Response:
    replica, tenant = replica_of(request), caller_of(request).tenant
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(JobChoice, raw)
    if body.ids is not None:
        done = JobActionRound(await job_service.apply_action(replica, tenant, verb, body.ids))
    else:
        pools = await job_service.find_pool_numbers(replica, tenant, body.pool_names)
        chosen = body.to_filter(pools, DEFAULT_STATUSES[verb])
        done = await job_service.apply_action_to_next(
            replica, tenant, verb, chosen, body.cursor, body.limit
        )
    return _changed(request, verb, done)


async def _change_one(request: Request, verb: JobAction, job_id: str) -> Response:
    replica, tenant = replica_of(request), caller_of(request).tenant
    (told,) = await job_service.apply_action(replica, tenant, verb, [job_id])
    if told.fate is not Fate.DONE:
        raise job_action_error(told)
    _note(request, verb, 1)
    found = await replica.database.query(jobs.read_many, tenant, [job_id])
    if not found:
        raise NotFoundError(f"dispatch job {job_id}")  # somebody forgot it this moment
    return json_response(job_item(found[0]))


def _changed(request: Request, verb: JobAction, done: JobActionRound) -> Response:
    document = changed_document(verb, done.results, done.remaining, done.cursor)
    _note(request, verb, document["changed"])
    return json_response(document)


def _note(request: Request, verb: JobAction, jobs: int) -> None:
    caller = caller_of(request)
    log.info("dispatch_jobs.changed", tenant=caller.tenant, verb=verb, jobs=jobs, by=caller.prefix)
