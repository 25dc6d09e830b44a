"""Use cases of message groups: find, park, resume, and skip the head."""

from core.dispatch.groups import GroupState, head_of, is_blocked
from core.dispatch.job import JobStatus
from core.dispatch.job_actions import JobAction
from core.dispatch.pool import DEFAULT_POOL
from core.shared.errors import ConflictError, InvalidError
from serve_app.dispatch import job_service
from serve_app.dispatch.group_models import MAX_WAITING_COUNT, GroupQuery, group_state_of
from serve_app.http.router import Context, unless_missing
from storage.dispatch import groups, pools
from storage.dispatch.groups import Group, GroupSelection, PoolGroupKey
from storage.dispatch.pools import PoolFilter

# Groups that one request reads, however few of them it shows.
MAX_GROUPS_SCANNED = 2_000
SCAN_BATCH_SIZE = 200

# The groups among which those in a state are searched, where not all need to be read.
_SELECTIONS = {
    GroupState.PARKED: GroupSelection.PARKED,
    GroupState.EMPTY: GroupSelection.PARKED,
    GroupState.BLOCKED: GroupSelection.FAILED,
    GroupState.FAILED: GroupSelection.FAILED,
}


async def list_groups(
    context: Context, query: GroupQuery, after: PoolGroupKey
) -> tuple[list[Group], PoolGroupKey | None]:
    """Return the next groups in a state, and the position of the page after them."""
    pools = list(await _pools(context, query.pool))
    selection = GroupSelection.ALL
    if query.state is not None:
        selection = _SELECTIONS.get(query.state, GroupSelection.ALL)
    step = query.limit if query.state is None else SCAN_BATCH_SIZE
    found: list[Group] = []
    for _ in range(MAX_GROUPS_SCANNED // SCAN_BATCH_SIZE):
        places = await context.list(groups.list_keys, selection, pools, after, step)
        for group in await _read(context, places):
            after = group.place
            if query.state in {None, group_state_of(group, context.replica.client.clock.now())}:
                found.append(group)
            if len(found) == query.limit:
                return found, after
        if len(places) < step:
            return found, None
    return found, after


async def find(context: Context, name: str, pool: str | None) -> PoolGroupKey:
    """Find the one group of this name.

    Raises:
        NotFoundError: No group of this name has jobs to deliver or is parked.
        InvalidError: Several pools have one.
    """
    return unless_missing(await _find(context, name, pool), f"dispatch group {name}")


async def read(context: Context, place: PoolGroupKey) -> Group:
    (group,) = await _read(context, [place])
    return group


async def park(context: Context, name: str, pool: str | None, reason: str | None) -> PoolGroupKey:
    """Park a group, also one that has nothing to deliver yet.

    Raises:
        ConflictError: The tenant has too many parked groups in this pool.
    """
    place = await _find(context, name, pool)
    if place is None:
        row = await context.read(pools.find, pool or DEFAULT_POOL)
        if row is None:
            raise InvalidError("pool", "the code of a pool in use")
        place = PoolGroupKey(row.pool_no, name)
    if not await context.read(groups.park, place, reason, context.caller.prefix or "token"):
        detail = f"{groups.MAX_PARKED} groups are parked in this pool already: resume some first"
        raise ConflictError(detail)
    context.replica.pool_notifier.notify([place.pool_no])
    return place


async def resume(context: Context, place: PoolGroupKey) -> None:
    """Unpark a group, and requeue the failed job that blocks it."""
    await context.read(groups.unpark, place)
    group = await read(context, place)
    if group.failed is not None and is_blocked(group.failed, group.next_up):
        await job_service.apply_action(context, JobAction.REQUEUE, [group.failed.job_id])
    context.replica.pool_notifier.notify([place.pool_no])


async def skip(context: Context, place: PoolGroupKey, expected: str | None) -> None:
    """Ignore the failed head of a group, or cancel one that waits.

    Raises:
        ConflictError: The group has no head, or another than was expected.
        ProblemError: The head is being delivered.
    """
    group = await read(context, place)
    head = head_of(group.failed, group.next_up)
    if head is None:
        raise ConflictError(f"dispatch group {place.name} has nothing to deliver")
    if expected not in {None, head.job_id}:
        raise ConflictError(f"the head of the group is job {head.job_id} by now")
    action = JobAction.IGNORE if head.status is JobStatus.ERROR else JobAction.CANCEL
    await job_service.apply_action_to_one(context, action, head.job_id)


async def _find(context: Context, name: str, pool: str | None) -> PoolGroupKey | None:
    pools = await _pools(context, pool)
    places = await context.read(groups.find_keys, name, list(pools))
    if len(places) > 1:
        codes = ", ".join(sorted(pools[place.pool_no] for place in places))
        raise InvalidError("pool", f"one of {codes}: each has a group of this name")
    return places[0] if places else None


async def _pools(context: Context, name: str | None) -> dict[int, str]:
    """Return the codes of the pools that a tenant's jobs may be in, by pool number."""
    rows = await context.list(pools.page, PoolFilter(), 0, job_service.MAX_POOLS)
    return {row.pool_no: row.code for row in rows if name in {None, row.code, row.pool_id}}


async def _read(context: Context, places: list[PoolGroupKey]) -> list[Group]:
    return await context.list(groups.read, places, MAX_WAITING_COUNT) if places else []
