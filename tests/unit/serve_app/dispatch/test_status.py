"""Whom a tenant is told of, and what pools and warnings look like."""

from functools import partial
from typing import Any

import pytest

from core.dispatch.pool import PoolStatus
from core.shared.errors import UnavailableError
from core.shared.timestamps import to_iso
from serve_app.dispatch.status import DispatchStatusReader, PoolSnapshot
from serve_app.operations.health_checks import dispatch_component
from serve_app.operations.monitoring_models import (
    BreakerView,
    ConsumerHealth,
    DispatchHealth,
    InFlightMessage,
    StandbyStatus,
)
from serve_app.operations.pool_stats import PoolStats, QueueStats
from serve_app.operations.warnings import WarningView
from storage.dispatch import pools, stats
from storage.dispatch.stats import OutcomeCounts, QueueSize
from storage.operations import warnings
from storage.operations.warnings import Severity, WarningRow
from telemetry.registry import MetricsSnapshot
from tests.unit.serve_app.container_fixtures import document_of
from tests.unit.serve_app.dispatch.job_fixtures import NOW, pool_row

STATS: dict[str, Any] = {
    "pool_no": 1,
    "tenant": 0,
    "code": "default",
    "completed": 8,
    "failed": 2,
    "retried": 1,
    "deferred": 3,
    "expired": 0,
    "rate_limited": 4,
    "active": 3,
    "waiting": 5,
    "buffered": 8,
    "capacity": 100,
    "groups": 2,
    "blocked_groups": 1,
    "sends": 10,
    "seconds": 2.0,
    "breakers": {"closed": 1, "open": 1, "half_open": 0},
    "windows": {"5": {"completed": 3, "failed": 0}, "30": {"completed": 6, "failed": 2}},
}


class World:
    """A database that knows two pools, a supervisor, and pools that answer or not."""

    def __init__(self) -> None:
        own = {"pool_no": 2, "tenant": 7, "code": "own", "pool_id": "dpl_2"}
        self.rows = [
            pool_row(),
            pool_row(**own),
            pool_row(pool_no=3, tenant=7, code="gone", status=PoolStatus.ARCHIVED),
        ]
        self.reports: Any = [
            {"name": "pool-dispatch-1", "kind": "dispatch", "alive": True, "stats": STATS},
            {"name": "shard-0", "kind": "shard", "alive": True, "stats": {}},
        ]
        self.away: set[int] = set()
        self.asked: list[tuple[Any, ...]] = []
        self.sight = DispatchStatusReader(self, self, self.ask_pool, lambda: NOW, lambda: 0.0)  # type: ignore[arg-type]

    async def actors(self) -> Any:
        return self.reports

    def bind(self, query: Any) -> Any:
        return partial(self.query, query)

    async def query(self, query: Any, *args: Any) -> Any:
        return {
            pools.page: self.rows,
            stats.recent_outcomes: {1: (OutcomeCounts(4, 1), OutcomeCounts(1, 1))},
            stats.queue_sizes: {1: QueueSize(1, 2, 3)},
            warnings.count_recent: {args[0]: 4} if args else {},
            warnings.count_open: {"ERROR": 2},
        }[query]

    async def ask_pool(self, pool_no: int, question: str, *args: Any) -> Any:
        self.asked.append((pool_no, question, *args))
        if pool_no in self.away:
            raise UnavailableError("away")
        return [pool_no]


async def test_a_tenant_sees_its_own_pools_and_the_shared_ones() -> None:
    shared, own = await World().sight.pools(7)
    assert (shared.row.code, shared.is_shared, shared.is_up) == ("default", True, True)
    assert (own.row.code, own.is_shared, own.is_up) == ("own", False, False)
    assert await World().sight.pools(7, "own") == [own]
    assert await World().sight.pools(7, "nobody") == []


async def test_the_last_minutes_of_a_shared_pool_are_ones_own() -> None:
    shared, _ = await World().sight.pools(7)
    assert shared.vitals().rate == 0.8
    assert PoolStats.of_pool(shared).total_succeeded_5min == 1
    anchors, _ = await World().sight.pools(0)
    assert PoolStats.of_pool(anchors).total_succeeded_5min == 3


