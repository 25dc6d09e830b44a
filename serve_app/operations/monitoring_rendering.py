"""The documents of dispatch monitoring, made from pools' reports and stored warnings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from core.dispatch.health import PoolHealth, assess_health, success_rate
from core.shared.timestamps import to_iso
from serve_app.cluster_stats import Report
from serve_app.dispatch.status import PoolSnapshot
from serve_app.http.models import Document
from serve_app.kafka.status import INGEST, stats_of
from storage.dispatch.stats import QueueSize

_WINDOWS = ("5", "30")
# A consumer that has not polled for so many seconds is unhealthy.
MAX_POLL_AGE_SECONDS = 60.0


def health_document(pools: list[PoolHealth], warnings: int, now: float) -> Document:
    """Render the condition of dispatch and its reasons. Each pool has one queue."""
    condition, reason = assess_health(pools, warnings)
    healthy = sum(pool.is_healthy for pool in pools)
    details = {
        "totalQueues": len(pools),
        "healthyQueues": healthy,
        "totalPools": len(pools),
        "healthyPools": healthy,
        "activeWarnings": warnings,
        "circuitBreakersOpen": sum(pool.open_breakers for pool in pools),
        "degradationReason": reason,
    }
    return {"status": condition, "timestamp": to_iso(now), "details": details}


def pool_stats_document(pool: PoolSnapshot, size: QueueSize | None = None) -> Document:
    """Render a pool's counters; of a pool lent to the tenant, the tenant's `size` in its queue."""
    stats, row = pool.stats, pool.row
    completed, failed = stats.get("completed", 0), stats.get("failed", 0)
    active, waiting = stats.get("active", 0), stats.get("waiting", 0)
    if pool.is_lent:
        own = size or QueueSize()
        active, waiting = own.under_way, own.ready + own.delayed
    document: Document = {
        "poolCode": row.code,
        "poolId": row.pool_id,
        "status": row.status,
        "shared": pool.is_shared,
        "alive": pool.is_up,
        "totalProcessed": completed + failed,
        "totalSucceeded": completed,
        "totalFailed": failed,
        "successRate": success_rate(completed, failed),
        "activeWorkers": active,
        "maxConcurrency": row.concurrency,
        "rateLimitPerMinute": row.rate_limit,
        "queueSize": waiting,
    }
    if not pool.is_lent:
        seconds, sends = stats.get("seconds", 0.0), stats.get("sends", 0)
        document |= {
            "totalRetried": stats.get("retried", 0),
            "totalDeferred": stats.get("deferred", 0),
            "totalExpired": stats.get("expired", 0),
            "totalRateLimited": stats.get("rate_limited", 0),
            "availablePermits": max(0, row.concurrency - active),
            "maxQueueCapacity": stats.get("capacity", 0),
            "groups": stats.get("groups", 0),
            "blockedGroups": stats.get("blocked_groups", 0),
            "averageProcessingTimeMs": _average(seconds * 1000, sends),
        }
    for minutes in _WINDOWS:
        done, lost = _window(stats, minutes)
        document |= {
            f"totalProcessed{minutes}min": done + lost,
            f"totalSucceeded{minutes}min": done,
            f"totalFailed{minutes}min": lost,
            f"successRate{minutes}min": success_rate(done, lost),
        }
    return document


def queue_stats_document(pool: PoolSnapshot, size: QueueSize) -> Document:
    """Render the queue of a pool and the jobs that have gone through it."""
    stats = pool.stats
    completed, failed = stats.get("completed", 0), stats.get("failed", 0)
    queued = size.under_way + size.delayed + size.ready
    document: Document = {
        "name": pool.row.code,
        "shared": pool.is_shared,
        "totalMessages": completed + failed + queued,
        "totalConsumed": completed + failed,
        "totalFailed": failed,
        "successRate": success_rate(completed, failed),
        "currentSize": queued,
        "throughput": round(_window(stats, "5")[0] / 300, 3),
        "pendingMessages": size.ready,
        "delayedMessages": size.delayed,
        "messagesNotVisible": size.under_way,
    }
    if not pool.is_lent:
        document["totalDeferred"] = stats.get("deferred", 0)
    for minutes in _WINDOWS:
        done, lost = _window(stats, minutes)
        document |= {
            f"totalMessages{minutes}min": done + lost,
            f"totalConsumed{minutes}min": done + lost,
            f"totalFailed{minutes}min": lost,
            f"successRate{minutes}min": success_rate(done, lost),
        }
    return document


def in_flight_document(pool: PoolSnapshot, report: Mapping[str, Any]) -> Document:
    """Render a job that is being delivered."""
    return {
        "messageId": report["job_id"],
        "poolCode": pool.row.code,
        "targetUrl": report["target"],
        "messageGroup": report["group"],
        "elapsedTimeMs": round(report["seconds"] * 1000),
    }


def breaker_document(pool: PoolSnapshot, report: Mapping[str, Any]) -> Document:
    """Render the circuit breaker of a target in a pool."""
    return {
        "name": report["target"],
        "poolCode": pool.row.code,
        "state": report["state"],
        "successfulCalls": report["successful"],
        "failedCalls": report["failed"],
        "rejectedCalls": report["refused"],
        "failureRate": report["failure_rate"],
        "bufferedCalls": report["buffered"],
        "bufferSize": report["buffer_size"],
        "underWay": report["under_way"],
        "openForSeconds": round(report["open_for"], 3),
    }


def consumers_document(
    pools: Iterable[PoolSnapshot], readers: Iterable[Report], now: float
) -> Document:
    """Render the consumers, and when each last polled."""
    found = {
        pool.row.pool_id: {
            "kind": "dispatch-pool",
            "queueIdentifier": pool.row.code,
            "instanceId": pool.actor,
            **_poll_document(pool.is_up, pool.looked_ago, now),
        }
        for pool in pools
    }
    for actor in readers:
        found[actor["name"]] = {
            "kind": INGEST,
            "queueIdentifier": "kafka",
            "instanceId": actor["name"],
            **_poll_document(bool(actor.get("alive")), stats_of(actor).get("polled_ago"), now),
        }
    return {
        "currentTimeMs": round(now * 1000),
        "currentTime": to_iso(now),
        "consumers": {key: {"mapKey": key, **one} for key, one in found.items()},
    }


def _poll_document(is_up: bool, ago: float | None, now: float) -> Document:
    """Render whether a consumer polls; `ago` is the number of seconds since its last poll."""
    ago = ago if is_up else None
    at = None if ago is None else now - ago
    return {
        "isHealthy": ago is not None and ago < MAX_POLL_AGE_SECONDS,
        "isRunning": is_up,
        "lastPollTimeMs": None if at is None else round(at * 1000),
        "lastPollTime": None if at is None else to_iso(at),
        "timeSinceLastPollMs": None if ago is None else round(ago * 1000),
        "timeSinceLastPollSeconds": None if ago is None else int(ago),
    }


def standby_document(actors: Sequence[Report] | None) -> Document:
    """Render the state of failover; `None` means that the supervisor does not answer."""
    known = actors or ()
    alive = sum(bool(actor.get("alive")) for actor in known)
    return {
        "standbyEnabled": False,
        "supervisorAnswers": actors is not None,
        "actors": len(known),
        "actorsAlive": alive,
        "restarts": sum(actor.get("restarts", 0) for actor in known),
        "hasWarning": actors is None or alive < len(known),
    }


def _window(stats: Mapping[str, Any], minutes: str) -> tuple[int, int]:
    window = stats.get("windows", {}).get(minutes, {})
    return window.get("completed", 0), window.get("failed", 0)


def _average(total: float, number: int) -> float:
    return round(total / number, 3) if number else 0.0
