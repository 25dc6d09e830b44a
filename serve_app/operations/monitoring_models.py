"""Requests and responses of dispatch monitoring, made from the reports of pools and actors."""

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field

from core.dispatch.breaker import BreakerState
from core.dispatch.health import Condition, PoolHealth, assess_health
from core.dispatch.pool import MAX_CONCURRENCY, MAX_RATE
from serve_app.cluster_stats import Report
from serve_app.dispatch.status import PoolSnapshot
from serve_app.http.fields import IsoTime
from serve_app.http.models import Patch, View
from serve_app.operations.pool_stats import PoolStats, QueueStats
from serve_app.operations.warnings import WarningView
from telemetry.actor_metrics import stats_of
from telemetry.kafka_metrics import INGEST

# A consumer that has not polled for so many seconds is unhealthy.
MAX_POLL_AGE_SECONDS = 60.0


class HealthDetails(View):
    """The numbers behind a condition."""

    total_queues: int
    healthy_queues: int
    total_pools: int
    healthy_pools: int
    active_warnings: int = Field(description="Open ones of the last 30 minutes.")
    circuit_breakers_open: int
    degradation_reason: str | None


class DispatchHealth(View):
    """The condition of dispatch and its reasons."""

    status: Condition
    timestamp: IsoTime
    details: HealthDetails

    @classmethod
    def of_pools(cls, pools: list[PoolHealth], warnings: int, now: float) -> Self:
        """Assess the pools; each has one queue."""
        condition, reason = assess_health(pools, warnings)
        healthy = sum(pool.is_healthy for pool in pools)
        details = HealthDetails(
            total_queues=len(pools),
            healthy_queues=healthy,
            total_pools=len(pools),
            healthy_pools=healthy,
            active_warnings=warnings,
            circuit_breakers_open=sum(pool.open_breakers for pool in pools),
            degradation_reason=reason,
        )
        return cls.of({"status": condition, "timestamp": now, "details": details})


class PoolStatsList(View):
    """The tenant's pools and the shared ones."""

    items: list[PoolStats]


class QueueStatsList(View):
    """The queues of the tenant's pools and of the shared pools."""

    items: list[QueueStats]


_Milliseconds = Annotated[int, BeforeValidator(lambda seconds: round(seconds * 1000))]


class PoolReportView(View):
    """What a pool reports."""

    @classmethod
    def of_report(cls, pool: PoolSnapshot, report: Mapping[str, Any]) -> Self:
        return cls.of(SimpleNamespace(**report, pool_code=pool.row.code))


class InFlightMessage(PoolReportView):
    """A job that is being delivered."""

    message_id: str = Field(validation_alias="job_id")
    pool_code: str
    target_url: str = Field(validation_alias="target")
    message_group: str | None = Field(validation_alias="group")
    elapsed_time_ms: _Milliseconds = Field(validation_alias="seconds")


class InFlightList(View):
    """The tenant's jobs that are being delivered, longest first."""

    items: list[InFlightMessage]


class BreakerView(PoolReportView):
    """The circuit breaker of one target in one pool."""

    name: str = Field(validation_alias="target", description="The target's address.")
    pool_code: str
    state: BreakerState
    successful_calls: int = Field(validation_alias="successful")
    failed_calls: int = Field(validation_alias="failed")
    rejected_calls: int = Field(validation_alias="refused")
    failure_rate: float = Field(description="Of the buffered calls, 0 to 1.")
    buffered_calls: int = Field(validation_alias="buffered")
    buffer_size: int
    under_way: int
    open_for_seconds: Annotated[float, BeforeValidator(lambda seconds: round(seconds, 3))] = Field(
        validation_alias="open_for", description="Until it is tried again."
    )


class BreakerList(View):
    """The tenant's targets that were called within the last hour."""

    items: list[BreakerView]


class BreakersReset(View):
    """How many circuit breakers were closed."""

    reset: int


