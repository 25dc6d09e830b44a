"""The state of the actors and how much they have to do."""

from typing import Any, Self

from pydantic import Field

from core.access.permissions import Permission
from core.dispatch.job import ANCHOR
from serve_app.cluster_stats import Report
from serve_app.dispatch.status import DISPATCH_KIND
from serve_app.http.fields import optional
from serve_app.http.models import View
from serve_app.http.router import Context, HttpRouter

router = HttpRouter("/api/status", tag="operations", reads=Permission.METRICS_READ)

# These name topics, resources and pools of other tenants. GET /api/kafka, /metrics and
# /monitoring show each tenant its part.
_PRIVATE = frozenset({"partitions", "following", "gathers", "resources", "code", "tenant"})
# Of a shared pool, only these fields are shown: its condition, but not its throughput.
_SHARED = frozenset({"pool_no", "status", "behind", "active", "concurrency"})


class ActorView(View):
    """One actor as the supervisor last saw it."""

    name: str
    kind: str
    alive: bool
    pid: int | None = optional()
    node: str | None = optional()
    restarts: int = 0
    uptime: float | None = optional("Seconds.")
    stats: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of_report(cls, actor: Report, tenant: int) -> Self:
        """Render what a tenant may see of an actor."""
        stats = actor.get("stats", {})
        if actor.get("kind") == DISPATCH_KIND:
            stats = _pool_stats(stats, tenant)
        shown = {name: actor[name] for name in cls.model_fields if name in actor}
        public = {name: value for name, value in stats.items() if name not in _PRIVATE}
        return cls.of(shown | {"stats": public})


class Totals(View):
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


class StatusView(View):
    """The actors and how much they have to do."""

    placement: str
    actors: list[ActorView]
    totals: Totals

    @classmethod
    def of_report(cls, report: Report, flushes_per_second: float, tenant: int) -> Self:
        """Render what a tenant may see of the supervisor's report, with sums over all shards."""
        actors = report["actors"]
        sums = {name: sum(_stat(actor, name) for actor in actors) for name in Totals.model_fields}
        return cls(
            placement=report["placement"],
            actors=[ActorView.of_report(actor, tenant) for actor in actors],
            totals=Totals.of(sums | {"flushes_per_second": round(flushes_per_second, 2)}),
        )


@router.get()
async def show_status(context: Context) -> StatusView:
    """Show the actors, their state and how much work waits for them."""
    report = await context.replica.cluster_stats.report()
    flushes = sum(_stat(actor, "flushes") for actor in report["actors"])
    rate = context.replica.flush_rate.update(flushes)
    return StatusView.of_report(report, rate, context.tenant)


def _pool_stats(stats: Report, tenant: int) -> Report:
    """Return all stats of the tenant's pool, the condition of a shared one, none of others."""
    match stats.get("tenant"):
        case owner if owner == tenant:
            return stats
        case owner if owner == ANCHOR:
            return {name: value for name, value in stats.items() if name in _SHARED}
        case _:
            return {}


def _stat(actor: Report, name: str) -> int:
    is_shard = actor.get("kind") == "shard"
    return int((actor.get("stats") or {}).get(name, 0)) if is_shard else 0
