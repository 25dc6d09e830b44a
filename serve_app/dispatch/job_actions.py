"""What people do with dispatch jobs: one of them, or many with progress."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.dispatch.job import JobStatus
from core.dispatch.job_actions import Fate, Verb
from core.shared.errors import NotFoundError
from core.shared.tsid import PATTERN
from serve_app.dispatch import job_service
from serve_app.dispatch.job_models import JobChoice, RecoverRequest
from serve_app.dispatch.job_rendering import changed_document, job_item, refused
from serve_app.dispatch.job_service import Round
from serve_app.dispatch.job_views import JobItem, JobsChanged, JobsRequeued
from serve_app.http.json_io import answer, parse_as, read_body
from serve_app.http.openapi import body, described
from serve_app.http.path_types import TSID
from serve_app.http.permissions import caller_of, replica_of, requires
from storage.dispatch import jobs

# What each verb is done with, where nobody says otherwise.
USUAL = {
    Verb.REQUEUE: (JobStatus.ERROR,),
    Verb.CANCEL: (JobStatus.QUEUED, JobStatus.PENDING),
    Verb.COMPLETE: (JobStatus.ERROR,),
    Verb.IGNORE: (JobStatus.ERROR,),
}

log = structlog.get_logger("dispatch_jobs")

router = APIRouter(prefix="/api/dispatch-jobs", tags=["dispatch jobs"])

Writes = requires(Permission.DISPATCH_WRITE)

ONE = f"/{{jobId:{TSID}}}"
JobName = Annotated[str, Path(alias="jobId", pattern=PATTERN, examples=["0HZXEQ5Y8JY5Z"])]


@router.post(
    "/requeue",
    dependencies=[Writes],
    operation_id="requeueDispatchJobs",
    responses=described({200: JobsRequeued}),
    openapi_extra=body(JobChoice),
)
async def requeue_jobs(request: Request) -> Response:
    """Deliver jobs again as if they were new: ids, a filter, or all that failed."""
    return await _change_many(request, Verb.REQUEUE)


@router.post(
    "/cancel",
    dependencies=[Writes],
    operation_id="cancelDispatchJobs",
    responses=described({200: JobsChanged}),
    openapi_extra=body(JobChoice),
)
async def cancel_jobs(request: Request) -> Response:
    """Cancel jobs: ids, a filter, or all that wait."""
    return await _change_many(request, Verb.CANCEL)


@router.post(
    "/complete",
    dependencies=[Writes],
    operation_id="completeDispatchJobs",
    responses=described({200: JobsChanged}),
    openapi_extra=body(JobChoice),
)
async def complete_jobs(request: Request) -> Response:
    """Call failed jobs completed: ids, a filter, or all that failed."""
    return await _change_many(request, Verb.COMPLETE)


@router.post(
    "/ignore",
    dependencies=[Writes],
    operation_id="ignoreDispatchJobs",
    responses=described({200: JobsChanged}),
    openapi_extra=body(JobChoice),
)
async def ignore_jobs(request: Request) -> Response:
    """Put failed jobs aside: ids, a filter, or all that failed; their groups go on."""
    return await _change_many(request, Verb.IGNORE)


@router.post(
    "/recover",
    dependencies=[Writes],
    operation_id="recoverDispatchJobs",
    responses=described({200: JobsRequeued}),
    openapi_extra=body(RecoverRequest),
)
async def recover_jobs(request: Request) -> Response:
    """Deliver again what failed since a time, oldest first, a bounded number a call."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    raw = await read_body(request, replica.config.request_timeout)
    wish = parse_as(RecoverRequest, raw)
    chosen = wish.to_filter(await job_service.pools_named(replica, tenant, wish.pool_names))
    done = await job_service.change_next(
        replica, tenant, Verb.REQUEUE, chosen, wish.cursor, wish.limit
    )
    return _changed(request, Verb.REQUEUE, done)


@router.post(
    f"{ONE}/requeue",
    dependencies=[Writes],
    operation_id="requeueDispatchJob",
    responses=described({200: JobItem}, 404, 409),
)
async def requeue_job(request: Request, job_id: JobName) -> Response:
    """Deliver a job again as if it were new, unless it is being delivered."""
    return await _change_one(request, Verb.REQUEUE, job_id)


@router.post(
    f"{ONE}/resend",
    dependencies=[Writes],
    operation_id="resendDispatchJob",
    responses=described({200: JobItem}, 404, 409),
)
async def resend_job(request: Request, job_id: JobName) -> Response:
    """Deliver a job once more, however it ended: the same as requeue. Its id and its key stay."""
    return await _change_one(request, Verb.REQUEUE, job_id)


@router.post(
    f"{ONE}/cancel",
    dependencies=[Writes],
    operation_id="cancelDispatchJob",
    responses=described({200: JobItem}, 404, 409),
)
async def cancel_job(request: Request, job_id: JobName) -> Response:
    """Cancel a job that waits or has failed."""
    return await _change_one(request, Verb.CANCEL, job_id)


@router.post(
    f"{ONE}/complete",
    dependencies=[Writes],
    operation_id="completeDispatchJob",
    responses=described({200: JobItem}, 404, 409),
)
async def complete_job(request: Request, job_id: JobName) -> Response:
    """Call a failed job completed: what it was for has happened some other way."""
    return await _change_one(request, Verb.COMPLETE, job_id)


@router.post(
    f"{ONE}/ignore",
    dependencies=[Writes],
    operation_id="ignoreDispatchJob",
    responses=described({200: JobItem}, 404, 409),
)
async def ignore_job(request: Request, job_id: JobName) -> Response:
    """Put a failed job aside; its group goes on."""
    return await _change_one(request, Verb.IGNORE, job_id)


async def _change_many(request: Request, verb: Verb) -> Response:
    replica, tenant = replica_of(request), caller_of(request).tenant
    raw = await read_body(request, replica.config.request_timeout)
    wish = parse_as(JobChoice, raw)
    if wish.ids is not None:
        done = Round(await job_service.change(replica, tenant, verb, wish.ids))
    else:
        pools = await job_service.pools_named(replica, tenant, wish.pool_names)
        chosen = wish.to_filter(pools, USUAL[verb])
        done = await job_service.change_next(replica, tenant, verb, chosen, wish.cursor, wish.limit)
    return _changed(request, verb, done)


async def _change_one(request: Request, verb: Verb, job_id: str) -> Response:
    replica, tenant = replica_of(request), caller_of(request).tenant
    (told,) = await job_service.change(replica, tenant, verb, [job_id])
    if told.fate is not Fate.DONE:
        raise refused(told)
    _note(request, verb, 1)
    found = await replica.database.ask(jobs.read_many, tenant, [job_id])
    if not found:
        raise NotFoundError(f"dispatch job {job_id}")  # somebody forgot it this moment
    return answer(job_item(found[0]))


def _changed(request: Request, verb: Verb, done: Round) -> Response:
    document = changed_document(verb, done.told, done.remaining, done.cursor)
    _note(request, verb, document["changed"])
    return answer(document)


def _note(request: Request, verb: Verb, jobs: int) -> None:
    caller = caller_of(request)
    log.info("dispatch_jobs.changed", tenant=caller.tenant, verb=verb, jobs=jobs, by=caller.prefix)
