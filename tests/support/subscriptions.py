"""Subscriptions to test with."""

from typing import Any

from core.subscription import Binding, Subscription

CREATED = "shop:orders:order:created"
DEFAULT_POOL_NO = 1


def subscription(tenant: int, code: str = "orders", **fields: Any) -> Subscription:
    """One that takes orders that were created, unless said otherwise."""
    usual = {
        "tenant": tenant,
        "subscription_id": f"sub_{code}",
        "code": code,
        "name": code.title(),
        "target": "https://example.org/hook",
        "pool_no": DEFAULT_POOL_NO,
        "pool_code": "default",
        "pool_id": "dpl_default",
        "bindings": (Binding(CREATED),),
    }
    return Subscription(**usual | fields)
