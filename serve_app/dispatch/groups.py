"""Message groups over HTTP: their state and their jobs; park, resume, and skip the head."""

from typing import Annotated

from fastapi import Path, Query
from fastapi.params import Depends

from core.shared.errors import NotFoundError
from core.shared.tsid import PATTERN
from serve_app.dispatch import group_service
from serve_app.dispatch.group_models import (
    GroupDetail,
    GroupPage,
    GroupQuery,
    GroupView,
    ParkRequest,
)
from serve_app.http import cursors
from serve_app.http.router import Context, HttpRouter
from serve_app.limits.middleware import SLASH
from storage.dispatch import groups, jobs
from storage.dispatch.groups import PoolGroupKey

MAX_NAME_LENGTH = 400

router = HttpRouter("/api/dispatch-groups", tag="dispatch groups", access="dispatch")


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


@router.get()
async def list_dispatch_groups(
    query: Annotated[GroupQuery, Query()], context: Context
) -> GroupPage:
    """List groups that have waiting or failed jobs: the head of each, and why it waits."""
    after = cursors.read_group_cursor(query.cursor)
    found, last = await group_service.list_groups(context, query, after)
    now = context.replica.client.clock.now()
    return GroupPage(
        items=[GroupView.of_group(group, now) for group in found],
        next_cursor=None if last is None else cursors.group_cursor(last),
    )


@router.get("/{name}", refuses=(404,))
async def show_dispatch_group(
    name: GroupName,
    context: Context,
    pool: InPool = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[
        str | None, Query(max_length=40, description="nextCursor of the page before.")
    ] = None,
) -> GroupDetail:
    """Show one group with its jobs in their order: its head, and the jobs that wait behind it."""
    after = cursors.read_group_job_cursor(cursor)
    place = await group_service.find(context, name, pool)
    group = await group_service.read(context, place)
    listed = await context.list(groups.list_jobs, place, after, limit)
    ids = [job_id for job_id, _ in listed]
    found = {job.job_id: job for job in await context.read(jobs.read_many, ids)} if ids else {}
    return GroupDetail.of_group(
        group,
        context.replica.client.clock.now(),
        jobs=[found[job_id] for job_id in ids if job_id in found],
        next_cursor=cursors.group_job_cursor(listed[-1][1]) if len(listed) == limit else None,
    )


@router.post("/{name}/park", refuses=(404, 409))
async def park_dispatch_group(
    name: GroupName, body: ParkRequest, context: Context, pool: InPool = None
) -> GroupView:
    """Park a group: no more of its jobs start; those under way end."""
    return await _view(context, await group_service.park(context, name, pool, body.reason))


@router.post("/{name}/resume", refuses=(404,))
async def resume_dispatch_group(
    name: GroupName, context: Context, pool: InPool = None
) -> GroupView:
    """Resume a parked or blocked group; a failed job that blocks it is delivered again first."""
    place = await group_service.find(context, name, pool)
    await group_service.resume(context, place)
    return await _view(context, place)


@router.post("/{name}/skip", refuses=(404, 409))
async def skip_dispatch_group(
    name: GroupName,
    context: Context,
    pool: InPool = None,
    job_id: Annotated[
        str | None,
        Query(alias="jobId", pattern=PATTERN, description="Only if this is its head."),
    ] = None,
) -> GroupView:
    """Continue a group without its head: a failed head is ignored, a waiting one is cancelled."""
    place = await group_service.find(context, name, pool)
    await group_service.skip(context, place, job_id)
    return await _view(context, place)


async def _view(context: Context, place: PoolGroupKey) -> GroupView:
    group = await group_service.read(context, place)
    return GroupView.of_group(group, context.replica.client.clock.now())
