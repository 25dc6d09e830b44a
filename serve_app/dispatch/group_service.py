"""Groups that people look at, hold back and set free."""

from core.dispatch.groups import GroupState, head_of, is_blocked
from core.dispatch.job import JobStatus
from core.dispatch.job_actions import Fate, JobAction
from core.dispatch.pool import DEFAULT_POOL
from core.shared.errors import ConflictError, InvalidError, NotFoundError
from serve_app.container import Replica
from serve_app.dispatch import job_service
from serve_app.dispatch.group_models import MAX_WAITING_COUNT, group_state_of
from serve_app.dispatch.job_rendering import job_action_error
from storage.dispatch import groups, pools
from storage.dispatch.groups import Group, GroupSelection, PoolGroupKey
from storage.dispatch.pools import PoolFilter

# Groups that one request looks at, however few of them it shows.
MAX_GROUPS_SCANNED = 2_000
SCAN_BATCH_SIZE = 200

# Where to look for groups in a state; there may be many more that are not in it.
_LOOKS = {
    GroupState.PARKED: GroupSelection.PARKED,
    GroupState.EMPTY: GroupSelection.PARKED,
    GroupState.BLOCKED: GroupSelection.FAILED,
    GroupState.FAILED: GroupSelection.FAILED,
}


async def list_groups(
    replica: Replica,
    tenant: int,
    pool: str | None,
    state: GroupState | None,
    after: PoolGroupKey,
    limit: int,
) -> tuple[list[Group], PoolGroupKey | None]:
    """Return the next groups in a state, and the cursor of the page after them."""
    pools = list(await _pools(replica, tenant, pool))
    look = GroupSelection.ALL if state is None else _LOOKS.get(state, GroupSelection.ALL)
    found: list[Group] = []
    for _ in range(MAX_GROUPS_SCANNED // SCAN_BATCH_SIZE):
        step = limit if state is None else SCAN_BATCH_SIZE
        places = await replica.listings.query(groups.list_keys, tenant, look, pools, after, step)
        for group in await _read(replica, tenant, places):
            after = group.place
            if state in {None, group_state_of(group, replica.client.clock.now())}:
                found.append(group)
            if len(found) == limit:
                return found, after
        if len(places) < step:
            return found, None
    return found, after


async def find(replica: Replica, tenant: int, name: str, pool: str | None) -> PoolGroupKey:
    """Find the one group of this name.

    Raises:
        NotFoundError: There is none with jobs to deliver, and nobody holds it back.
        InvalidError: Several pools have one.
    """
    place = await _find(replica, tenant, name, pool)
    if place is None:
        raise NotFoundError(f"dispatch group {name}")
    return place


async def read(replica: Replica, tenant: int, place: PoolGroupKey) -> Group:
    (group,) = await _read(replica, tenant, [place])
    return group


async def park(
    replica: Replica, tenant: int, name: str, pool: str | None, reason: str | None, by: str
) -> PoolGroupKey:
    """Hold a group back, also one that has nothing to deliver yet.

    Raises:
        ConflictError: The tenant holds too many back in this pool.
    """
    place = await _find(replica, tenant, name, pool)
    if place is None:
        row = await replica.database.query(pools.find, tenant, pool or DEFAULT_POOL)
        if row is None:
            raise InvalidError("pool", "the code of a pool in use")
        place = PoolGroupKey(row.pool_no, name)
    if not await replica.database.query(groups.park, tenant, place, reason, by):
        max_parked = groups.MAX_PARKED
        raise ConflictError(
            f"{max_parked} groups are parked in this pool already: resume some first"
        )
    replica.pool_notifier.notify([place.pool_no])
    return place


async def resume(replica: Replica, tenant: int, place: PoolGroupKey) -> None:
    """Set a group free: nobody holds it back, and what failed at its head is delivered again."""
    await replica.database.query(groups.unpark, tenant, place)
    group = await read(replica, tenant, place)
    if group.failed is not None and is_blocked(group.failed, group.next_up):
        await job_service.apply_action(replica, tenant, JobAction.REQUEUE, [group.failed.job_id])
    replica.pool_notifier.notify([place.pool_no])


async def skip(replica: Replica, tenant: int, place: PoolGroupKey, expected: str | None) -> None:
    """Let a group go on without its head.

    Raises:
        ConflictError: It has none, or another than was expected.
        ProblemError: The head is being delivered.
    """
    group = await read(replica, tenant, place)
    head = head_of(group.failed, group.next_up)
    if head is None:
        raise ConflictError(f"dispatch group {place.name} has nothing to deliver")
    if expected not in {None, head.job_id}:
        raise ConflictError(f"the head of the group is job {head.job_id} by now")
    verb = JobAction.IGNORE if head.status is JobStatus.ERROR else JobAction.CANCEL
    (result,) = await job_service.apply_action(replica, tenant, verb, [head.job_id])
    if result.fate is not Fate.DONE:
        raise job_action_error(result)


async def _find(replica: Replica, tenant: int, name: str, pool: str | None) -> PoolGroupKey | None:
    pools = await _pools(replica, tenant, pool)
    places = await replica.database.query(groups.find_keys, tenant, name, list(pools))
    if len(places) > 1:
        codes = ", ".join(sorted(pools[place.pool_no] for place in places))
        raise InvalidError("pool", f"one of {codes}: each has a group of this name")
    return places[0] if places else None


async def _pools(replica: Replica, tenant: int, name: str | None) -> dict[int, str]:
    """Return the codes of the pools that a tenant's jobs may be in, by pool number."""
    rows = await replica.listings.query(pools.page, tenant, PoolFilter(), 0, job_service.MAX_POOLS)
    return {row.pool_no: row.code for row in rows if name in {None, row.code, row.pool_id}}


async def _read(replica: Replica, tenant: int, places: list[PoolGroupKey]) -> list[Group]:
    if not places:
        return []
    return await replica.listings.query(groups.read, tenant, places, MAX_WAITING_COUNT)
