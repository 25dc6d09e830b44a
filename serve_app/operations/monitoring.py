"""Monitoring of dispatch: pools, queues, jobs in flight, circuit breakers and consumers."""

import asyncio
from dataclasses import replace
from typing import Annotated

from fastapi import Path, Query

from core.dispatch.breaker import BreakerState
from core.shared.tsid import PATTERN
from serve_app.dispatch.status import DISPATCH_KIND, PoolSnapshot
from serve_app.http.router import Context, HttpRouter, unless_missing, unless_refused
from serve_app.limits.middleware import SLASH
from serve_app.operations.monitoring_models import (
    BreakerList,
    BreakersReset,
    BreakerView,
    ConsumerHealth,
    Dashboard,
    DispatchHealth,
    InFlightList,
    InFlightMessage,
    PoolLimitsPatch,
    PoolStatsList,
    QueueStatsList,
    StandbyStatus,
)
from serve_app.operations.pool_stats import PoolStats, QueueStats
from serve_app.operations.warnings import list_open_warnings
from storage.dispatch import pools
from storage.dispatch.stats import QueueSize
from telemetry.kafka_metrics import INGEST

# The number of a pool's jobs among which one job is searched.
MAX_IN_FLIGHT = 10_000
# The maximum for each kind of item on the dashboard.
MAX_DASHBOARD_ITEMS = 100

router = HttpRouter("/monitoring", tag="monitoring", access="dispatch")


@router.get("/health")
async def show_dispatch_health(context: Context) -> DispatchHealth:
    """Show the condition of dispatch: recent deliveries, warnings and open circuit breakers."""
    dispatch, tenant = context.replica.dispatch, context.tenant
    pools = await dispatch.pools(tenant)
    is_open = BreakerState.OPEN.value
    opened = {
        pool.row.pool_no: sum(one["state"] == is_open for one in reports)
        for pool, reports in await dispatch.query(pools, "breakers", tenant)
    }
    vitals = [pool.vitals(opened.get(pool.row.pool_no, 0)) for pool in pools]
    warnings = await dispatch.recent_warnings(tenant)
    return DispatchHealth.of_pools(vitals, warnings, context.replica.client.clock.now())


@router.get("/pool-stats")
async def list_pool_stats(context: Context) -> PoolStatsList:
    """List the counters of the tenant's pools, and the tenant's part of shared pools."""
    dispatch = context.replica.dispatch
    pools = await dispatch.pools(context.tenant)
    is_any_lent = any(pool.is_lent for pool in pools)
    sizes = await dispatch.sizes(context.tenant) if is_any_lent else {}
    return PoolStatsList(
        items=[PoolStats.of_pool(pool, sizes.get(pool.row.pool_no)) for pool in pools]
    )


@router.get("/queue-stats")
async def list_queue_stats(context: Context) -> QueueStatsList:
    """List the queues of the tenant's pools and of the shared pools."""
    dispatch = context.replica.dispatch
    pools = await dispatch.pools(context.tenant)
    sizes = await dispatch.sizes(context.tenant)
    return QueueStatsList(
        items=[QueueStats.of_pool(one, sizes.get(one.row.pool_no, QueueSize())) for one in pools]
    )


@router.get("/in-flight-messages")
async def list_in_flight_messages(
    context: Context,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    message_id: Annotated[str | None, Query(alias="messageId", pattern=PATTERN)] = None,
    pool_code: Annotated[str | None, Query(alias="poolCode", max_length=200)] = None,
) -> InFlightList:
    """List the tenant's jobs that are being delivered, longest first."""
    dispatch, tenant = context.replica.dispatch, context.tenant
    pools = await dispatch.pools(tenant, pool_code)
    max_items = limit if message_id is None else MAX_IN_FLIGHT
    items = [
        InFlightMessage.of_report(pool, one)
        for pool, reports in await dispatch.query(pools, "in_flight", tenant, max_items)
        for one in reports
        if message_id in {None, one["job_id"]}
    ]
    items.sort(key=lambda item: -item.elapsed_time_ms)
    return InFlightList(items=items[:limit])


