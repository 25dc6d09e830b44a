"""The data of dispatch monitoring for one tenant."""

import asyncio
from collections.abc import Iterable

import structlog

from core.dispatch.breaker import BreakerState
from serve_app.cluster_stats import SUPERVISOR_ERRORS, Report
from serve_app.container import Replica
from serve_app.dispatch.status import DISPATCH_KIND
from serve_app.http.models import Document
from serve_app.kafka.status import INGEST
from serve_app.operations.monitoring_rendering import (
    breaker_document,
    consumers_document,
    health_document,
    in_flight_document,
    pool_stats_document,
    queue_stats_document,
    standby_document,
)
from serve_app.operations.warnings import WarningView
from storage.dispatch.stats import QueueSize
from storage.operations import warnings
from storage.operations.warnings import WarningFilter

# The number of a pool's jobs among which one job is searched.
MAX_IN_FLIGHT = 10_000
# The maximum for each kind of item on the dashboard.
MAX_DASHBOARD_ITEMS = 100

log = structlog.get_logger("monitoring")


async def health(replica: Replica, tenant: int) -> Document:
    dispatch_status = replica.dispatch
    pools = await dispatch_status.pools(tenant)
    is_open = BreakerState.OPEN.value
    opened = {
        pool.row.pool_no: sum(one["state"] == is_open for one in reports)
        for pool, reports in await dispatch_status.query(pools, "breakers", tenant)
    }
    vitals = [pool.vitals(opened.get(pool.row.pool_no, 0)) for pool in pools]
    warnings = await dispatch_status.recent_warnings(tenant)
    return health_document(vitals, warnings, replica.client.clock.now())


async def pool_stats(replica: Replica, tenant: int) -> list[Document]:
    """List the pools with their counters; of a shared pool, the tenant's part."""
    pools = await replica.dispatch.pools(tenant)
    is_any_lent = any(pool.is_lent for pool in pools)
    sizes = await replica.dispatch.sizes(tenant) if is_any_lent else {}
    return [pool_stats_document(pool, sizes.get(pool.row.pool_no)) for pool in pools]


async def queue_stats(replica: Replica, tenant: int) -> list[Document]:
    """List the queue of each pool."""
    pools = await replica.dispatch.pools(tenant)
    sizes = await replica.dispatch.sizes(tenant)
    return [queue_stats_document(pool, sizes.get(pool.row.pool_no, QueueSize())) for pool in pools]


async def in_flight(
    replica: Replica,
    tenant: int,
    limit: int,
    message_id: str | None = None,
    pool_code: str | None = None,
) -> list[Document]:
    """List the jobs that are being delivered, longest first."""
    pools = await replica.dispatch.pools(tenant, pool_code)
    max_items = limit if message_id is None else MAX_IN_FLIGHT
    items = [
        in_flight_document(pool, one)
        for pool, reports in await replica.dispatch.query(pools, "in_flight", tenant, max_items)
        for one in reports
        if message_id in {None, one["job_id"]}
    ]
    items.sort(key=lambda item: -item["elapsedTimeMs"])
    return items[:limit]


async def breakers(replica: Replica, tenant: int) -> list[Document]:
    """List the targets by name."""
    pools = await replica.dispatch.pools(tenant)
    items = [
        breaker_document(pool, one)
        for pool, reports in await replica.dispatch.query(pools, "breakers", tenant)
        for one in reports
    ]
    return sorted(items, key=lambda item: (item["name"], item["poolCode"]))


async def consumers(replica: Replica, tenant: int) -> Document:
    """List the consumers: the tenant's pools, the shared ones, and Kafka ingest."""
    pools = await replica.dispatch.pools(tenant)
    readers = [actor for actor in await _actors(replica) or () if actor["kind"] == INGEST]
    return consumers_document(pools, readers, replica.client.clock.now())


async def standby(replica: Replica) -> Document:
    """Return the state of failover, without dispatch pools, which belong to tenants."""
    actors = await _actors(replica)
    return standby_document(
        None if actors is None else [one for one in actors if one["kind"] != DISPATCH_KIND]
    )


async def dashboard(replica: Replica, tenant: int) -> Document:
    """Collect all documents, each with its first items."""
    condition, pools, queues, under_way, targets, taking = await asyncio.gather(
        health(replica, tenant),
        pool_stats(replica, tenant),
        queue_stats(replica, tenant),
        in_flight(replica, tenant, MAX_DASHBOARD_ITEMS),
        breakers(replica, tenant),
        consumers(replica, tenant),
    )
    warned = await replica.listings.query(
        warnings.page, tenant, WarningFilter(is_open=True), None, MAX_DASHBOARD_ITEMS
    )
    return {
        "health": condition,
        "pools": pools,
        "queues": queues,
        "inFlightMessages": under_way,
        "circuitBreakers": targets[:MAX_DASHBOARD_ITEMS],
        "warnings": [WarningView.of(one).model_dump(by_alias=True, mode="json") for one in warned],
        "consumerHealth": taking,
        "standbyStatus": await standby(replica),
    }


async def _actors(replica: Replica) -> Iterable[Report] | None:
    """Return the actors in the supervisor's report; None if the supervisor does not answer."""
    try:
        actors: Iterable[Report] = (await replica.cluster_stats.report())["actors"]
    except SUPERVISOR_ERRORS as error:
        log.warning("monitoring.supervisor_away", error=type(error).__name__)
        return None
    return actors
