"""Groups of jobs, on a real Postgres."""

import pytest

from core.dispatch.groups import head_of, is_blocked
from core.dispatch.job import JobStatus, Mode
from storage.dispatch import groups as dispatch_groups
from storage.dispatch.groups import FRONT, START, GroupSelection, PoolGroupKey
from storage.postgres.pool import Pool
from storage.postgres.queries import Q
from tests.support.dispatch import JobFactory
from tests.support.plans import plan_by_index

FIRST = 1


@pytest.fixture
async def second(jobs: JobFactory) -> int:
    number: int = await jobs.pool.fetchval(
        "insert into dispatch_pools (tenant_id, pool_id, code, name)"
        " values ($1, 'dpl_2', 'second', 'Second') returning pool_no",
        jobs.tenant,
    )
    return number


async def walk(
    jobs: JobFactory,
    pools: list[int],
    after: PoolGroupKey = START,
    limit: int = 100,
    look: GroupSelection = GroupSelection.ALL,
) -> list[PoolGroupKey]:
    return await dispatch_groups.list_keys(jobs.pool, jobs.tenant, look, pools, after, limit)


async def test_groups_are_walked_by_pool_and_name(
    jobs: JobFactory, others: JobFactory, second: int
) -> None:
    for name in ("b", "a", "a", "ä/ö:ü", "done", "b"):
        last = await jobs.grouped(name)
        if name == "done":
            await jobs.put(last, JobStatus.COMPLETED, "done")
    await jobs.grouped("a", pool_no=second)
    await jobs.grouped("quick", Mode.IMMEDIATE)
    await jobs.post()
    await others.grouped("theirs")
    everything = [(FIRST, "a"), (FIRST, "b"), (FIRST, "ä/ö:ü"), (second, "a")]
    assert sorted(await walk(jobs, [second, FIRST])) == sorted(everything)
    assert await walk(jobs, [second]) == [(second, "a")]
    assert await walk(jobs, []) == []
    # However it is cut, it comes to the same.
    found: list[PoolGroupKey] = []
    while page := await walk(jobs, [FIRST, second], found[-1] if found else START, 1):
        found += page
    assert found == await walk(jobs, [FIRST, second])


async def test_failed_and_parked_groups_are_found_by_themselves(
    jobs: JobFactory, others: JobFactory, second: int
) -> None:
    for name in ("a", "b", "c"):
        await jobs.fail(await jobs.grouped(name))
        await jobs.grouped(name)
    await jobs.grouped("fine")
    await others.fail(await others.grouped("theirs"))
    await dispatch_groups.park(jobs.pool, jobs.tenant, PoolGroupKey(second, "x"), "why", "me")
    await dispatch_groups.park(jobs.pool, others.tenant, PoolGroupKey(FIRST, "x"), None, "them")
    failed = await walk(jobs, [FIRST, second], look=GroupSelection.FAILED)
    assert failed == [(FIRST, "a"), (FIRST, "b"), (FIRST, "c")]
    assert await walk(jobs, [FIRST], failed[0], 1, GroupSelection.FAILED) == [(FIRST, "b")]
    assert await walk(jobs, [FIRST, second], look=GroupSelection.PARKED) == [(second, "x")]
    assert await walk(jobs, [FIRST], look=GroupSelection.PARKED) == []


async def test_a_group_shows_its_front_and_its_size(jobs: JobFactory, others: JobFactory) -> None:
    late = await jobs.grouped("g", sequence=100)
    head = await jobs.grouped("g")
    following = await jobs.grouped("g")
    await jobs.grouped("g", Mode.IMMEDIATE)
    await others.grouped("g")
    place = PoolGroupKey(FIRST, "g")

    async def look(count_to: int = 100) -> dispatch_groups.Group:
        (group,) = await dispatch_groups.read(jobs.pool, jobs.tenant, [place], count_to)
        return group

    group = await look()
    assert (group.place, group.pool_code, group.waiting) == (place, "default", 3)
    assert group.failed is None
    assert group.parking is None
    assert group.next_up is not None
    assert group.next_up.job_id == head
    assert (await look(count_to=2)).waiting == 2

    await jobs.fail(head, "HTTP 404")
    group = await look()
    assert group.waiting == 2
    assert is_blocked(group.failed, group.next_up)
    front = head_of(group.failed, group.next_up)
    assert front is not None
    assert (front.job_id, front.status, front.last_error) == (head, JobStatus.ERROR, "HTTP 404")
    assert group.next_up is not None
    assert group.next_up.job_id == following

    listed = await dispatch_groups.list_jobs(jobs.pool, jobs.tenant, place, FRONT, 10)
    assert [job_id for job_id, _ in listed] == [head, following, late]
    after = listed[0][1]
    rest = await dispatch_groups.list_jobs(jobs.pool, jobs.tenant, place, after, 1)
    assert [job_id for job_id, _ in rest] == [following]
    assert await dispatch_groups.list_jobs(jobs.pool, others.tenant, place, after, 9) != rest


async def test_a_group_is_held_by_what_blocks_not_by_what_failed_before_it(
    jobs: JobFactory,
) -> None:
    passed = await jobs.grouped("g", Mode.NEXT_ON_ERROR)
    blocking = await jobs.grouped("g")
    waiting = await jobs.grouped("g")
    place = PoolGroupKey(FIRST, "g")

    async def look() -> dispatch_groups.Group:
        (group,) = await dispatch_groups.read(jobs.pool, jobs.tenant, [place], 10)
        return group

    await jobs.fail(passed)
    group = await look()
    assert group.failed is not None
    assert group.failed.job_id == passed
    assert not is_blocked(group.failed, group.next_up)

    await jobs.fail(blocking)
    group = await look()
    assert is_blocked(group.failed, group.next_up)
    assert group.next_up is not None
    assert group.next_up.job_id == waiting
    head = head_of(group.failed, group.next_up)
    assert head is not None
    assert head.job_id == blocking