async def test_what_a_shared_pool_counts_for_all_is_not_told_to_one() -> None:
    world = World()
    shared, _ = await world.sight.pools(7)
    size = (await world.sight.sizes(7))[1]
    told = document_of(PoolStats.of_pool(shared, size))
    assert (told["totalProcessed"], told["totalSucceeded"], told["totalFailed"]) == (5, 4, 1)
    assert (told["activeWorkers"], told["queueSize"]) == (1, 5)
    everything = document_of(PoolStats.of_pool((await world.sight.pools(0))[0]))
    assert set(everything) - set(told) == {
        "totalRetried",
        "totalDeferred",
        "totalExpired",
        "totalRateLimited",
        "availablePermits",
        "maxQueueCapacity",
        "groups",
        "blockedGroups",
        "averageProcessingTimeMs",
    }
    queue = document_of(QueueStats.of_pool(shared, size))
    assert (queue["totalConsumed"], queue["totalMessages"]) == (5, 11)
    assert "totalDeferred" not in queue
    assert PoolStats.of_pool(shared).queue_size == 0


async def test_only_pools_that_are_up_are_asked_and_those_away_left_out() -> None:
    world = World()
    pools = await world.sight.pools(7)
    assert [told for _, told in await world.sight.query(pools, "breakers", 7)] == [[1]]
    assert world.asked == [(1, "breakers", 7)]
    world.away.add(1)
    assert await world.sight.query(pools, "breakers", 7) == []


async def test_a_supervisor_that_is_away_leaves_pools_without_numbers() -> None:
    world = World()
    world.reports = None
    shared, _ = await world.sight.pools(7)
    assert not shared.is_up
    assert PoolStats.of_pool(shared).total_processed == 5


async def test_sizes_and_warnings_are_the_tenants() -> None:
    world = World()
    assert await world.sight.sizes(7) == {1: QueueSize(1, 2, 3)}
    assert await world.sight.recent_warnings(7) == 4
    snapshot = await world.sight.extend_snapshot(MetricsSnapshot(), 7)
    assert snapshot.warnings == {"ERROR": 2}


# Documents


def test_a_pool_has_every_number() -> None:
    pool = PoolSnapshot(pool_row(rate_limit=600), STATS, is_up=True)
    document = document_of(PoolStats.of_pool(pool))
    assert document["totalProcessed"] == 10
    assert document["successRate"] == 0.8
    assert (document["activeWorkers"], document["availablePermits"]) == (3, 7)
    assert document["averageProcessingTimeMs"] == 200.0
    assert document["successRate30min"] == 0.75
    assert document["rateLimitPerMinute"] == 600


def test_a_queue_has_what_is_in_it_and_what_went_through() -> None:
    queue = QueueStats.of_pool(PoolSnapshot(pool_row(), STATS, is_up=True), QueueSize(1, 2, 3))
    assert queue.current_size == 6
    assert queue.total_messages == 16
    assert queue.throughput == 0.01
    assert (queue.total_messages_5min, queue.total_consumed_30min) == (3, 8)


def test_health_names_what_is_wrong() -> None:
    pool = PoolSnapshot(pool_row(), STATS, is_up=True)
    document = document_of(DispatchHealth.of_pools([pool.vitals(2)], 1, NOW))
    assert document["status"] == "DEGRADED"
    assert "75%" in document["details"]["degradationReason"]
    assert document["details"]["circuitBreakersOpen"] == 2
    assert DispatchHealth.of_pools([], 0, NOW).status == "HEALTHY"


