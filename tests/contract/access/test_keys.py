"""A key ends with the key that made it: by its time, and when that is revoked."""

import asyncio
import secrets
import time

import pytest

from core.access.permissions import Permission
from storage.access import keys
from storage.access.keys import ChildKey, NewKey
from storage.postgres.pool import Pool

BOTH = (Permission.KEYS_WRITE, Permission.WAITS_READ)


def new(tenant: int, permissions: tuple[Permission, ...] = BOTH, **more: float) -> NewKey:
    return NewKey(
        tenant=tenant,
        name="k",
        prefix=secrets.token_hex(6),
        secret="s",
        permissions=permissions,
        **more,
    )


async def first(pool: Pool, tenant: int, **more: float) -> str:
    key = new(tenant, **more)
    await keys.create_key(pool, key)
    return key.prefix


async def child_of(pool: Pool, tenant: int, maker: str, **more: float) -> str:
    key = new(tenant, **more)
    assert await keys.create_child_key(pool, key, maker) is not None
    return key.prefix


async def until(pool: Pool, question: str) -> None:
    async with asyncio.timeout(30):
        while not await pool.fetchval(question):  # noqa: ASYNC110  only Postgres knows
            await asyncio.sleep(0.01)


async def lives(pool: Pool, prefix: str) -> float | None:
    found = await keys.find_key(pool, prefix)
    assert found is not None
    return found.lives


async def test_a_child_ends_with_its_maker_at_the_latest(pool: Pool, tenant: int) -> None:
    maker = await first(pool, tenant, lifetime=60.0)
    for more in ({}, {"lifetime": 3600.0}):
        made = await keys.create_child_key(pool, new(tenant, **more), maker)
        assert isinstance(made, ChildKey)
        assert made.expires_at is not None
        assert made.expires_at == pytest.approx(time.time() + 60, abs=20)
    sooner = await lives(pool, await child_of(pool, tenant, maker, lifetime=5.0))
    assert sooner is not None
    assert sooner <= 5


async def test_the_child_of_one_that_never_ends_need_not_end(pool: Pool, tenant: int) -> None:
    maker = await first(pool, tenant)
    assert await lives(pool, await child_of(pool, tenant, maker)) is None


async def test_a_key_makes_none_that_may_do_more(pool: Pool, tenant: int) -> None:
    maker = new(tenant, (Permission.KEYS_WRITE,))
    await keys.create_key(pool, maker)
    assert await keys.create_child_key(pool, new(tenant), maker.prefix) is None


async def test_nor_does_a_key_that_is_over_or_another_tenants(
    pool: Pool, tenant: int, other: int
) -> None:
    maker = await first(pool, tenant)
    assert await keys.create_child_key(pool, new(other), maker) is None
    await keys.revoke_key(pool, tenant, maker)
    assert await keys.create_child_key(pool, new(tenant), maker) is None
    assert await keys.create_child_key(pool, new(tenant), "nobody") is None


async def test_a_key_takes_all_that_it_made_with_it(pool: Pool, tenant: int) -> None:
    maker, neighbour = await first(pool, tenant), await first(pool, tenant)
    child = await child_of(pool, tenant, maker)
    twin = await child_of(pool, tenant, maker)
    grandchild = await child_of(pool, tenant, child)
    apart = await child_of(pool, tenant, neighbour)
    revoked = await keys.revoke_key(pool, tenant, maker)
    assert revoked[0] == maker
    assert set(revoked) == {maker, child, twin, grandchild}
    for prefix in revoked:
        assert await keys.find_key(pool, prefix) is None
    for prefix in (neighbour, apart):
        assert await keys.find_key(pool, prefix) is not None


async def test_revoking_a_child_leaves_its_maker_alone(pool: Pool, tenant: int) -> None:
    maker = await first(pool, tenant)
    child = await child_of(pool, tenant, maker)
    assert await keys.revoke_key(pool, tenant, child) == [child]
    assert await keys.find_key(pool, maker) is not None


async def test_another_tenants_key_is_not_there(pool: Pool, tenant: int, other: int) -> None:
    maker = await first(pool, tenant)
    assert await keys.revoke_key(pool, other, maker) == []
    assert await keys.find_key(pool, maker) is not None


async def test_a_key_that_is_being_made_does_not_slip_through(pool: Pool, tenant: int) -> None:
    maker = await first(pool, tenant)
    async with pool.acquire() as conn:
        making = conn.transaction()
        await making.start()
        key = new(tenant)
        assert await keys.add_child_key(conn, key, maker) is not None
        revoking = asyncio.create_task(keys.revoke_key(pool, tenant, maker))
        await until(pool, "select count(*) from pg_locks where not granted")
        await making.commit()
    assert await revoking == [maker, key.prefix]


async def test_a_listing_tells_who_made_each(pool: Pool, tenant: int) -> None:
    maker = await first(pool, tenant)
    child = await child_of(pool, tenant, maker)
    made_by = {row["prefix"]: row["created_by"] for row in await keys.list_keys(pool, tenant)}
    assert made_by == {maker: None, child: maker}
