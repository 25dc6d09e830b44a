"""Groups that people look at, hold back and set free."""

from core.dispatch.groups import GroupState, head_of, is_blocked
from core.dispatch.job import JobStatus
from core.dispatch.job_actions import Fate, Verb
from core.dispatch.pool import DEFAULT_POOL
from core.shared.errors import ConflictError, InvalidError, NotFoundError
from serve_app.container import Replica
from serve_app.dispatch import job_service
from serve_app.dispatch.group_models import COUNT_TO
from serve_app.dispatch.group_rendering import state_in
from serve_app.dispatch.job_rendering import refused
from storage.dispatch import groups, pools
from storage.dispatch.groups import Group, GroupPlace, Look
from storage.dispatch.pools import PoolFilter

# Groups that one request looks at, however few of them it shows.
MOST_LOOKS = 2_000
AT_ONCE = 200

# Where to look for groups in a state; there may be many more that are not in it.
_LOOKS = {
    GroupState.PARKED: Look.PARKED,
    GroupState.EMPTY: Look.PARKED,
    GroupState.BLOCKED: Look.FAILED,
    GroupState.FAILED: Look.FAILED,
}


async def listed(
    replica: Replica,
    tenant: int,
    pool: str | None,
    state: GroupState | None,
    after: GroupPlace,
    limit: int,
) -> tuple[list[Group], GroupPlace | None]:
    """The next groups in a state, and where to go on."""
    pools = list(await _pools(replica, tenant, pool))
    look = Look.ALL if state is None else _LOOKS.get(state, Look.ALL)
    found: list[Group] = []
    for _ in range(MOST_LOOKS // AT_ONCE):
        step = limit if state is None else AT_ONCE
        places = await replica.listings.ask(groups.walk, tenant, look, pools, after, step)
        for group in await _read(replica, tenant, places):
            after = group.place
            if state in {None, state_in(group, replica.gateway.clock.now())}:
                found.append(group)
            if len(found) == limit:
                return found, after
        if len(places) < step:
            return found, None
    return found, after


async def find(replica: Replica, tenant: int, name: str, pool: str | None) -> GroupPlace:
    """The one group of this name.

    Raises:
        NotFoundError: There is none with jobs to deliver, and nobody holds it back.
        InvalidError: Several pools have one.
    """
    place = await _find(replica, tenant, name, pool)
    if place is None:
        raise NotFoundError(f"dispatch group {name}")
    return place


async def read(replica: Replica, tenant: int, place: GroupPlace) -> Group:
    """A group as it stands now."""
    (group,) = await _read(replica, tenant, [place])
    return group


async def park(
    replica: Replica, tenant: int, name: str, pool: str | None, reason: str | None, by: str
) -> GroupPlace:
    """Hold a group back, also one that has nothing to deliver yet.

    Raises:
        ConflictError: The tenant holds too many back in this pool.
    """
    place = await _find(replica, tenant, name, pool)
    if place is None:
        row = await replica.database.ask(pools.find, tenant, pool or DEFAULT_POOL)
        if row is None:
            raise InvalidError("pool", "the code of a pool in use")
        place = GroupPlace(row.pool_no, name)
    if not await replica.database.ask(groups.park, tenant, place, reason, by):
        most = groups.MOST_PARKED
        raise ConflictError(f"{most} groups are parked in this pool already: resume some first")
    replica.bell.ring([place.pool_no])
    return place


async def resume(replica: Replica, tenant: int, place: GroupPlace) -> None:
    """Set a group free: nobody holds it back, and what failed at its head is delivered again."""
    await replica.database.ask(groups.unpark, tenant, place)
    group = await read(replica, tenant, place)
    if group.failed is not None and is_blocked(group.failed, group.next_up):
        await job_service.change(replica, tenant, Verb.REQUEUE, [group.failed.job_id])
    replica.bell.ring([place.pool_no])


async def skip(replica: Replica, tenant: int, place: GroupPlace, expected: str | None) -> None:
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
    verb = Verb.IGNORE if head.status is JobStatus.ERROR else Verb.CANCEL
    (told,) = await job_service.change(replica, tenant, verb, [head.job_id])
    if told.fate is not Fate.DONE:
        raise refused(told)


async def _find(replica: Replica, tenant: int, name: str, pool: str | None) -> GroupPlace | None:
    pools = await _pools(replica, tenant, pool)
    places = await replica.database.ask(groups.places_of, tenant, name, list(pools))
    if len(places) > 1:
        codes = ", ".join(sorted(pools[place.pool_no] for place in places))
        raise InvalidError("pool", f"one of {codes}: each has a group of this name")
    return places[0] if places else None


async def _pools(replica: Replica, tenant: int, name: str | None) -> dict[int, str]:
    """The pools a tenant's jobs may be in, by number with their codes."""
    rows = await replica.listings.ask(pools.page, tenant, PoolFilter(), 0, job_service.EVERY_POOL)
    return {row.pool_no: row.code for row in rows if name in {None, row.code, row.pool_id}}


async def _read(replica: Replica, tenant: int, places: list[GroupPlace]) -> list[Group]:
    if not places:
        return []
    return await replica.listings.ask(groups.read, tenant, places, COUNT_TO)
