"""Subscriptions and dispatch pools as an application declares them, in one request."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.events.event_type import CODE_LENGTH, SEGMENT
from core.shared.quotas import Quota
from serve_app.dispatch.subscription_models import PoolSyncRequest, SubscriptionSyncRequest
from serve_app.dispatch.subscription_rendering import declaration_error, sync_document
from serve_app.dispatch.subscription_service import SubscriptionService
from serve_app.dispatch.subscription_views import SyncView
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires
from services.dispatch import declarations
from services.dispatch.declarations import DeclarationOptions, SyncRefusal, SyncResult
from storage.dispatch.pools import NewPool

log = structlog.get_logger("declarations")

router = APIRouter(prefix="/api/applications")

Application = Annotated[
    str, Path(pattern=rf"^{SEGMENT}$", max_length=CODE_LENGTH, examples=["shop"])
]


@router.post(
    "/{application}/subscriptions/sync",
    dependencies=[requires(Permission.SUBSCRIPTIONS_WRITE)],
    operation_id="syncSubscriptions",
    tags=["subscriptions"],
    responses=describe_responses({200: SyncView}, 409),
    openapi_extra=json_body(SubscriptionSyncRequest),
)
async def sync_subscriptions(request: Request, application: Application) -> Response:
    """Make an application's subscriptions what it declares: all of it, or nothing changes."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(SubscriptionSyncRequest, raw)
    wanted = await SubscriptionService(replica, tenant).declared(body.subscriptions)
    codes = [one.code for one in wanted]
    await replica.count_quotas.check_declared(tenant, Quota.SUBSCRIPTIONS, codes)
    declaration = DeclarationOptions(
        application=application, remove=body.remove_unlisted, is_dry_run=body.dry_run
    )
    done = await replica.database.query_once(
        declarations.sync_subscriptions, tenant, declaration, wanted
    )
    return _settled(request, "subscriptions.synced", declaration, done)


@router.post(
    "/{application}/dispatch-pools/sync",
    dependencies=[requires(Permission.DISPATCH_WRITE)],
    operation_id="syncDispatchPools",
    tags=["dispatch pools"],
    responses=describe_responses({200: SyncView}, 409),
    openapi_extra=json_body(PoolSyncRequest),
)
async def sync_pools(request: Request, application: Application) -> Response:
    """Make an application's dispatch pools what it declares: all of it, or nothing changes."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(PoolSyncRequest, raw)
    declaration = DeclarationOptions(
        application=application, remove=body.remove_unlisted, is_dry_run=body.dry_run
    )
    wanted = [NewPool(pool_id=f"dpl_{replica.new_id()}", **one.model_dump()) for one in body.pools]
    max_pools = replica.options.pool_limit
    done = await replica.database.query_once(
        declarations.sync_pools, tenant, declaration, wanted, max_pools
    )
    return _settled(request, "dispatch_pools.synced", declaration, done)


def _settled(
    request: Request, what: str, declaration: DeclarationOptions, done: SyncResult | SyncRefusal
) -> Response:
    if isinstance(done, SyncRefusal):
        raise declaration_error(done)
    if not declaration.is_dry_run:
        caller = caller_of(request)
        replica_of(request).subscription_cache.clear()
        log.info(
            what,
            tenant=caller.tenant,
            application=declaration.application,
            created=len(done.created),
            updated=len(done.updated),
            removed=len(done.removed),
            by=caller.prefix,
        )
    return json_response(sync_document(declaration, done))
