"""Monitoring of dispatch: pools, queues, jobs in flight, targets and warnings."""

from dataclasses import replace
from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.dispatch.pool import PoolRefusal
from core.shared.errors import NotFoundError
from core.shared.tsid import PATTERN
from serve_app.dispatch.status import PoolSnapshot
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires
from serve_app.http.router import refuse
from serve_app.limits.middleware import SLASH
from serve_app.operations import monitoring_service
from serve_app.operations.monitoring_models import (
    BreakerList,
    BreakersReset,
    DispatchHealth,
    InFlightList,
    PoolLimitsPatch,
    PoolStats,
    PoolStatsList,
    QueueStatsList,
)
from serve_app.operations.monitoring_rendering import pool_stats_document
from storage.dispatch import pools
from storage.dispatch.pools import PoolRow

log = structlog.get_logger("monitoring")

router = APIRouter(prefix="/monitoring", tags=["monitoring"])

Reads = requires(Permission.DISPATCH_READ)
Writes = requires(Permission.DISPATCH_WRITE)

PoolCode = Annotated[str, Path(alias="code", max_length=200, description="The code or the id.")]


@router.get(
    "/health",
    dependencies=[Reads],
    operation_id="showDispatchHealth",
    responses=describe_responses({200: DispatchHealth}),
)
async def show_health(request: Request) -> Response:
    """Show the condition of dispatch: recent deliveries, warnings and open circuit breakers."""
    return json_response(
        await monitoring_service.health(replica_of(request), caller_of(request).tenant)
    )


@router.get(
    "/pool-stats",
    dependencies=[Reads],
    operation_id="listPoolStats",
    responses=describe_responses({200: PoolStatsList}),
)
async def list_pool_stats(request: Request) -> Response:
    """List the counters of the tenant's pools, and the tenant's part of shared pools."""
    items = await monitoring_service.pool_stats(replica_of(request), caller_of(request).tenant)
    return json_response({"items": items})


@router.get(
    "/queue-stats",
    dependencies=[Reads],
    operation_id="listQueueStats",
    responses=describe_responses({200: QueueStatsList}),
)
async def list_queue_stats(request: Request) -> Response:
    """List the queues of the tenant's pools and of the shared pools."""
    items = await monitoring_service.queue_stats(replica_of(request), caller_of(request).tenant)
    return json_response({"items": items})


@router.get(
    "/in-flight-messages",
    dependencies=[Reads],
    operation_id="listInFlightMessages",
    responses=describe_responses({200: InFlightList}),
)
async def list_in_flight(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    message_id: Annotated[str | None, Query(alias="messageId", pattern=PATTERN)] = None,
    pool_code: Annotated[str | None, Query(alias="poolCode", max_length=200)] = None,
) -> Response:
    """List the tenant's jobs that are being delivered, longest first."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    return json_response(
        {"items": await monitoring_service.in_flight(replica, tenant, limit, message_id, pool_code)}
    )


@router.get(
    "/circuit-breakers",
    dependencies=[Reads],
    operation_id="listCircuitBreakers",
    responses=describe_responses({200: BreakerList}),
)
async def list_breakers(request: Request) -> Response:
    """List the tenant's targets and the state of their circuit breakers."""
    items = await monitoring_service.breakers(replica_of(request), caller_of(request).tenant)
    return json_response({"items": items})


@router.post(
    "/circuit-breakers/reset-all",
    dependencies=[Writes],
    operation_id="resetCircuitBreakers",
    responses=describe_responses({200: BreakersReset}),
)
async def reset_breakers(request: Request) -> Response:
    """Close the circuit breakers of all the tenant's targets."""
    return json_response({"reset": await _reset(request, None)})


@router.post(
    "/circuit-breakers/{name}/reset",
    dependencies=[Writes],
    operation_id="resetCircuitBreaker",
    responses=describe_responses({200: BreakersReset}, 404),
)
async def reset_breaker(
    request: Request,
    name: Annotated[
        str, Path(max_length=300, description="The server's address; a slash is written %2F.")
    ],
) -> Response:
    """Close the circuit breaker of one target in all pools."""
    reset = await _reset(request, name.replace(SLASH, "/"))
    if not reset:
        raise NotFoundError("a target of this address")
    return json_response({"reset": reset})


@router.put(
    "/pools/{code}",
    dependencies=[Writes],
    operation_id="changePoolTerms",
    responses=describe_responses({200: PoolStats}, 403, 404, 409),
    openapi_extra=json_body(PoolLimitsPatch),
)
async def change_pool(request: Request, code: PoolCode) -> Response:
    """Change the concurrency and the rate limit of one of the tenant's pools, from now on."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(PoolLimitsPatch, raw)

    def edit(row: PoolRow) -> PoolRow:
        if body.concurrency is not None:
            row = replace(row, concurrency=body.concurrency)
        if "rate_limit_per_minute" in body.model_fields_set:
            row = replace(row, rate_limit=body.rate_limit_per_minute)
        return row

    done = await replica.database.query(pools.change, caller.tenant, code, edit)
    if isinstance(done, PoolRefusal):
        refuse(done)
    replica.pool_notifier.notify([done.pool_no])
    log.info("pool.terms", tenant=caller.tenant, pool=done.pool_no, by=caller.prefix)
    snapshots = await replica.dispatch.pools(caller.tenant, done.pool_id)
    pool = snapshots[0] if snapshots else PoolSnapshot(done, {}, is_up=False)
    return json_response(pool_stats_document(replace(pool, row=done)))


async def _reset(request: Request, target: str | None) -> int:
    replica, caller = replica_of(request), caller_of(request)
    pools = await replica.dispatch.pools(caller.tenant)
    answers = await replica.dispatch.query(pools, "reset_breaker", caller.tenant, target)
    reset = sum(int(number) for _, number in answers)
    log.info("breakers.reset", tenant=caller.tenant, targets=reset, by=caller.prefix)
    return reset
