"""How deliveries fare, as an operator sees it."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from storage.operations import warnings
from storage.operations.warnings import NewWarning, Severity
from storage.postgres.pool import Pool
from tests.support.dispatching import MONITORING, DispatchApi, make_pool, tenant_of
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, new_id, until
from tests.support.receiver import Answer, receiving
from tests.support.tenants import another_tenant, in_database


@pytest.fixture
def newcomer(product: Product) -> Iterator[DispatchApi]:
    """A tenant of whom nothing is known, without a pool."""
    with another_tenant(product) as tenant, receiving() as receiver:
        yield DispatchApi(tenant, receiver, "default")


def health(shipper: DispatchApi) -> dict[str, Any]:
    document: dict[str, Any] = shipper.http.get(f"{MONITORING}/health").json()
    return document


def warn(shipper: DispatchApi, number: int, **fields: Any) -> list[int]:
    """Raise so many warnings; their ids."""

    async def work(db: Pool) -> list[int]:
        usual: dict[str, Any] = {
            "tenant": await tenant_of(db, shipper.product),
            "category": "TEST",
            "severity": Severity.WARNING,
            "message": "look here",
        }
        made = [NewWarning(**usual | {"source": new_id()} | fields) for _ in range(number)]
        return [await warnings.warn(db, one) for one in made]

    ids: list[int] = in_database(shipper.product, work)
    return ids


# Pools and queues


def test_pools_and_queues_are_counted(shipper: DispatchApi) -> None:
    before = until("the pool answers", lambda: _alive(shipper))
    target = shipper.receiver.place()
    ids = [shipper.post(target)["id"] for _ in range(5)]
    wrong = shipper.receiver.place(400)
    lost = shipper.post(wrong)["id"]
    later = shipper.post(target, delaySeconds=3_600)["id"]
    for job_id in ids:
        shipper.becomes(job_id, "COMPLETED")
    shipper.becomes(lost, "ERROR")
    stats = until("it is told", lambda: _grown(shipper, before, 6))
    assert stats["totalSucceeded"] - before["totalSucceeded"] == 5
    assert stats["totalFailed"] - before["totalFailed"] == 1
    assert stats["totalProcessed30min"] == stats["totalProcessed5min"] >= 6
    assert 0 < stats["successRate"] < 1
    assert stats["averageProcessingTimeMs"] > 0
    assert (stats["maxConcurrency"], stats["availablePermits"]) == (20, 20)
    assert (stats["status"], stats["shared"], stats["alive"]) == ("ACTIVE", False, True)
    queue = until("the queue is counted", lambda: _delayed(shipper))
    assert queue["delayedMessages"] == queue["currentSize"] == 1
    assert queue["totalConsumed"] == stats["totalProcessed"]
    assert queue["throughput"] > 0
    shipper.do(later, "cancel")


def _alive(shipper: DispatchApi) -> dict[str, Any] | None:
    stats = shipper.stats()
    return stats if stats["alive"] else None


def _grown(shipper: DispatchApi, before: dict[str, Any], number: int) -> dict[str, Any] | None:
    stats = shipper.stats()
    grown = stats["totalProcessed"] - before["totalProcessed"] >= number
    return stats if grown and stats["activeWorkers"] == 0 else None


def _delayed(shipper: DispatchApi) -> dict[str, Any] | None:
    queue = shipper.stats("queue-stats")
    return queue if queue["delayedMessages"] == 1 and queue["currentSize"] == 1 else None


def test_a_tenant_sees_the_shared_pool_with_its_own_last_minutes(
    newcomer: DispatchApi, product: Product
) -> None:
    (shared,) = newcomer.http.get(f"{MONITORING}/pool-stats").json()["items"]
    assert (shared["poolCode"], shared["shared"]) == ("default", True)
    assert (shared["totalProcessed30min"], shared["successRate30min"]) == (0, 1.0)
    target = newcomer.receiver.place()
    newcomer.becomes(newcomer.post(target)["id"], "COMPLETED")
    until("it is told", lambda: newcomer.stats()["totalSucceeded30min"] == 1)
    (queue,) = newcomer.http.get(f"{MONITORING}/queue-stats").json()["items"]
    assert queue["currentSize"] == 0


def test_what_is_under_way_is_told_longest_first(
    shipper: DispatchApi, newcomer: DispatchApi
) -> None:
    free = threading.Event()
    target = shipper.receiver.place(lambda _: Answer(hold=free))
    first = shipper.grouped(target, "g-1")
    target.gets(1)
    second = shipper.grouped(target, "g-2")
    target.gets(2)
    try:
        path = f"{MONITORING}/in-flight-messages"
        items = shipper.http.get(path).json()["items"]
        own = [item for item in items if item["targetUrl"] == target.url]
        assert [item["messageId"] for item in own] == [first, second]
        assert own[0]["poolCode"] == shipper.pool
        assert own[0]["messageGroup"] == "g-1"
        assert own[0]["elapsedTimeMs"] >= own[1]["elapsedTimeMs"]
        (item,) = shipper.http.get(path, params={"messageId": second}).json()["items"]
        assert item["messageId"] == second
        assert shipper.http.get(path, params={"poolCode": "default"}).json()["items"] == []
        assert len(shipper.http.get(path, params={"limit": 1}).json()["items"]) == 1
        assert newcomer.http.get(path).json()["items"] == []
        assert shipper.stats("queue-stats")["messagesNotVisible"] >= 0
    finally:
        free.set()
    for job_id in (first, second):
        shipper.becomes(job_id, "COMPLETED")


def test_a_pool_of_ones_own_changes_while_it_runs(shipper: DispatchApi) -> None:
    code = make_pool(shipper.product, concurrency=1)
    path = f"{MONITORING}/pools/{code}"
    changed = shipper.http.put(path, json={"concurrency": 7, "rateLimitPerMinute": 600})
    assert changed.status_code == 200, changed.text
    assert (changed.json()["maxConcurrency"], changed.json()["rateLimitPerMinute"]) == (7, 600)
    changed = shipper.http.put(path, json={"rateLimitPerMinute": None})
    assert (changed.json()["maxConcurrency"], changed.json()["rateLimitPerMinute"]) == (7, None)
    for wrong in ({}, {"concurrency": 0}, {"concurrency": None}, {"rateLimitPerMinute": 0}):
        assert_problem(shipper.http.put(path, json=wrong), 422, "invalid")
    unknown = shipper.http.put(f"{MONITORING}/pools/nobody", json={"concurrency": 1})
    assert_problem(unknown, 404, "pool_not_found")
    shared = shipper.http.put(f"{MONITORING}/pools/default", json={"concurrency": 1})
    assert_problem(shared, 403, "anchors_pool")


# Targets


def breaker(shipper: DispatchApi) -> dict[str, Any] | None:
    items = shipper.http.get(f"{MONITORING}/circuit-breakers").json()["items"]
    return next((item for item in items if item["name"] == shipper.receiver.url), None)


def test_a_target_that_fails_is_left_alone_and_tried_again_on_request(shipper: DispatchApi) -> None:
    with receiving() as receiver:  # all that is on one server is left alone together
        _is_left_alone(replace(shipper, receiver=receiver))


def _is_left_alone(shipper: DispatchApi) -> None:
    target = shipper.receiver.place(500)
    for _ in range(15):
        shipper.post(target, maxRetries=1)

    def opened() -> dict[str, Any] | None:
        found = breaker(shipper)
        return found if found and found["state"] == "OPEN" else None

    found = until("it is left alone", opened)
    assert found["failedCalls"] >= 10
    assert found["failureRate"] >= 0.5
    assert (found["bufferSize"], found["poolCode"]) == (100, shipper.pool)
    told = health(shipper)
    assert told["status"] in {"WARNING", "DEGRADED"}
    assert told["details"]["circuitBreakersOpen"] >= 1
    target.becomes(200)
    held = shipper.post(target)["id"]
    path = f"{MONITORING}/circuit-breakers/{quote(target.url, safe='')}/reset"
    assert shipper.http.post(path).json() == {"reset": 1}
    shipper.becomes(held, "COMPLETED")
    closed = breaker(shipper)
    assert closed is not None
    assert closed["state"] == "CLOSED"
    everything = shipper.http.post(f"{MONITORING}/circuit-breakers/reset-all").json()
    assert everything["reset"] >= 1
    nobody = f"{MONITORING}/circuit-breakers/{quote('http://nobody/', safe='')}/reset"
    assert_problem(shipper.http.post(nobody), 404, "not_found")


# Health and warnings


def test_health_follows_from_deliveries_and_warnings(newcomer: DispatchApi) -> None:
    assert health(newcomer)["status"] == "HEALTHY"
    warn(newcomer, 5)
    assert health(newcomer)["status"] == "HEALTHY"
    warn(newcomer, 1)
    told = health(newcomer)
    assert (told["status"], told["details"]["activeWarnings"]) == ("WARNING", 6)
    assert "6 warnings" in told["details"]["degradationReason"]
    warn(newcomer, 15)
    assert health(newcomer)["status"] == "DEGRADED"
    assert newcomer.http.delete(f"{MONITORING}/warnings").json() == {"deleted": 21}
    assert health(newcomer)["status"] == "HEALTHY"
    wrong = newcomer.receiver.place(400)
    for _ in range(3):
        newcomer.becomes(newcomer.post(wrong)["id"], "ERROR")
    told = until("it is told", lambda: _degraded(newcomer))
    assert "0% of the deliveries of pool default" in told["details"]["degradationReason"]
    assert told["details"]["healthyPools"] == 0


def _degraded(shipper: DispatchApi) -> dict[str, Any] | None:
    told = health(shipper)
    return told if told["status"] == "DEGRADED" else None


def test_warnings_are_looked_at_and_put_aside(newcomer: DispatchApi) -> None:
    (first,) = warn(newcomer, 1, source="a", message="one")
    assert warn(newcomer, 1, source="a", message="two") == [first]
    (second,) = warn(newcomer, 1, severity=Severity.CRITICAL)

    def listed(rest: str = "", **params: Any) -> list[dict[str, Any]]:
        reply = newcomer.http.get(f"{MONITORING}/warnings{rest}", params=params)
        assert reply.status_code == 200, reply.text
        items: list[dict[str, Any]] = reply.json()["items"]
        return items

    assert [one["id"] for one in listed()] == [str(second), str(first)]
    again = listed()[1]
    assert (again["message"], again["count"], again["acknowledged"]) == ("two", 2, False)
    assert [one["id"] for one in listed(cursor=str(second))] == [str(first)]
    assert [one["id"] for one in listed("/severity/CRITICAL")] == [str(second)]
    seen = newcomer.http.post(f"{MONITORING}/warnings/{second}/acknowledge").json()
    assert (seen["acknowledged"], seen["acknowledgedBy"]) == (
        True,
        newcomer.product.key.split("_")[1],
    )
    assert [one["id"] for one in listed("/unacknowledged")] == [str(first)]
    old = newcomer.http.delete(f"{MONITORING}/warnings/old", params={"hours": 1})
    assert old.json() == {"deleted": 0}
    reply = newcomer.http.get(f"{MONITORING}/warnings/severity/LOUD")
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {"severity"}
    unknown = newcomer.http.post(f"{MONITORING}/warnings/999999999/acknowledge")
    assert_problem(unknown, 404, "not_found")


# Elsewhere


def test_metrics_tell_of_ones_own_pools_and_the_shared_ones(
    shipper: DispatchApi, newcomer: DispatchApi
) -> None:
    warn(newcomer, 2, severity=Severity.ERROR)
    page = newcomer.http.get("/metrics").text
    assert 'muster_dispatch_pool_concurrency{pool="default",scope="shared"} 200.0' in page
    assert 'muster_dispatch_warnings{severity="ERROR"} 2.0' in page
    assert 'muster_dispatch_breakers{pool="default",scope="shared",state="open"}' in page
    assert 'muster_dispatch_jobs_created_total{kind="TASK"' in page
    assert shipper.pool not in page
    assert f'muster_dispatch_jobs_completed_total{{pool="{shipper.pool}",scope="own"}}' in (
        shipper.http.get("/metrics").text
    )


def test_health_for_load_balancers_counts_the_pools(product: Product) -> None:
    told = httpx.get(f"{product.url}/actuator/health", trust_env=False).json()
    dispatch = told["components"]["dispatch"]
    assert dispatch["status"] == "UP"
    assert dispatch["up"] == dispatch["expected"] >= 1


def test_the_status_of_actors_names_no_pool_of_others(
    shipper: DispatchApi, newcomer: DispatchApi
) -> None:
    page = newcomer.http.get("/api/status")
    assert page.status_code == 200
    assert shipper.pool not in page.text
    assert "pool-dispatch-1" in page.text


# All at once


def _codes(shipper: DispatchApi) -> set[str]:
    """The pools that it can use."""
    items = shipper.http.get(f"{MONITORING}/pool-stats").json()["items"]
    return {one["poolCode"] for one in items}


def test_who_looks_for_work_is_told(shipper: DispatchApi) -> None:
    until("the pool answers", lambda: _alive(shipper))

    def own() -> dict[str, Any] | None:
        told = shipper.http.get(f"{MONITORING}/consumer-health").json()
        found = {one["queueIdentifier"]: one for one in told["consumers"].values()}
        assert set(found) == _codes(shipper), "and nobody else's"
        one: dict[str, Any] = found[shipper.pool]
        return one if one["isHealthy"] else None

    one = until("it has looked for work", own)
    assert one["isRunning"]
    assert one["timeSinceLastPollSeconds"] < 60


def test_nobody_stands_by(shipper: DispatchApi) -> None:
    told = shipper.http.get(f"{MONITORING}/standby-status").json()
    assert told["standbyEnabled"] is False
    assert told["supervisorAnswers"]
    assert told["actors"] >= told["actorsAlive"] > 0


def test_the_dashboard_has_all_of_it(shipper: DispatchApi) -> None:
    (warning,) = warn(shipper, 1)
    hold = threading.Event()
    target = shipper.receiver.place(lambda _: Answer(hold=hold))
    job = shipper.post(target)["id"]
    try:
        target.gets(1)
        told = shipper.http.get(f"{MONITORING}/dashboard").json()
    finally:
        hold.set()
    assert [one["messageId"] for one in told["inFlightMessages"]] == [job]
    assert shipper.pool in {pool["poolCode"] for pool in told["pools"]}
    assert {queue["name"] for queue in told["queues"]} == _codes(shipper)
    assert str(warning) in {one["id"] for one in told["warnings"]}
    assert told["circuitBreakers"]
    assert told["health"]["status"] in {"HEALTHY", "WARNING", "DEGRADED"}
    assert told["standbyStatus"]["standbyEnabled"] is False
    assert len(told["consumerHealth"]["consumers"]) == len(told["pools"])
