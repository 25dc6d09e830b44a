"""Further tenants and keys in the database of a running instance, as an operator would add them."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from core.permissions import ALL_PERMISSIONS, Permission
from storage import access, embedded
from storage.pool import Pool, PoolOptions, open_pool
from tests.support.product import Product


def in_database(product: Product, work: Callable[[Pool], Awaitable[Any]]) -> Any:
    """Do something in the instance's own PostgreSQL."""
    server = embedded.running(product.data_dir)
    assert server is not None

    async def run() -> Any:
        pool = await open_pool(PoolOptions(dsn=server.dsn, name="test", max_size=1))
        try:
            return await work(pool)
        finally:
            await pool.close()

    return asyncio.run(run())


def add_tenant(product: Product) -> tuple[int, str]:
    """A new tenant: its number, and a key with every permission."""

    async def work(pool: Pool) -> tuple[int, str]:
        tenant = await access.create_tenant(pool, f"tenant-{secrets.token_hex(4)}")
        return tenant, await access.create_key(pool, _key(tenant, ALL_PERMISSIONS))

    made: tuple[int, str] = in_database(product, work)
    return made


def _key(tenant: int, permissions: tuple[Permission, ...]) -> access.NewKey:
    return access.NewKey(
        tenant=tenant,
        name="test",
        prefix=secrets.token_hex(6),
        secret=secrets.token_hex(16),
        permissions=permissions,
    )
