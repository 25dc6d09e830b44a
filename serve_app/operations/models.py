"""The responses of /api/status and of the health checks."""

from typing import Any, Literal

from pydantic import Field

from serve_app.http.models import WireModel


class ActorView(WireModel):
    """One actor as the supervisor last saw it."""

    name: str
    kind: str
    alive: bool
    pid: int | None = None
    node: str | None = None
    restarts: int = 0
    uptime: float | None = Field(None, description="Seconds.")
    stats: dict[str, Any] = Field(default_factory=dict)


class Totals(WireModel):
    """Sums over all shards."""

    hot: int = Field(description="Correlations in memory.")
    pending: int = Field(description="Messages that wait for a flush.")
    flushes_per_second: float
    registered: int
    matched: int
    buffered: int
    duplicate: int
    late: int
    rejected: int


class StatusView(WireModel):
    """The actors and how much they have to do."""

    placement: str
    actors: list[ActorView]
    totals: Totals


class ComponentView(WireModel):
    """One component; requests need the database, the shards and the timer."""

    status: Literal["UP", "DOWN"]
    up: int | None = None
    expected: int | None = None
    detail: str | None = None
    details: dict[str, Any] | None = Field(None, description="Resources by name need a key.")


class HealthView(WireModel):
    """Whether requests can be served."""

    status: Literal["UP", "DOWN"]
    components: dict[str, ComponentView] | None = None