class PoolLimitsPatch(Patch):
    """Limits to change; those left out stay as they are."""

    concurrency: Annotated[int, Field(ge=1, le=MAX_CONCURRENCY)]
    rate_limit: Annotated[int, Field(ge=1, le=MAX_RATE)] | None = Field(
        None, alias="rateLimitPerMinute", description="null: as many as there are."
    )


class Consumer(View):
    """A consumer of work: a dispatch pool, or an actor that reads Kafka."""

    map_key: str
    kind: Literal["dispatch-pool", "kafka-ingest"]
    queue_identifier: str = Field(description="The pool's code, or kafka.")
    instance_id: str = Field(description="The actor.")
    is_healthy: bool = Field(description="It runs, and looked for work in the last minute.")
    is_running: bool
    last_poll_time_ms: int | None
    last_poll_time: IsoTime | None
    time_since_last_poll_ms: int | None = Field(description="As of its last report.")
    time_since_last_poll_seconds: int | None

    @classmethod
    def of_poll(cls, now: float, ago: float | None, *, is_running: bool, **names: str) -> Self:
        """Render a consumer; `ago` is the number of seconds since its last poll."""
        ago = ago if is_running else None
        at = None if ago is None else now - ago
        return cls.of(
            {
                **names,
                "is_healthy": ago is not None and ago < MAX_POLL_AGE_SECONDS,
                "is_running": is_running,
                "last_poll_time_ms": None if at is None else round(at * 1000),
                "last_poll_time": at,
                "time_since_last_poll_ms": None if ago is None else round(ago * 1000),
                "time_since_last_poll_seconds": None if ago is None else int(ago),
            }
        )


class ConsumerHealth(View):
    """All consumers, by name."""

    current_time_ms: int
    current_time: IsoTime
    consumers: dict[str, Consumer]

    @classmethod
    def of_actors(
        cls, pools: Iterable[PoolSnapshot], readers: Iterable[Report], now: float
    ) -> Self:
        """Render the dispatch pools and the actors that read Kafka."""
        consumers = {}
        for pool in pools:
            consumers[pool.row.pool_id] = Consumer.of_poll(
                now,
                pool.looked_ago,
                is_running=pool.is_up,
                map_key=pool.row.pool_id,
                kind="dispatch-pool",
                queue_identifier=pool.row.code,
                instance_id=pool.actor,
            )
        for actor in readers:
            name = actor["name"]
            consumers[name] = Consumer.of_poll(
                now,
                stats_of(actor).get("polled_ago"),
                is_running=bool(actor.get("alive")),
                map_key=name,
                kind=INGEST,
                queue_identifier="kafka",
                instance_id=name,
            )
        values = {"current_time_ms": round(now * 1000), "current_time": now}
        return cls.of(values | {"consumers": consumers})


class StandbyStatus(View):
    """What takes over when a process ends."""

    standby_enabled: Literal[False] = Field(
        description="No second instance waits: actors are restarted, and read their rows again."
    )
    supervisor_answers: bool
    actors: int = Field(description="Those that are expected, without dispatch pools.")
    actors_alive: int
    restarts: int
    has_warning: bool

    @classmethod
    def of_actors(cls, actors: Sequence[Report] | None) -> Self:
        """Render the state of failover; `None` means that the supervisor does not answer."""
        known = actors or ()
        alive = sum(bool(actor.get("alive")) for actor in known)
        return cls(
            standby_enabled=False,
            supervisor_answers=actors is not None,
            actors=len(known),
            actors_alive=alive,
            restarts=sum(actor.get("restarts", 0) for actor in known),
            has_warning=actors is None or alive < len(known),
        )


class Dashboard(View):
    """All of monitoring in one document."""

    health: DispatchHealth
    pools: list[PoolStats]
    queues: list[QueueStats]
    in_flight_messages: list[InFlightMessage]
    circuit_breakers: list[BreakerView]
    warnings: list[WarningView] = Field(description="Those that nobody has acknowledged.")
    consumer_health: ConsumerHealth
    standby_status: StandbyStatus