async def test_groups_come_in_the_order_they_were_asked_for(jobs: JobFactory) -> None:
    made = {name: await jobs.grouped(name) for name in ("a", "b", "c")}
    places = [PoolGroupKey(FIRST, name) for name in ("c", "nobody", "a", "b")]
    groups = await dispatch_groups.read(jobs.pool, jobs.tenant, places, 10)
    heads = [group.next_up.job_id if group.next_up else None for group in groups]
    assert heads == [made["c"], None, made["a"], made["b"]]
    assert [group.waiting for group in groups] == [1, 0, 1, 1]


async def test_a_group_is_parked_once_and_by_its_tenant(
    jobs: JobFactory, others: JobFactory
) -> None:
    place = PoolGroupKey(FIRST, "g")
    assert not await dispatch_groups.unpark(jobs.pool, jobs.tenant, place)
    for reason in ("one", None):
        await dispatch_groups.park(jobs.pool, jobs.tenant, place, reason, "me")
    (group,) = await dispatch_groups.read(jobs.pool, jobs.tenant, [place], 10)
    assert group.parking is not None
    assert (group.parking.reason, group.parking.parked_by) == (None, "me")
    assert await dispatch_groups.find_keys(jobs.pool, jobs.tenant, "g", [FIRST]) == [place]
    assert await dispatch_groups.find_keys(jobs.pool, others.tenant, "g", [FIRST]) == []
    assert not await dispatch_groups.unpark(jobs.pool, others.tenant, place)
    assert await dispatch_groups.unpark(jobs.pool, jobs.tenant, place)
    assert await dispatch_groups.find_keys(jobs.pool, jobs.tenant, "g", [FIRST]) == []


async def test_so_many_groups_are_parked_and_no_more(
    jobs: JobFactory, others: JobFactory, second: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch_groups, "MAX_PARKED", 2)

    async def park(name: str, pool_no: int = FIRST, tenant: int = jobs.tenant) -> bool:
        place = PoolGroupKey(pool_no, name)
        return await dispatch_groups.park(jobs.pool, tenant, place, None, "me")

    assert await park("a")
    assert await park("b")
    assert not await park("c")
    assert await park("a")  # for another reason
    assert await park("c", second)
    assert await park("c", tenant=others.tenant)
    assert await dispatch_groups.unpark(jobs.pool, jobs.tenant, PoolGroupKey(FIRST, "b"))
    assert await park("c")


async def test_a_name_may_be_in_two_pools(jobs: JobFactory, second: int) -> None:
    await jobs.grouped("g")
    await jobs.grouped("g", pool_no=second)
    found = await dispatch_groups.find_keys(jobs.pool, jobs.tenant, "g", [second, FIRST])
    assert found == [(FIRST, "g"), (second, "g")]
    assert await dispatch_groups.find_keys(jobs.pool, jobs.tenant, "g", [second]) == found[1:]


@pytest.mark.parametrize(
    ("query", "arguments", "index"),
    [
        ("walk_groups", (1, -1, "", [1], 10), "dispatch_jobs_group"),
        ("group_fronts", (1, [1], ["g"]), "dispatch_jobs_group"),
        ("group_sizes", (1, [1], ["g"], 10), "dispatch_jobs_group"),
        ("group_sizes", (1, [1], ["g"], 10), "dispatch_parked_groups_pkey"),
        ("places_of_group", (1, "g", [1]), "dispatch_jobs_group"),
        ("jobs_behind", (1, 1, "g", 0, 0, 10), "dispatch_jobs_group"),
    ],
)
async def test_groups_are_found_by_their_index(
    database: str, query: str, arguments: tuple[object, ...], index: str
) -> None:
    assert index in await plan_by_index(database, query, arguments)


async def test_one_poisoned_group_among_many_is_found_without_reading_them(
    jobs: JobFactory, pool: Pool
) -> None:
    head = await jobs.grouped("poisoned")
    await pool.execute(
        "insert into dispatch_jobs (tenant_id, job_id, pool_no, kind, code, target_url,"
        " message_group, mode, sequence, max_retries, timeout_seconds, data_only)"
        " select $1, 'Z' || n, 1, 'TASK', 'c', 't', 'g' || (n % 500), 'BLOCK_ON_ERROR', 99, 3, 30,"
        " true from generate_series(1, 5000) n",
        jobs.tenant,
    )
    await jobs.fail(head)
    await pool.execute("analyze dispatch_jobs")
    arguments = (jobs.tenant, -1, "", [FIRST], 10)
    plan = await pool.fetch(f"explain (analyze) {Q['failed_groups']}", *arguments, 100)
    assert "dispatch_jobs_error" in "\n".join(row[0] for row in plan)
    assert await walk(jobs, [FIRST], look=GroupSelection.FAILED) == [(FIRST, "poisoned")]
    plan = await pool.fetch(f"explain (analyze, buffers) {Q['walk_groups']}", *arguments)
    assert "dispatch_jobs_group" in "\n".join(row[0] for row in plan)
    assert len(await walk(jobs, [FIRST], limit=1_000)) == 501
