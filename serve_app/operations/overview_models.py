"""The responses of monitoring across pools."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from serve_app.http.models import WireModel
from serve_app.operations.monitoring_models import (
    BreakerView,
    DispatchHealth,
    InFlightMessage,
    PoolStats,
    QueueStats,
)
from serve_app.operations.warnings import WarningView


class Consumer(WireModel):
    """A consumer of work: a dispatch pool, or an actor that reads Kafka."""

    map_key: str
    kind: Literal["dispatch-pool", "kafka-ingest"]
    queue_identifier: str = Field(description="The pool's code, or kafka.")
    instance_id: str = Field(description="The actor.")
    is_healthy: bool = Field(description="It runs, and looked for work in the last minute.")
    is_running: bool
    last_poll_time_ms: int | None
    last_poll_time: datetime | None
    time_since_last_poll_ms: int | None = Field(description="As of its last report.")
    time_since_last_poll_seconds: int | None


class ConsumerHealth(WireModel):
    """All consumers, by name."""

    current_time_ms: int
    current_time: datetime
    consumers: dict[str, Consumer]


class StandbyStatus(WireModel):
    """What takes over when a process ends."""

    standby_enabled: Literal[False] = Field(
        description="No second instance waits: actors are restarted, and read their rows again."
    )
    supervisor_answers: bool
    actors: int = Field(description="Those that are expected, without dispatch pools.")
    actors_alive: int
    restarts: int
    has_warning: bool


class Dashboard(WireModel):
    """All of monitoring in one document."""

    health: DispatchHealth
    pools: list[PoolStats]
    queues: list[QueueStats]
    in_flight_messages: list[InFlightMessage]
    circuit_breakers: list[BreakerView]
    warnings: list[WarningView] = Field(description="Those that nobody has acknowledged.")
    consumer_health: ConsumerHealth
    standby_status: StandbyStatus
