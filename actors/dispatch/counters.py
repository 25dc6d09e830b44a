"""Counters of a dispatch pool: since its start, and for the last minutes."""

from collections import deque
from collections.abc import Callable
from typing import Any

from core.dispatch.attempt import AttemptStatus, DeliveryAttempt, JobTransition
from core.dispatch.job import JobStatus
from telemetry import actor_metrics
from telemetry.actor_metrics import Actor, ActorMetrics, Stat, SummaryStat

MINUTE = 60.0
WINDOWS = (5, 30)


_SHARED = 0  # the tenant of shared pools


def _pool_labels(actor: Actor, tenant: int | None) -> tuple[str, str] | None:
    """Tell a pool of the asking tenant from a shared one, which may have the same code."""
    stats = actor_metrics.stats_of(actor)
    if stats.get("tenant") not in {tenant, _SHARED}:
        return None
    return str(stats["code"]), "shared" if stats["tenant"] == _SHARED else "own"


# A tenant sees its own pools and the shared ones, whose counters cover all tenants that use them.
DISPATCH_METRICS = ActorMetrics(
    kind="dispatch",
    labels=("pool", "scope"),
    label_values=_pool_labels,
    counters=(
        Stat("dispatch_jobs_completed", "Jobs that were delivered.", "completed"),
        Stat("dispatch_jobs_failed", "Jobs that failed for good.", "failed"),
        Stat("dispatch_jobs_retried", "Attempts that failed and are made again.", "retried"),
        Stat("dispatch_jobs_deferred", "Attempts that the receiver deferred.", "deferred"),
        Stat("dispatch_jobs_expired", "Jobs that expired before they were delivered.", "expired"),
        Stat("dispatch_rate_limited", "Deliveries that the rate limit delayed.", "rate_limited"),
    ),
    summaries=(
        SummaryStat(
            "dispatch_jobs_duration_seconds", "Time a receiver took.", ("sends",), "seconds"
        ),
    ),
    gauges=(
        Stat("dispatch_groups_active", "Message groups in a pool's memory.", "groups"),
        Stat("dispatch_groups_blocked", "Groups that a failed job blocks.", "blocked_groups"),
        Stat("dispatch_messages_in_group", "Jobs in a pool's memory that wait.", "waiting"),
        Stat("dispatch_pool_active", "Deliveries that a pool is making.", "active"),
        Stat("dispatch_pool_queue", "Jobs in a pool's memory.", "buffered"),
        Stat("dispatch_pool_concurrency", "Limit of concurrent deliveries.", "concurrency"),
        Stat(
            "dispatch_pool_rate_limit",
            "Limit of deliveries a minute; no series if the pool has none.",
            "rate_limit",
            optional=True,
        ),
        Stat(
            "dispatch_oldest_head_seconds",
            "Age of the oldest job that heads a group.",
            "oldest_head_age",
            optional=True,
        ),
        Stat(
            "dispatch_breakers",
            "Targets by the state of their circuit breaker.",
            "breakers",
            label="state",
        ),
    ),
)


class DispatchCounters:
    """Totals since the start, and counts for each of the last thirty minutes."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.completed = self.failed = self.retried = self.deferred = self.expired = 0
        self.seconds = 0.0
        self.sends = 0
        # Each entry: the minute, the completed jobs, the failed jobs.
        self._minutes: deque[list[int]] = deque(maxlen=max(WINDOWS))

    def count(self, step: JobTransition, sent: DeliveryAttempt | None) -> None:
        """Count the result of one job."""
        if sent is not None:
            self.sends += 1
            self.seconds += sent.seconds
        match step.status:
            case JobStatus.COMPLETED:
                self.completed += 1
                self._minute()[1] += 1
            case JobStatus.ERROR:
                self.failed += 1
                self._minute()[2] += 1
            case JobStatus.EXPIRED:
                self.expired += 1
            case _ if sent is None:
                pass  # the job was put back
            case _ if sent.status is AttemptStatus.DEFERRED:
                self.deferred += 1
            case _:
                self.retried += 1

    def snapshot(self) -> dict[str, Any]:
        return {
            "completed": self.completed,
            "failed": self.failed,
            "retried": self.retried,
            "deferred": self.deferred,
            "expired": self.expired,
            "sends": self.sends,
            "seconds": self.seconds,
            "windows": {str(minutes): self._window(minutes) for minutes in WINDOWS},
        }

    def _minute(self) -> list[int]:
        minute = int(self._monotonic() / MINUTE)
        if not self._minutes or self._minutes[-1][0] != minute:
            self._minutes.append([minute, 0, 0])
        return self._minutes[-1]

    def _window(self, minutes: int) -> dict[str, int]:
        since = int(self._monotonic() / MINUTE) - minutes
        counted = [one for one in self._minutes if one[0] > since]
        return {
            "completed": sum(one[1] for one in counted),
            "failed": sum(one[2] for one in counted),
        }
