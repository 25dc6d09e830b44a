"""Further tenants and keys in the database of a running instance, as an operator would add them."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from core.access.permissions import ALL_PERMISSIONS
from core.dispatch.job import ANCHOR
from host.postgres import embedded
from storage.access import keys
from storage.encryption import cipher
from storage.encryption.cipher import FileKeys, KeyRing
from storage.postgres.pool import Pool, PoolOptions, open_pool
from tests.support.product import Product


def in_database(product: Product, work: Callable[[Pool], Awaitable[Any]]) -> Any:
    """Do something in the instance's own PostgreSQL, with its keys."""
    server = embedded.running(product.data_dir)
    assert server is not None
    before = cipher.key_ring()
    cipher.install(KeyRing(FileKeys(str(product.data_dir / "secret_key"))))

    async def run() -> Any:
        pool = await open_pool(PoolOptions(dsn=server.dsn, name="test", max_size=1))
        try:
            return await work(pool)
        finally:
            await pool.close()

    try:
        return asyncio.run(run())
    finally:
        cipher.install(before)


@contextmanager
def another_tenant(product: Product) -> Iterator[Product]:
    """The same instance, as the admin of a new tenant sees it."""
    slug = f"tenant-{secrets.token_hex(4)}"
    with _admin(product, lambda pool: keys.create_tenant(pool, slug)) as admin:
        yield admin


@contextmanager
def the_anchor(product: Product) -> Iterator[Product]:
    """The same instance, as the admin of the anchor sees it."""

    async def anchor(_pool: Pool) -> int:
        return ANCHOR

    with _admin(product, anchor) as admin:
        yield admin


@contextmanager
def _admin(product: Product, find: Callable[[Pool], Awaitable[int]]) -> Iterator[Product]:
    async def work(pool: Pool) -> str:
        key = keys.NewKey(
            tenant=await find(pool),
            name="admin",
            prefix=secrets.token_hex(6),
            secret=secrets.token_hex(16),
            permissions=ALL_PERMISSIONS,
        )
        return await keys.create_key(pool, key)

    key: str = in_database(product, work)
    with client(product, key) as http:
        yield Product(product.url, key, product.pid, product.data_dir, http)


def client(product: Product, key: str | None) -> httpx.Client:
    """A client with this key, or with none."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.Client(base_url=product.url, headers=headers, timeout=30, trust_env=False)


def create_key(product: Product, permissions: list[str], **more: Any) -> dict[str, Any]:
    """A new key of the product's tenant, made over HTTP."""
    body = {"name": "test", "permissions": permissions, **more}
    reply = product.http.post("/api/keys", json=body)
    assert reply.status_code == 201, reply.text
    created: dict[str, Any] = reply.json()
    return created
