"""Dispatch groups: how they stand, what waits in them; hold back, set free, go on."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Query, Request
from fastapi.params import Depends
from starlette.responses import Response

from core.access.permissions import Permission
from core.shared.errors import NotFoundError
from core.shared.tsid import PATTERN
from serve_app.dispatch import group_service
from serve_app.dispatch.group_models import (
    GroupDetail,
    GroupPage,
    GroupQuery,
    GroupView,
    ParkRequest,
    group_document,
)
from serve_app.dispatch.job_rendering import job_item
from serve_app.http.cursors import (
    group_cursor,
    group_job_cursor,
    read_group_cursor,
    read_group_job_cursor,
)
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires
from serve_app.limits.middleware import SLASH
from storage.dispatch import groups
from storage.dispatch import jobs as dispatch_jobs
from storage.dispatch.groups import PoolGroupKey

MAX_NAME_LENGTH = 400

log = structlog.get_logger("dispatch_groups")

router = APIRouter(prefix="/api/dispatch-groups", tags=["dispatch groups"])

Reads = requires(Permission.DISPATCH_READ)
Writes = requires(Permission.DISPATCH_WRITE)


def _name_in(
    name: Annotated[
        str,
        Path(
            max_length=MAX_NAME_LENGTH,
            description="A slash within it is written %2F.",
            examples=["order-processor:order:12345"],
        ),
    ],
) -> str:
    found = name.replace(SLASH, "/")
    if not found.isprintable():
        raise NotFoundError("a dispatch group of such a name")
    return found


GroupName = Annotated[str, Depends(_name_in)]
InPool = Annotated[
    str | None,
    Query(
        alias="pool",
        min_length=1,
        max_length=200,
        pattern=r"^[ -~]+$",
        description="The code of its pool; needed where several have a group of this name.",
    ),
]


@router.get(
    "",
    dependencies=[Reads],
    operation_id="listDispatchGroups",
    responses=describe_responses({200: GroupPage}),
)
async def list_groups(request: Request, query: Annotated[GroupQuery, Query()]) -> Response:
    """List groups with jobs to deliver or that failed: what heads each, and what holds it."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    after = read_group_cursor(query.cursor)
    found, more = await group_service.list_groups(
        replica, tenant, query.pool, query.state, after, query.limit
    )
    now = replica.client.clock.now()
    document = {
        "items": [group_document(group, now) for group in found],
        "nextCursor": None if more is None else group_cursor(more),
    }
    return json_response(document)


@router.get(
    "/{name}",
    dependencies=[Reads],
    operation_id="showDispatchGroup",
    responses=describe_responses({200: GroupDetail}, 404),
)
async def show_group(
    request: Request,
    name: GroupName,
    pool: InPool = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[
        str | None, Query(max_length=40, description="nextCursor of the page before.")
    ] = None,
) -> Response:
    """Show one group with its jobs in their order: what heads it, and what waits behind that."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    after = read_group_job_cursor(cursor)
    place = await group_service.find(replica, tenant, name, pool)
    group = await group_service.read(replica, tenant, place)
    listed = await replica.listings.query(groups.list_jobs, tenant, place, after, limit)
    ids = [job_id for job_id, _ in listed]
    found = await replica.database.query(dispatch_jobs.read_many, tenant, ids) if ids else []
    jobs = {job.job_id: job for job in found}
    document = group_document(group, replica.client.clock.now()) | {
        "jobs": [job_item(jobs[job_id]) for job_id in ids if job_id in jobs],
        "nextCursor": group_job_cursor(listed[-1][1]) if len(listed) == limit else None,
    }
    return json_response(document)


@router.post(
    "/{name}/park",
    dependencies=[Writes],
    operation_id="parkDispatchGroup",
    responses=describe_responses({200: GroupView}, 409),
    openapi_extra=json_body(ParkRequest),
)
async def park_group(request: Request, name: GroupName, pool: InPool = None) -> Response:
    """Hold a group back; what is being delivered of it is delivered."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(ParkRequest, raw)
    place = await group_service.park(
        replica, caller.tenant, name, pool, body.reason, caller.prefix or "token"
    )
    return await _shown(request, "dispatch_groups.parked", place)


@router.post(
    "/{name}/resume",
    dependencies=[Writes],
    operation_id="resumeDispatchGroup",
    responses=describe_responses({200: GroupView}, 404),
)
async def resume_group(request: Request, name: GroupName, pool: InPool = None) -> Response:
    """Set a group free; if a failed job blocks it, that is delivered again first."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    place = await group_service.find(replica, tenant, name, pool)
    await group_service.resume(replica, tenant, place)
    return await _shown(request, "dispatch_groups.resumed", place)


@router.post(
    "/{name}/skip",
    dependencies=[Writes],
    operation_id="skipDispatchGroup",
    responses=describe_responses({200: GroupView}, 404, 409),
)
async def skip_head(
    request: Request,
    name: GroupName,
    pool: InPool = None,
    job_id: Annotated[
        str | None,
        Query(alias="jobId", pattern=PATTERN, description="Only if this is its head."),
    ] = None,
) -> Response:
    """Let a group go on without its head: put aside what failed, or cancel what waits."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    place = await group_service.find(replica, tenant, name, pool)
    await group_service.skip(replica, tenant, place, job_id)
    return await _shown(request, "dispatch_groups.skipped", place)


async def _shown(request: Request, what: str, place: PoolGroupKey) -> Response:
    replica, caller = replica_of(request), caller_of(request)
    log.info(what, tenant=caller.tenant, pool=place.pool_no, by=caller.prefix)
    group = await group_service.read(replica, caller.tenant, place)
    return json_response(group_document(group, replica.client.clock.now()))
