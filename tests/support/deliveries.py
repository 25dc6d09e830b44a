"""Deliveries to make, for tests of the parts that make them."""

from typing import Any

from core.dispatch.claim import ClaimedEvent, ClaimedJob
from core.dispatch.job import Kind

MADE_AT = 1_772_366_400.25  # 2026-03-01T12:00:00.250Z

EVENT = ClaimedEvent(
    type="shop:orders:order:placed",
    source="/shop/tills/7",
    time=MADE_AT,
    subject="order/4711",
)


def task(url: str = "http://127.0.0.1/", **fields: Any) -> ClaimedJob:
    """One that somebody posted."""
    known: dict[str, Any] = {
        "tenant": 1,
        "job_id": "0JOB000000001",
        "send_no": 1,
        "attempt_count": 0,
        "max_retries": 3,
        "timeout_seconds": 30,
        "kind": Kind.TASK,
        "code": "rebuild-index",
        "target_url": url,
        "data_only": True,
        "created_at": MADE_AT,
        "payload": b'{"n": 1}',
        "content_type": "application/json",
    }
    return ClaimedJob(**known | fields)


def delivery(url: str = "http://127.0.0.1/", **fields: Any) -> ClaimedJob:
    """One that brings an event to a subscription."""
    known: dict[str, Any] = {
        "kind": Kind.EVENT,
        "code": EVENT.type,
        "source": EVENT.source,
        "subject": EVENT.subject,
        "event_id": "0EVT000000001",
        "subscription_id": "sub_0SUB000000001",
        "subscription_version": 1,
        "correlation_id": "c-1",
        "event": EVENT,
    }
    return task(url, **known | fields)
