"""Subscriptions and dispatch pools as an application declares them, in one request."""

from typing import Annotated

from pydantic import AfterValidator, Field

from core.access.permissions import Permission
from core.shared.quotas import Quota
from serve_app.dispatch.pool_models import PoolRequest
from serve_app.dispatch.subscription_models import DeclaredSubscription
from serve_app.dispatch.subscription_service import SubscriptionService
from serve_app.http.declarations import Application, SyncRequest, SyncView, each_code_once
from serve_app.http.router import Context, HttpRouter
from services.dispatch import declarations
from storage.dispatch.pools import NewPool
from storage.postgres.reconciler import Synced

MAX_DECLARED_SUBSCRIPTIONS = 200
MAX_DECLARED_POOLS = 100

router = HttpRouter("/api/applications", refuses=(409,))


class SubscriptionSyncRequest(SyncRequest):
    """All subscriptions of an application."""

    subscriptions: Annotated[
        list[DeclaredSubscription],
        Field(max_length=MAX_DECLARED_SUBSCRIPTIONS),
        AfterValidator(each_code_once),
    ]


class PoolSyncRequest(SyncRequest):
    """All dispatch pools of an application."""

    pools: Annotated[
        list[PoolRequest], Field(max_length=MAX_DECLARED_POOLS), AfterValidator(each_code_once)
    ]


@router.post(
    "/{application}/subscriptions/sync",
    needs=Permission.SUBSCRIPTIONS_WRITE,
    tags=["subscriptions"],
)
async def sync_subscriptions(
    application: Application, body: SubscriptionSyncRequest, context: Context
) -> SyncView:
    """Make an application's subscriptions what it declares: all of it, or nothing changes."""
    wanted = await SubscriptionService(context).declared(body.subscriptions)
    codes = [one.code for one in wanted]
    await context.replica.count_quotas.check_declared(context.tenant, Quota.SUBSCRIPTIONS, codes)
    options = body.to_options(application)
    done: Synced = await context.write(declarations.sync_subscriptions, options, wanted)
    context.replica.subscription_cache.clear()
    return SyncView.of_result(options, done)


@router.post(
    "/{application}/dispatch-pools/sync", needs=Permission.DISPATCH_WRITE, tags=["dispatch pools"]
)
async def sync_dispatch_pools(
    application: Application, body: PoolSyncRequest, context: Context
) -> SyncView:
    """Make an application's dispatch pools what it declares: all of it, or nothing changes."""
    options = body.to_options(application)
    wanted = [NewPool(pool_id=context.new_id("dpl"), **one.model_dump()) for one in body.pools]
    limit = context.replica.options.pool_limit
    done: Synced = await context.write(declarations.sync_pools, options, wanted, limit)
    context.replica.subscription_cache.clear()
    return SyncView.of_result(options, done)
