"""Dispatch jobs over HTTP: post, list and show them."""

from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from core.shared.tsid import PATTERN
from serve_app.dispatch import job_service
from serve_app.dispatch.job_models import MAX_JOB_COUNT, JobBatch, JobQuery, JobRequest
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
from serve_app.http.fields import Limit
from serve_app.http.json_io import JsonResponse
from serve_app.http.models import Document
from serve_app.http.openapi import describe_responses
from serve_app.http.path_types import TSID
from serve_app.http.router import Context, HttpRouter, unless_missing
from storage.dispatch import jobs
from storage.dispatch.jobs import JobFilter

MAX_ATTEMPTS_SHOWN = 20
# Options are taken from so many of the latest jobs.
OPTIONS_SAMPLE_SIZE = 5_000

router = HttpRouter("/api/dispatch-jobs", tag="dispatch jobs", access="dispatch")

JOB_PATH = f"/{{jobId:{TSID}}}"
JobName = Annotated[str, Path(alias="jobId", pattern=PATTERN, examples=["0HZXEQ5Y8JY5Z"])]
_CREATED = describe_responses({201: JobItem, 200: JobItem})


@router.post(status=201, logs=False, responses=_CREATED)
async def create_dispatch_job(body: JobRequest, context: Context) -> Response:
    """Post a job to be delivered; a known idempotencyKey answers 200 with the first job."""
    submission = JobSubmission(body, job_service.payload_in(context.body))
    (made,), stored = await job_service.submit(context, [submission])
    (job,) = unless_missing(stored, f"dispatch job {made.job_id}")  # it may be deleted already
    return JsonResponse(JobItem.of(job).to_json(), 200 if made.known else 201)


@router.post("/batch", status=201, logs=False)
async def create_dispatch_jobs(body: JobBatch, context: Context) -> JobsCreated:
    """Post up to 100 jobs to be delivered; all of them are stored, or none."""
    payloads = job_service.payloads_in(context.body)
    submissions = [
        JobSubmission(job, payload, f"[{place}].")
        for place, (job, payload) in enumerate(zip(body.root, payloads, strict=True))
    ]
    made, stored = await job_service.submit(context, submissions)
    known = sum(one.known for one in made)
    return JobsCreated.of({"jobs": stored, "count": len(stored), "known_count": known})


@router.get()
async def list_dispatch_jobs(query: Annotated[JobQuery, Query()], context: Context) -> JobPage:
    """List jobs, newest first, without their payloads."""
    pools = await job_service.find_pool_numbers(context, query.pool_names)
    return await _list(context, query.to_filter(pools), query)


@router.get("/filter-options")
async def list_dispatch_job_options(context: Context) -> JobOptions:
    """List the values by which the latest jobs can be filtered."""
    return JobOptions.of_options(await context.list(jobs.options, OPTIONS_SAMPLE_SIZE))


@router.get("/event/{eventId}")
async def list_dispatch_jobs_of_event(
    event_id: Annotated[str, Path(alias="eventId", pattern=PATTERN, examples=["0HZXEQ5Y8JY5Z"])],
    context: Context,
    limit: Limit = 100,
    cursor: Annotated[
        str | None, Query(pattern=PATTERN, description="nextCursor of the page before.")
    ] = None,
) -> JobPage:
    """List the jobs of one event, newest first."""
    return await _list(context, JobFilter(event_id=event_id), JobQuery(limit=limit, cursor=cursor))


@router.get(JOB_PATH, refuses=(404,))
async def show_dispatch_job(job_id: JobName, context: Context) -> JobView:
    """Show one job with its payload and its latest attempts."""
    job = unless_missing(await context.read(jobs.read, job_id), f"dispatch job {job_id}")
    attempts = await context.read(jobs.latest_attempts, job_id, MAX_ATTEMPTS_SHOWN)
    return JobView.of_job(job, attempts)


@router.get(f"{JOB_PATH}/attempts", refuses=(404,))
async def list_dispatch_attempts(
    job_id: JobName,
    context: Context,
    limit: Limit = 100,
    cursor: Annotated[
        str | None, Query(max_length=20, description="nextCursor of the page before.")
    ] = None,
) -> AttemptPage:
    """List each time a job was sent, oldest first."""
    after = read_id_cursor(cursor) or 0
    found = await context.read(jobs.attempts, job_id, after, limit)
    unless_missing(found or await context.read(jobs.read_many, [job_id]), f"dispatch job {job_id}")
    return AttemptPage.of_rows(found, limit, lambda attempt: str(attempt.send_no))


async def _list(context: Context, wanted: JobFilter, query: JobQuery) -> JobPage:
    limit = query.limit if query.page is None else query.size
    skip = 0 if query.page is None else query.page * query.size
    found = await context.list(jobs.page, wanted, query.cursor, limit, skip)
    ids = found.items
    page: Document = {
        "items": await context.read(jobs.read_many, ids) if ids else [],
        "next_cursor": ids[-1] if len(ids) == limit else found.scanned_to,
    }
    if query.page is not None:
        total = await context.list(jobs.count, wanted, None, MAX_JOB_COUNT)
        page |= {"page": query.page, "size": query.size, "total_items": total}
        page["total_pages"] = -(-total // query.size)
    return JobPage.of(page)