def test_targets_jobs_under_way_and_warnings_fit_their_models() -> None:
    pool = PoolSnapshot(pool_row(), STATS, is_up=True)
    target = {
        "target": "http://127.0.0.1:9/",
        "under_way": 1,
        "state": "OPEN",
        "successful": 1,
        "failed": 9,
        "refused": 3,
        "opened": 1,
        "buffered": 10,
        "buffer_size": 100,
        "failure_rate": 0.9,
        "open_for": 4.2,
    }
    assert document_of(BreakerView.of_report(pool, target))["openForSeconds"] == 4.2
    job = {"job_id": "J", "target": "http://127.0.0.1:9/", "group": None, "seconds": 1.2}
    assert document_of(InFlightMessage.of_report(pool, job))["elapsedTimeMs"] == 1_200
    warned = WarningRow(
        warning_id=5,
        category="QUEUE_BACKLOG",
        severity=Severity.WARNING,
        source="default",
        message="much",
        count=2,
        first_at=NOW,
        last_at=NOW,
        acknowledged_at=None,
        acknowledged_by=None,
    )
    document = document_of(WarningView.of(warned))
    assert (document["id"], document["timestamp"]) == ("5", to_iso(NOW))
    assert (document["acknowledged"], document["acknowledgedAt"]) == (False, None)


@pytest.mark.parametrize(("alive", "status"), [((True, True), "UP"), ((True, False), "DOWN")])
def test_dispatch_is_up_when_every_pool_answers(alive: tuple[bool, ...], status: str) -> None:
    actors = [
        {"name": f"pool-dispatch-{n}", "alive": up, "stalled": {"claim": 3.0}}
        for n, up in enumerate(alive)
    ]
    component = dispatch_component({"actors": [*actors, {"name": "pool-calls-0", "alive": False}]})
    assert component == {"status": status, "up": sum(alive), "expected": 2}


def test_a_dispatch_pool_that_writes_no_results_is_down() -> None:
    actors = [
        {"name": "pool-dispatch-1", "alive": True, "stalled": {"claim": 0.0}},
        {"name": "pool-dispatch-2", "alive": True, "stalled": {"write_results": 25.0}},
    ]
    assert dispatch_component({"actors": actors}) == {
        "status": "DOWN",
        "up": 1,
        "expected": 2,
        "detail": "pool-dispatch-2: write_results stalled for 25 s",
    }


async def test_who_looks_for_work_and_when_they_last_did() -> None:
    world = World()
    world.reports[0]["stats"] = STATS | {"looked_ago": 1.5}
    pools = await world.sight.pools(7)
    readers = [
        {"name": "kafka-ingest-0", "alive": True, "stats": {"polled_ago": 90.0}},
        {"name": "kafka-ingest-1", "alive": False, "stats": {"polled_ago": 0.1}},
    ]
    told = document_of(ConsumerHealth.of_actors(pools, readers, NOW))
    shared, own, slow, gone = told["consumers"].values()
    assert list(told["consumers"]) == [
        "dpl_default",
        "dpl_2",
        "kafka-ingest-0",
        "kafka-ingest-1",
    ]
    assert (shared["isHealthy"], shared["timeSinceLastPollMs"]) == (True, 1_500)
    assert shared["lastPollTime"] == "2023-11-14T22:13:18.500000Z"
    assert shared["instanceId"] == "pool-dispatch-1"
    assert (own["isHealthy"], own["isRunning"], own["lastPollTimeMs"]) == (False, False, None)
    assert (slow["isHealthy"], slow["isRunning"]) == (False, True), "not for a minute"
    assert (gone["isHealthy"], gone["isRunning"], gone["lastPollTime"]) == (False, False, None)


def test_nobody_stands_by_and_the_supervisor_says_who_runs() -> None:
    actors = [{"alive": True, "restarts": 2}, {"alive": True}, {"alive": False, "restarts": 1}]
    assert document_of(StandbyStatus.of_actors(actors)) == {
        "standbyEnabled": False,
        "supervisorAnswers": True,
        "actors": 3,
        "actorsAlive": 2,
        "restarts": 3,
        "hasWarning": True,
    }
    assert not StandbyStatus.of_actors(actors[:2]).has_warning
    away = StandbyStatus.of_actors(None)
    assert (away.supervisor_answers, away.has_warning) == (False, True)