@router.get("/circuit-breakers")
async def list_circuit_breakers(context: Context) -> BreakerList:
    """List the tenant's targets and the state of their circuit breakers."""
    dispatch, tenant = context.replica.dispatch, context.tenant
    pools = await dispatch.pools(tenant)
    items = [
        BreakerView.of_report(pool, one)
        for pool, reports in await dispatch.query(pools, "breakers", tenant)
        for one in reports
    ]
    return BreakerList(items=sorted(items, key=lambda item: (item.name, item.pool_code)))


@router.post("/circuit-breakers/reset-all")
async def reset_circuit_breakers(context: Context) -> BreakersReset:
    """Close the circuit breakers of all the tenant's targets."""
    return await _reset(context, None)


@router.post("/circuit-breakers/{name}/reset", refuses=(404,))
async def reset_circuit_breaker(
    name: Annotated[
        str, Path(max_length=300, description="The server's address; a slash is written %2F.")
    ],
    context: Context,
) -> BreakersReset:
    """Close the circuit breaker of one target in all pools."""
    done = await _reset(context, name.replace(SLASH, "/"))
    unless_missing(done.reset, "a target of this address")
    return done


async def _reset(context: Context, target: str | None) -> BreakersReset:
    dispatch, tenant = context.replica.dispatch, context.tenant
    pools = await dispatch.pools(tenant)
    answers = await dispatch.query(pools, "reset_breaker", tenant, target)
    return BreakersReset(reset=sum(int(number) for _, number in answers))


@router.put("/pools/{code}", refuses=(403, 404, 409))
async def change_pool_terms(
    code: Annotated[str, Path(max_length=200, description="The code or the id.")],
    body: PoolLimitsPatch,
    context: Context,
) -> PoolStats:
    """Change the concurrency and the rate limit of one of the tenant's pools, from now on."""
    replica = context.replica
    row = unless_refused(await context.read(pools.change, code, body.edit))
    replica.pool_notifier.notify([row.pool_no])
    snapshots = await replica.dispatch.pools(context.tenant, row.pool_id)
    pool = snapshots[0] if snapshots else PoolSnapshot(row, {}, is_up=False)
    return PoolStats.of_pool(replace(pool, row=row))


@router.get("/consumer-health")
async def show_consumer_health(context: Context) -> ConsumerHealth:
    """Show when each pool and each Kafka consumer last polled for work."""
    pools, stats = (
        await context.replica.dispatch.pools(context.tenant),
        context.replica.cluster_stats,
    )
    readers = [actor for actor in await stats.actors() or () if actor["kind"] == INGEST]
    return ConsumerHealth.of_actors(pools, readers, context.replica.client.clock.now())


@router.get("/standby-status")
async def show_standby_status(context: Context) -> StandbyStatus:
    """Show the state of failover: there is no second instance, a supervisor restarts actors."""
    actors = await context.replica.cluster_stats.actors()
    # Dispatch pools belong to tenants.
    return StandbyStatus.of_actors(
        None if actors is None else [one for one in actors if one["kind"] != DISPATCH_KIND]
    )


@router.get("/dashboard")
async def show_dashboard(context: Context) -> Dashboard:
    """Show all of monitoring in one document, up to a hundred items of each kind."""
    health, pools, queues, in_flight, breakers, consumers = await asyncio.gather(
        show_dispatch_health(context),
        list_pool_stats(context),
        list_queue_stats(context),
        list_in_flight_messages(context, MAX_DASHBOARD_ITEMS),
        list_circuit_breakers(context),
        show_consumer_health(context),
    )
    warnings = await list_open_warnings(context, MAX_DASHBOARD_ITEMS)
    return Dashboard(
        health=health,
        pools=pools.items,
        queues=queues.items,
        in_flight_messages=in_flight.items,
        circuit_breakers=breakers.items[:MAX_DASHBOARD_ITEMS],
        warnings=warnings.items,
        consumer_health=consumers,
        standby_status=await show_standby_status(context),
    )
