"""Subscriptions to test with."""

from typing import Any

from core.dispatch.subscription import Binding, Subscription
from storage.dispatch import pools, subscriptions
from storage.dispatch.pools import NewPool, PoolRow
from storage.postgres.pool import Pool
from tests.support.product import new_id

CREATED = "shop:orders:order:created"
SHIPPED = "shop:orders:order:shipped"
DEFAULT_POOL_NO = 1


def subscription(tenant: int, code: str = "orders", **fields: Any) -> Subscription:
    """One that takes orders that were created, unless said otherwise."""
    usual = {
        "tenant": tenant,
        "subscription_id": f"sub_{code}",
        "code": code,
        "name": code.title(),
        "target": "http://127.0.0.1:9/hook",
        "pool_no": DEFAULT_POOL_NO,
        "pool_code": "default",
        "pool_id": "dpl_default",
        "bindings": (Binding(CREATED),),
    }
    return Subscription(**usual | fields)


async def stored_subscription(
    pool: Pool, tenant: int, code: str = "orders", **fields: Any
) -> Subscription:
    """One that is stored."""
    created = await subscriptions.create(pool, subscription(tenant, code, **fields), b"secret")
    assert isinstance(created, Subscription)
    return created


async def slow_pool(pool: Pool, tenant: int) -> PoolRow:
    """A pool of the tenant's own."""
    new = NewPool(pool_id="dpl_slow", code="slow", name="Slow")
    created = await pools.create(pool, tenant, new, 20)
    assert isinstance(created, PoolRow)
    return created


def new_type() -> str:
    """A type that nobody has used."""
    return f"shop:s{new_id()[:12]}:order:created"


def subscription_body(**fields: Any) -> dict[str, Any]:
    """A subscription as it is asked for over HTTP. Its deliveries wait: they lead nowhere."""
    usual = {
        "code": f"code-{new_id()}",
        "name": "Orders",
        "eventTypes": [{"eventTypeCode": new_type()}],
        "target": "http://127.0.0.1:9/hook",
        "delaySeconds": 86_400,
        "maxAgeSeconds": 0,
    }
    return usual | fields
