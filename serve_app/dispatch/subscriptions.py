"""Subscriptions over HTTP."""

from typing import Annotated

from fastapi import Query

from core.dispatch.job import ANCHOR
from core.dispatch.subscription import Subscription, SubscriptionRefusal, candidate_patterns
from core.shared.quotas import Quota
from serve_app.dispatch import job_service
from serve_app.dispatch.subscription_models import (
    SUBSCRIPTION_NAME,
    SubscriptionPatch,
    SubscriptionQuery,
    SubscriptionReplacement,
    SubscriptionRequest,
    SubscriptionView,
)
from serve_app.dispatch.subscription_service import SubscriptionService, secret_or_new
from serve_app.http.page import CountedPage
from serve_app.http.path_types import id_or_code
from serve_app.http.router import Context, HttpRouter, refuse, unless_refused
from storage.dispatch import subscriptions
from storage.dispatch.subscriptions import SubscriptionFilter

PREFIX = "/api/subscriptions"
NamedSubscription = Annotated[str, id_or_code(SUBSCRIPTION_NAME, "order-processor")]

router = HttpRouter(
    PREFIX, tag="subscriptions", access="subscriptions", refuses=SubscriptionRefusal
)


@router.post(status=201)
async def create_subscription(body: SubscriptionRequest, context: Context) -> SubscriptionView:
    """Create a subscription: from now on, events of these types are delivered to its target."""
    await context.replica.count_quotas.check(context.tenant, Quota.SUBSCRIPTIONS)
    new = await SubscriptionService(context).new(body)
    secret = secret_or_new(body.secret)
    made = await context.replica.database.query_once(subscriptions.create, new, secret)
    return _view(context, unless_refused(made))


@router.get()
async def list_subscriptions(
    query: Annotated[SubscriptionQuery, Query()], context: Context
) -> CountedPage[SubscriptionView]:
    """List the tenant's subscriptions by code, without their secrets."""
    page = CountedPage[SubscriptionView]
    if query.anchor_level not in (None, context.tenant == ANCHOR):
        return page.of({"items": [], "next_cursor": None, "total": 0})
    wanted = await _filter_of(query, context)
    rows = await context.list(subscriptions.page, wanted, query.cursor or "", query.limit)
    total = await context.list(subscriptions.count, wanted)
    return page.of_rows(rows, query.limit, lambda row: row.code, total=total)


async def _filter_of(query: SubscriptionQuery, context: Context) -> SubscriptionFilter:
    named = [name for name in (query.dispatch_pool_id, query.pool) if name is not None]
    return SubscriptionFilter(
        status=query.status,
        source=query.source,
        pool_nos=await job_service.find_pool_numbers(context, named),
        patterns=None if query.event_type is None else candidate_patterns(query.event_type),
    )


@router.get("/{id}")
async def show_subscription(name: NamedSubscription, context: Context) -> SubscriptionView:
    """Show one subscription, without its secrets."""
    row = await context.read(subscriptions.read, name)
    return SubscriptionView.of(row or refuse(SubscriptionRefusal.SUBSCRIPTION_NOT_FOUND))


@router.put("/{id}")
async def replace_subscription(
    name: NamedSubscription, body: SubscriptionReplacement, context: Context
) -> SubscriptionView:
    """Replace all of a subscription; headers and auth that are left out stay."""
    edit = await SubscriptionService(context).replacement(body)
    return _view(context, await context.write(subscriptions.change, name, edit))


@router.patch("/{id}")
async def change_subscription(
    name: NamedSubscription, body: SubscriptionPatch, context: Context
) -> SubscriptionView:
    """Change some fields of a subscription; the others stay as they are."""
    edit = await SubscriptionService(context).change(body)
    return _view(context, await context.write(subscriptions.change, name, edit))


@router.delete("/{id}", refuses=(404,))
async def drop_subscription(name: NamedSubscription, context: Context) -> None:
    """Delete a subscription with its secrets; deliveries under way fail."""
    code = await context.write(subscriptions.drop, name)
    context.replica.subscription_cache.clear()
    if code is None:
        refuse(SubscriptionRefusal.SUBSCRIPTION_NOT_FOUND)


@router.post("/{id}/pause", refuses=(404,))
async def pause_subscription(name: NamedSubscription, context: Context) -> SubscriptionView:
    """Take no more events; deliveries under way go on."""
    return _view(context, await context.write(subscriptions.pause, name))


@router.post("/{id}/resume")
async def resume_subscription(name: NamedSubscription, context: Context) -> SubscriptionView:
    """Take events again, from now on; earlier failures are forgotten."""
    return _view(context, await context.write(subscriptions.resume, name))


def _view(context: Context, row: Subscription) -> SubscriptionView:
    # Other replicas are notified in a moment; the caller may send an event before that.
    context.replica.subscription_cache.clear()
    return SubscriptionView.of(row)
