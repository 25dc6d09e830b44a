"""Events and subscriptions for tests that care about a few of their fields."""

from itertools import count
from typing import Any

from core.dispatch.event_job import EventJob, job_of
from core.dispatch.subscription import Binding, Subscription
from core.events.event import Event
from core.shared.tsid import IdMaker

NOW = 1_750_000_000.0
new_id = IdMaker(0, lambda: NOW)
_numbers = count(1)


def event(tenant: int = 1, **more: Any) -> Event:
    """An event of its own."""
    defaults: dict[str, Any] = {
        "event_id": new_id(),
        "type": "order.created",
        "source": "shop",
        "time": NOW,
    }
    return Event(tenant=tenant, **defaults | more)


def subscription(tenant: int = 1, **more: Any) -> Subscription:
    """A subscription of its own."""
    number = next(_numbers)
    defaults: dict[str, Any] = {
        "subscription_id": f"sub_{number}",
        "code": f"sub-{number}",
        "name": "test",
        "target": "http://127.0.0.1:9/hook",
        "pool_no": 1,
        "pool_code": "default",
        "bindings": (Binding("order.created"),),
    }
    return Subscription(tenant=tenant, **defaults | more)


def jobs(events: list[Event], *wanted: Subscription) -> list[EventJob]:
    """A job for each event and each who wants it."""
    return [job_of(one, by, new_id()) for one in events for by in wanted]
