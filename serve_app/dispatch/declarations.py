"""Subscriptions and dispatch pools as an application declares them, in one request."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.events.event_type import CODE_LENGTH, SEGMENT
from core.shared.quotas import Quota
from serve_app.dispatch.pool_models import PoolSyncRequest
from serve_app.dispatch.subscription_models import SubscriptionSyncRequest
from serve_app.dispatch.subscription_rendering import not_synced, sync_document
from serve_app.dispatch.subscription_service import SubscriptionDesk
from serve_app.dispatch.subscription_views import SyncView
from serve_app.http.json_io import answer, parse_as, read_body
from serve_app.http.openapi import body, described
from serve_app.http.permissions import caller_of, replica_of, requires
from services.dispatch import declarations
from services.dispatch.declarations import Declaration, NotSynced, Synced

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
    responses=described({200: SyncView}, 409),
    openapi_extra=body(SubscriptionSyncRequest),
)
async def sync_subscriptions(request: Request, application: Application) -> Response:
    """Make an application's subscriptions what it declares: all of it, or nothing changes."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    raw = await read_body(request, replica.config.request_timeout)
    wish = parse_as(SubscriptionSyncRequest, raw)
    wanted = await SubscriptionDesk(replica, tenant).declared(wish.subscriptions)
    codes = [one.code for one in wanted]
    await replica.count_quotas.check_declared(tenant, Quota.SUBSCRIPTIONS, codes)
    declaration = Declaration(
        application=application, remove=wish.remove_unlisted, is_rehearsal=wish.dry_run
    )
    done = await replica.database.ask_once(
        declarations.sync_subscriptions, tenant, declaration, wanted
    )
    return _settled(request, "subscriptions.synced", declaration, done)


@router.post(
    "/{application}/dispatch-pools/sync",
    dependencies=[requires(Permission.DISPATCH_WRITE)],
    operation_id="syncDispatchPools",
    tags=["dispatch pools"],
    responses=described({200: SyncView}, 409),
    openapi_extra=body(PoolSyncRequest),
)
async def sync_pools(request: Request, application: Application) -> Response:
    """Make an application's dispatch pools what it declares: all of it, or nothing changes."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    raw = await read_body(request, replica.config.request_timeout)
    wish = parse_as(PoolSyncRequest, raw)
    declaration = Declaration(
        application=application, remove=wish.remove_unlisted, is_rehearsal=wish.dry_run
    )
    wanted = [one.to_new(f"dpl_{replica.new_id()}") for one in wish.pools]
    most = replica.options.pool_limit
    done = await replica.database.ask_once(
        declarations.sync_pools, tenant, declaration, wanted, most
    )
    return _settled(request, "dispatch_pools.synced", declaration, done)


def _settled(
    request: Request, what: str, declaration: Declaration, done: Synced | NotSynced
) -> Response:
    if isinstance(done, NotSynced):
        raise not_synced(done)
    if not declaration.is_rehearsal:
        caller = caller_of(request)
        replica_of(request).wishes.clear()
        log.info(
            what,
            tenant=caller.tenant,
            application=declaration.application,
            created=len(done.created),
            updated=len(done.updated),
            removed=len(done.removed),
            by=caller.prefix,
        )
    return answer(sync_document(declaration, done))
