"""Dispatch jobs: post them, look at them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.shared.errors import NotFoundError
from core.shared.tsid import PATTERN
from serve_app.dispatch import job_service
from serve_app.dispatch.job_models import MAX_JOB_COUNT, JobBatch, JobQuery, JobRequest
from serve_app.dispatch.job_rendering import (
    attempt_document,
    job_document,
    job_item,
    options_document,
)
from serve_app.dispatch.job_service import JobSubmission
from serve_app.dispatch.job_views import (
    AttemptPage,
    JobItem,
    JobOptions,
    JobPage,
    JobsCreated,
    JobView,
)
from serve_app.http.cursors import read_id_cursor
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.models import Document
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.path_types import TSID
from serve_app.http.permissions import caller_of, replica_of, requires
from storage.dispatch import jobs as dispatch_jobs
from storage.dispatch.jobs import JobFilter

MAX_ATTEMPTS_SHOWN = 20
# Options are taken from so many of the latest jobs.
OPTIONS_SAMPLE_SIZE = 5_000

router = APIRouter(prefix="/api/dispatch-jobs", tags=["dispatch jobs"])

Reads = requires(Permission.DISPATCH_READ)
Writes = requires(Permission.DISPATCH_WRITE)

JOB_PATH = f"/{{jobId:{TSID}}}"
JobName = Annotated[str, Path(alias="jobId", pattern=PATTERN, examples=["0HZXEQ5Y8JY5Z"])]


@router.post(
    "",
    dependencies=[Writes],
    operation_id="createDispatchJob",
    status_code=201,
    responses=describe_responses({201: JobItem, 200: JobItem}),
    openapi_extra=json_body(JobRequest),
)
async def create_job(request: Request) -> Response:
    """Post a job to be delivered; a known idempotencyKey answers 200 with the first job."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    submission = JobSubmission(parse_as(JobRequest, raw), job_service.payload_in(raw))
    (made,), jobs = await job_service.submit(replica, caller.tenant, [submission])
    if not jobs:
        raise NotFoundError(f"dispatch job {made.job_id}")  # somebody forgot it this moment
    return json_response(job_item(jobs[0]), 200 if made.known else 201)


@router.post(
    "/batch",
    dependencies=[Writes],
    operation_id="createDispatchJobs",
    status_code=201,
    responses=describe_responses({201: JobsCreated}),
    openapi_extra=json_body(JobBatch),
)
async def create_jobs(request: Request) -> Response:
    """Post up to 100 jobs to be delivered; all of them are stored, or none."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    batch = parse_as(JobBatch, raw).root
    payloads = job_service.payloads_in(raw)
    submissions = [
        JobSubmission(job, payload, f"[{place}].")
        for place, (job, payload) in enumerate(zip(batch, payloads, strict=True))
    ]
    made, jobs = await job_service.submit(replica, caller.tenant, submissions)
    document = {
        "jobs": [job_item(job) for job in jobs],
        "count": len(jobs),
        "knownCount": sum(one.known for one in made),
    }
    return json_response(document, 201)


@router.get(
    "",
    dependencies=[Reads],
    operation_id="listDispatchJobs",
    responses=describe_responses({200: JobPage}),
)
async def list_jobs(request: Request, query: Annotated[JobQuery, Query()]) -> Response:
    """List deliveries, newest first, without what they bring."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    chosen = query.to_filter(await job_service.find_pool_numbers(replica, tenant, query.pool_names))
    return json_response(await _listed(request, chosen, query))


@router.get(
    "/filter-options",
    dependencies=[Reads],
    operation_id="listDispatchJobOptions",
    responses=describe_responses({200: JobOptions}),
)
async def list_options(request: Request) -> Response:
    """List what deliveries can be filtered by: what the latest of them have."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    found = await replica.listings.query(dispatch_jobs.options, tenant, OPTIONS_SAMPLE_SIZE)
    return json_response(options_document(found))


@router.get(
    "/event/{eventId}",
    dependencies=[Reads],
    operation_id="listDispatchJobsOfEvent",
    responses=describe_responses({200: JobPage}),
)
async def list_jobs_of_event(
    request: Request,
    event_id: Annotated[str, Path(alias="eventId", pattern=PATTERN, examples=["0HZXEQ5Y8JY5Z"])],
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Annotated[
        str | None, Query(pattern=PATTERN, description="nextCursor of the page before.")
    ] = None,
) -> Response:
    """List the deliveries of one event, newest first."""
    query = JobQuery(limit=limit, cursor=cursor)
    return json_response(await _listed(request, JobFilter(event_id=event_id), query))


@router.get(
    JOB_PATH,
    dependencies=[Reads],
    operation_id="showDispatchJob",
    responses=describe_responses({200: JobView}, 404),
)
async def show_job(request: Request, job_id: JobName) -> Response:
    """Show one delivery with what it brings and its latest attempts."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    job = await replica.database.query(dispatch_jobs.read, tenant, job_id)
    if job is None:
        raise NotFoundError(f"dispatch job {job_id}")
    attempts = await replica.database.query(
        dispatch_jobs.latest_attempts, tenant, job_id, MAX_ATTEMPTS_SHOWN
    )
    return json_response(job_document(job, attempts))


@router.get(
    f"{JOB_PATH}/attempts",
    dependencies=[Reads],
    operation_id="listDispatchAttempts",
    responses=describe_responses({200: AttemptPage}, 404),
)
async def list_attempts(
    request: Request,
    job_id: JobName,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Annotated[
        str | None, Query(max_length=20, description="nextCursor of the page before.")
    ] = None,
) -> Response:
    """List each time a job was sent, oldest first."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    after = read_id_cursor(cursor) or 0
    found = await replica.database.query(dispatch_jobs.attempts, tenant, job_id, after, limit)
    if not found and not await replica.database.query(dispatch_jobs.read_many, tenant, [job_id]):
        raise NotFoundError(f"dispatch job {job_id}")
    more = str(found[-1].send_no) if len(found) == limit else None
    items = [attempt_document(job_id, one) for one in found]
    return json_response({"items": items, "nextCursor": more})


async def _listed(request: Request, chosen: JobFilter, query: JobQuery) -> Document:
    replica, tenant = replica_of(request), caller_of(request).tenant
    limit = query.limit if query.page is None else query.size
    skip = 0 if query.page is None else query.page * query.size
    found = await replica.listings.query(
        dispatch_jobs.page, tenant, chosen, query.cursor, limit, skip
    )
    ids = found.items
    jobs = await replica.database.query(dispatch_jobs.read_many, tenant, ids) if ids else []
    document: Document = {
        "items": [job_item(job) for job in jobs],
        "nextCursor": ids[-1] if len(ids) == limit else found.scanned_to,
    }
    if query.page is None:
        return document
    total = await replica.listings.query(dispatch_jobs.count, tenant, chosen, None, MAX_JOB_COUNT)
    return document | {
        "page": query.page,
        "size": query.size,
        "totalItems": total,
        "totalPages": -(-total // query.size),
    }
