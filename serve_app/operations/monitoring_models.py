"""Requests and responses of dispatch monitoring."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import Field, model_validator

from core.dispatch.breaker import BreakerState
from core.dispatch.health import Condition
from core.dispatch.pool import MAX_CONCURRENCY, MAX_RATE, PoolStatus
from serve_app.http.models import WireModel


class HealthDetails(WireModel):
    """The numbers behind a condition."""

    total_queues: int
    healthy_queues: int
    total_pools: int
    healthy_pools: int
    active_warnings: int = Field(description="Open ones of the last 30 minutes.")
    circuit_breakers_open: int
    degradation_reason: str | None


class DispatchHealth(WireModel):
    """The condition of dispatch and its reasons."""

    status: Condition
    timestamp: datetime
    details: HealthDetails


class PoolStats(WireModel):
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
    total_retried: int | None = None
    total_deferred: int | None = None
    total_expired: int | None = None
    total_rate_limited: int | None = None
    success_rate: float
    active_workers: int
    available_permits: int | None = None
    max_concurrency: int
    rate_limit_per_minute: int | None
    queue_size: int = Field(
        description="Jobs in its memory that wait; of a shared pool, the tenant's own that wait."
    )
    max_queue_capacity: int | None = None
    groups: int | None = None
    blocked_groups: int | None = None
    average_processing_time_ms: float | None = None
    total_processed_5min: int = Field(alias="totalProcessed5min")
    total_succeeded_5min: int = Field(alias="totalSucceeded5min")
    total_failed_5min: int = Field(alias="totalFailed5min")
    success_rate_5min: float = Field(alias="successRate5min")
    total_processed_30min: int = Field(alias="totalProcessed30min")
    total_succeeded_30min: int = Field(alias="totalSucceeded30min")
    total_failed_30min: int = Field(alias="totalFailed30min")
    success_rate_30min: float = Field(alias="successRate30min")


class PoolStatsList(WireModel):
    """The tenant's pools and the shared ones."""

    items: list[PoolStats]


class QueueStats(WireModel):
    """The queue of a pool. Only the tenant's jobs count, up to 10000.

    Of a shared pool, totals are those of the tenant's jobs of the last 30 minutes.
    """

    name: str
    shared: bool
    total_messages: int
    total_consumed: int
    total_failed: int
    total_deferred: int | None = None
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


class QueueStatsList(WireModel):
    """The queues of the tenant's pools and of the shared pools."""

    items: list[QueueStats]


class InFlightMessage(WireModel):
    """A job that is being delivered."""

    message_id: str
    pool_code: str
    target_url: str
    message_group: str | None
    elapsed_time_ms: int


class InFlightList(WireModel):
    """The tenant's jobs that are being delivered, longest first."""

    items: list[InFlightMessage]


class BreakerView(WireModel):
    """The circuit breaker of one target in one pool."""

    name: str = Field(description="The target's address.")
    pool_code: str
    state: BreakerState
    successful_calls: int
    failed_calls: int
    rejected_calls: int
    failure_rate: float = Field(description="Of the buffered calls, 0 to 1.")
    buffered_calls: int
    buffer_size: int
    under_way: int
    open_for_seconds: float = Field(description="Until it is tried again.")


class BreakerList(WireModel):
    """The tenant's targets that were called within the last hour."""

    items: list[BreakerView]


class BreakersReset(WireModel):
    """How many circuit breakers were closed."""

    reset: int


class PoolLimitsPatch(WireModel):
    """Limits to change; those left out stay as they are."""

    concurrency: Annotated[int, Field(ge=1, le=MAX_CONCURRENCY)] | None = None
    rate_limit_per_minute: Annotated[int, Field(ge=1, le=MAX_RATE)] | None = Field(
        None, description="null: as many as there are."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("at least one of concurrency, rateLimitPerMinute")
        if "concurrency" in self.model_fields_set and self.concurrency is None:
            raise ValueError("concurrency is a number")
        return self
