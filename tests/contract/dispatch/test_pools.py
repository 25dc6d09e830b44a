"""Dispatch pools on a real Postgres: whose they are, how many there may be, who needs them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from core.dispatch.job import ANCHOR
from core.dispatch.pool import PoolRefusal, PoolStatus
from services.dispatch import declarations
from storage.access import keys
from storage.dispatch import pools, subscriptions
from storage.dispatch.pools import NewPool, PoolFilter, PoolRow
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.postgres.reconciler import DeclarationOptions, SyncRefusal, SyncResult
from tests.support.subscriptions import subscription

MOST = 20
ENOUGH = 10


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


@pytest.fixture
async def tenant(pool: Pool) -> int:
    return await keys.create_tenant(pool, "acme")


@pytest.fixture
async def other(pool: Pool) -> int:
    return await keys.create_tenant(pool, "other")


def new(code: str = "slow", owner: str = "") -> NewPool:
    return NewPool(pool_id=f"dpl_{owner}{code}", code=code, name=code.title(), rate_limit=600)


async def made(pool: Pool, tenant: int, code: str = "slow", most: int = MOST) -> PoolRow:
    created = await pools.create(pool, tenant, new(code, str(tenant)), most)
    assert isinstance(created, PoolRow)
    return created


async def test_there_is_a_pool_for_what_names_none(pool: Pool, tenant: int) -> None:
    (default,) = await pools.all_open(pool)
    assert (default.tenant, default.code, default.pool_id) == (ANCHOR, "default", "dpl_default")
    assert (default.rate_limit, default.concurrency, default.is_default) == (None, 200, True)
    assert await pools.find(pool, tenant, "default") == default
    assert await pools.read_no(pool, default.pool_no) == default


async def test_no_tenant_takes_the_place_of_the_pool_for_what_names_none(
    pool: Pool, tenant: int
) -> None:
    refused = PoolRefusal.CODE_IS_RESERVED
    assert await pools.create(pool, tenant, new("default"), MOST) is refused
    anchors = await pools.create(pool, ANCHOR, new("default"), MOST)
    assert anchors is PoolRefusal.CODE_EXISTS


async def test_a_pool_of_ones_own_goes_before_the_anchors(
    pool: Pool, tenant: int, other: int
) -> None:
    shared = await made(pool, ANCHOR)
    own = await made(pool, tenant)
    assert await pools.find(pool, tenant, "slow") == own
    assert await pools.find(pool, tenant, own.pool_id) == own
    assert await pools.find(pool, tenant, shared.pool_id) == shared
    assert await pools.find(pool, other, "slow") == shared
    assert await pools.find(pool, other, own.pool_id) is None
    assert await pools.find(pool, ANCHOR, own.pool_id) is None
    assert await pools.find(pool, tenant, "none") is None
    assert await pools.read_no(pool, 999) is None


async def test_codes_are_taken_within_a_tenant_only(pool: Pool, tenant: int, other: int) -> None:
    await made(pool, tenant)
    again = await pools.create(pool, tenant, new(owner="b"), MOST)
    assert again is PoolRefusal.CODE_EXISTS
    await made(pool, other)


async def test_there_are_so_many_pools_and_no_more(pool: Pool, tenant: int, other: int) -> None:
    await made(pool, tenant, "one", most=2)
    refused = await pools.create(pool, other, new("two"), 2)
    assert refused is PoolRefusal.POOL_LIMIT
    await pools.archive(pool, tenant, "one")
    await made(pool, other, "two", most=2)
    assert await pools.activate(pool, tenant, "one", 2) is PoolRefusal.POOL_LIMIT
    back = await pools.activate(pool, tenant, "one", 3)
    assert isinstance(back, PoolRow)
    assert back.status is PoolStatus.ACTIVE


async def test_one_tenant_leaves_places_to_others(pool: Pool, tenant: int, other: int) -> None:
    for name in ("one", "two", "three"):
        await made(pool, tenant, name, most=6)
    refused = await pools.create(pool, tenant, new("four"), 6)
    assert refused is PoolRefusal.POOL_LIMIT
    await made(pool, other, "one", most=6)
    await pools.archive(pool, tenant, "one")
    await made(pool, tenant, "four", most=6)
    assert await pools.activate(pool, tenant, "one", 6) is PoolRefusal.POOL_LIMIT


async def test_of_many_who_want_the_last_place_one_gets_it(pool: Pool, tenant: int) -> None:
    answers = await asyncio.gather(
        *(pools.create(pool, tenant, new(f"pool-{n}"), 2) for n in range(6))
    )
    assert sum(isinstance(answer, PoolRow) for answer in answers) == 1
    assert answers.count(PoolRefusal.POOL_LIMIT) == 5


async def test_values_change_and_the_rest_stays(pool: Pool, tenant: int, other: int) -> None:
    own = await made(pool, tenant)
    changed = await pools.change(
        pool, tenant, "slow", lambda held: replace(held, rate_limit=None, concurrency=3)
    )
    assert isinstance(changed, PoolRow)
    assert changed == replace(own, rate_limit=None, concurrency=3, updated_at=changed.updated_at)
    assert changed.updated_at > own.updated_at
    suspended = await pools.suspend(pool, tenant, own.pool_id)
    assert isinstance(suspended, PoolRow)
    assert suspended.status is PoolStatus.SUSPENDED
    assert await pools.find(pool, tenant, "slow") == suspended
    for owner in (other, ANCHOR):
        missing = await pools.suspend(pool, owner, own.pool_id)
        assert missing is PoolRefusal.POOL_NOT_FOUND
    anchors = await pools.suspend(pool, tenant, "default")
    assert anchors is PoolRefusal.ANCHORS_POOL


async def test_a_pool_is_archived_when_nobody_needs_it(pool: Pool, tenant: int, other: int) -> None:
    shared = await made(pool, ANCHOR)
    wish = subscription(tenant, pool_no=shared.pool_no)
    await subscriptions.create(pool, wish, b"s")
    assert await pools.archive(pool, ANCHOR, "slow") is PoolRefusal.POOL_IN_USE
    await subscriptions.pause(pool, tenant, "orders")
    await pool.execute(
        "insert into dispatch_jobs (tenant_id, job_id, pool_no, kind, code, target_url, mode,"
        " sequence, max_retries, timeout_seconds, data_only) values"
        f" ({tenant}, 'j', {shared.pool_no}, 'TASK', 'c', 'http://t', 'IMMEDIATE', 9, 3, 9, true)"
    )
    assert await pools.archive(pool, ANCHOR, "slow") is PoolRefusal.POOL_IN_USE
    await pool.execute("update dispatch_jobs set standing = 'done', status = 'COMPLETED'")
    archived = await pools.archive(pool, ANCHOR, "slow")
    assert isinstance(archived, PoolRow)
    assert archived.status is PoolStatus.ARCHIVED
    again = await pools.archive(pool, ANCHOR, "slow")
    assert again is PoolRefusal.POOL_ALREADY_ARCHIVED
    assert await pools.suspend(pool, ANCHOR, "slow") is PoolRefusal.POOL_ARCHIVED
    assert await pools.archive(pool, ANCHOR, "default") is PoolRefusal.POOL_IS_DEFAULT
    assert await pools.archive(pool, other, "none") is PoolRefusal.POOL_NOT_FOUND
    assert await pools.find(pool, tenant, "slow") is None
    assert await pools.read(pool, tenant, "slow") == archived
    assert [one.code for one in await pools.all_open(pool)] == ["default"]


async def test_tenants_see_their_own_and_the_anchors(pool: Pool, tenant: int, other: int) -> None:
    for owner, code in ((tenant, "one"), (other, "two"), (ANCHOR, "three")):
        await made(pool, owner, code)
    await pools.suspend(pool, tenant, "one")

    async def listed(after: int = 0, limit: int = 9, **chosen: object) -> list[str]:
        filters = PoolFilter(**chosen)  # type: ignore[arg-type]
        found = await pools.page(pool, tenant, filters, after, limit)
        if not after and limit == 9:
            assert await pools.count(pool, tenant, filters) == len(found)
        return [one.code for one in found]

    assert await listed() == ["default", "one", "three"]
    assert await listed(limit=2) == ["default", "one"]
    own = await pools.read(pool, tenant, "one")
    assert own is not None
    assert await listed(after=own.pool_no) == ["three"]
    assert await listed(status=PoolStatus.SUSPENDED) == ["one"]
    assert await listed(is_anchors=True) == ["default", "three"]
    assert await listed(is_anchors=False) == ["one"]


# Declared as a whole


async def sync(
    pool: Pool, tenant: int, *wanted: NewPool, remove: bool = False, most: int = ENOUGH
) -> SyncResult | SyncRefusal:
    wish = DeclarationOptions(application="shop", remove=remove)
    return await declarations.sync_pools(pool, tenant, wish, wanted, most)


async def test_an_application_declares_its_pools(pool: Pool, tenant: int) -> None:
    one, two = new("one"), new("two")
    assert await sync(pool, tenant, one, two) == SyncResult(created=["one", "two"])
    other_rate = replace(two, rate_limit=5)
    done = await sync(pool, tenant, one, other_rate)
    assert done == SyncResult(updated=["two"], unchanged=["one"])
    await subscriptions.create(
        pool, subscription(tenant, pool_no=await number(pool, tenant, "one")), b"s"
    )
    done = await sync(pool, tenant, new("three"), remove=True)
    kept = SyncRefusal("one", PoolRefusal.POOL_IN_USE)
    assert done == SyncResult(created=["three"], removed=["two"], kept=[kept])
    assert await sync(pool, tenant, one, two) == SyncResult(updated=["two"], unchanged=["one"])


async def number(pool: Pool, tenant: int, code: str) -> int:
    found = await pools.find(pool, tenant, code)
    assert found is not None
    return found.pool_no


async def test_a_declaration_that_cannot_be_met_changes_nothing(pool: Pool, tenant: int) -> None:
    await made(pool, tenant, "by-hand")
    refused = await sync(pool, tenant, new("one"), new("by-hand"))
    assert refused == SyncRefusal("by-hand", PoolRefusal.CODE_EXISTS)
    assert await pools.find(pool, tenant, "one") is None
    refused = await sync(pool, tenant, new("one"), new("two"), most=4)
    assert refused == SyncRefusal("two", PoolRefusal.POOL_LIMIT)
    assert await pools.find(pool, tenant, "one") is None
    await sync(pool, tenant, new("one"))
    await pools.archive(pool, tenant, "one")
    refused = await sync(pool, tenant, new("one"), most=2)
    assert refused == SyncRefusal("one", PoolRefusal.POOL_LIMIT)
