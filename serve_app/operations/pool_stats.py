"""The counters of dispatch pools and their queues, made from the pools' reports."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field

from core.dispatch.health import success_rate
from core.dispatch.pool import PoolStatus
from serve_app.dispatch.status import PoolSnapshot
from serve_app.http.fields import optional
from serve_app.http.models import View
from storage.dispatch.stats import QueueSize

# How fields for the last minutes end, and the minutes as a pool reports them.
_WINDOWS = {"_5min": "5", "_30min": "30"}


class PoolStats(View):
    """A pool. Of a shared pool, a tenant sees its jobs only.

    Totals are then those of the last 30 minutes, and counters over all tenants are left out.
    """

    pool_code: str
    pool_id: str
    status: PoolStatus
    shared: bool
    alive: bool
    total_processed: int
    total_succeeded: int
    total_failed: int
    total_retried: int | None = optional()
    total_deferred: int | None = optional()
    total_expired: int | None = optional()
    total_rate_limited: int | None = optional()
    success_rate: float
    active_workers: int
    available_permits: int | None = optional()
    max_concurrency: int
    rate_limit_per_minute: int | None
    queue_size: int = Field(
        description="Jobs in its memory that wait; of a shared pool, the tenant's own that wait."
    )
    max_queue_capacity: int | None = optional()
    groups: int | None = optional()
    blocked_groups: int | None = optional()
    average_processing_time_ms: float | None = optional()
    total_processed_5min: int = Field(alias="totalProcessed5min")
    total_succeeded_5min: int = Field(alias="totalSucceeded5min")
    total_failed_5min: int = Field(alias="totalFailed5min")
    success_rate_5min: float = Field(alias="successRate5min")
    total_processed_30min: int = Field(alias="totalProcessed30min")
    total_succeeded_30min: int = Field(alias="totalSucceeded30min")
    total_failed_30min: int = Field(alias="totalFailed30min")
    success_rate_30min: float = Field(alias="successRate30min")

    @classmethod
    def of_pool(cls, pool: PoolSnapshot, size: QueueSize | None = None) -> Self:
        """Render a pool; of one that is lent to the tenant, the tenant's `size` in its queue."""
        stats, row = pool.stats, pool.row
        own = size or QueueSize()
        values = {
            "pool_code": row.code,
            "pool_id": row.pool_id,
            "status": row.status,
            "shared": pool.is_shared,
            "alive": pool.is_up,
            "active_workers": own.under_way,
            "max_concurrency": row.concurrency,
            "rate_limit_per_minute": row.rate_limit,
            "queue_size": own.ready + own.delayed,
            **_outcomes(stats, "total_processed", "total_succeeded"),
        }
        if not pool.is_lent:
            active, sends = stats.get("active", 0), stats.get("sends", 0)
            average = round(stats.get("seconds", 0.0) * 1000 / sends, 3) if sends else 0.0
            values |= {
                "active_workers": active,
                "queue_size": stats.get("waiting", 0),
                "total_retried": stats.get("retried", 0),
                "total_deferred": stats.get("deferred", 0),
                "total_expired": stats.get("expired", 0),
                "total_rate_limited": stats.get("rate_limited", 0),
                "available_permits": max(0, row.concurrency - active),
                "max_queue_capacity": stats.get("capacity", 0),
                "groups": stats.get("groups", 0),
                "blocked_groups": stats.get("blocked_groups", 0),
                "average_processing_time_ms": average,
            }
        return cls.of(values)


class QueueStats(View):
    """The queue of a pool. Only the tenant's jobs count, up to 10000.

    Of a shared pool, totals are those of the tenant's jobs of the last 30 minutes.
    """

    name: str
    shared: bool
    total_messages: int
    total_consumed: int
    total_failed: int
    total_deferred: int | None = optional()
    success_rate: float
    current_size: int
    throughput: float = Field(description="Deliveries a second over the last 5 minutes.")
    pending_messages: int = Field(description="May be delivered now.")
    delayed_messages: int = Field(description="Wait for their time.")
    messages_not_visible: int = Field(description="Are being delivered.")
    total_messages_5min: int = Field(alias="totalMessages5min")
    total_consumed_5min: int = Field(alias="totalConsumed5min")
    total_failed_5min: int = Field(alias="totalFailed5min")
    success_rate_5min: float = Field(alias="successRate5min")
    total_messages_30min: int = Field(alias="totalMessages30min")
    total_consumed_30min: int = Field(alias="totalConsumed30min")
    total_failed_30min: int = Field(alias="totalFailed30min")
    success_rate_30min: float = Field(alias="successRate30min")

    @classmethod
    def of_pool(cls, pool: PoolSnapshot, size: QueueSize) -> Self:
        """Render the queue of a pool and the jobs that have gone through it."""
        stats = pool.stats
        queued = size.under_way + size.delayed + size.ready
        values = _outcomes(stats, "total_consumed") | {
            f"total_messages{window}": sum(_counts(stats, window)) for window in _WINDOWS
        }
        return cls.of(
            values
            | {
                "name": pool.row.code,
                "shared": pool.is_shared,
                "total_messages": sum(_counts(stats)) + queued,
                "total_deferred": None if pool.is_lent else stats.get("deferred", 0),
                "current_size": queued,
                "throughput": round(_counts(stats, "_5min")[0] / 300, 3),
                "pending_messages": size.ready,
                "delayed_messages": size.delayed,
                "messages_not_visible": size.under_way,
            }
        )


def _counts(stats: Mapping[str, Any], window: str = "") -> tuple[int, int]:
    """Return completed and failed deliveries: in all, or in one of the windows."""
    if window:
        stats = stats.get("windows", {}).get(_WINDOWS[window], {})
    return stats.get("completed", 0), stats.get("failed", 0)


def _outcomes(
    stats: Mapping[str, Any], processed: str, succeeded: str | None = None
) -> dict[str, float]:
    """Return the outcomes of all deliveries and of both windows, under the names of a view."""
    values: dict[str, float] = {}
    for window in ("", *_WINDOWS):
        completed, failed = _counts(stats, window)
        values[f"{processed}{window}"] = completed + failed
        values[f"total_failed{window}"] = failed
        values[f"success_rate{window}"] = success_rate(completed, failed)
        if succeeded is not None:
            values[f"{succeeded}{window}"] = completed
    return values
