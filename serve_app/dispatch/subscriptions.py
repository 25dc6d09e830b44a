"""Subscriptions: who wants which events, and where they are brought."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.dispatch.job import ANCHOR
from core.dispatch.subscription import Subscription, SubscriptionRefusal, candidate_patterns
from core.shared.quotas import Quota
from serve_app.container import Replica
from serve_app.dispatch import job_service
from serve_app.dispatch.subscription_models import (
    SUBSCRIPTION_NAME,
    SubscriptionPatch,
    SubscriptionQuery,
    SubscriptionReplacement,
    SubscriptionRequest,
)
from serve_app.dispatch.subscription_rendering import refusal_error, subscription_document
from serve_app.dispatch.subscription_service import SubscriptionService, secret_or_new
from serve_app.dispatch.subscription_views import SubscriptionPage, SubscriptionView
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires
from storage.dispatch import subscriptions
from storage.dispatch.subscriptions import SubscriptionFilter

log = structlog.get_logger("subscriptions")

PREFIX = "/api/subscriptions"
router = APIRouter(prefix=PREFIX, tags=["subscriptions"])

Reads = requires(Permission.SUBSCRIPTIONS_READ)
Writes = requires(Permission.SUBSCRIPTIONS_WRITE)

SubscriptionName = Annotated[
    str,
    Path(
        alias="id",
        pattern=SUBSCRIPTION_NAME,
        description="The id or the code.",
        examples=["order-processor"],
    ),
]


@router.post(
    "",
    dependencies=[Writes],
    operation_id="createSubscription",
    status_code=201,
    responses=describe_responses({201: SubscriptionView}, 409),
    openapi_extra=json_body(SubscriptionRequest),
)
async def create_subscription(request: Request) -> Response:
    """Subscribe: from now on, events of these types are brought to this address."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(SubscriptionRequest, raw)
    await replica.count_quotas.check(caller.tenant, Quota.SUBSCRIPTIONS)
    new = await SubscriptionService(replica, caller.tenant).new(body)
    done = await replica.database.query_once(subscriptions.create, new, secret_or_new(body.secret))
    return _settled(request, "subscription.created", done, 201)


@router.get(
    "",
    dependencies=[Reads],
    operation_id="listSubscriptions",
    responses=describe_responses({200: SubscriptionPage}),
)
async def list_subscriptions(
    request: Request, query: Annotated[SubscriptionQuery, Query()]
) -> Response:
    """List the tenant's subscriptions by code, without their secrets."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    if query.anchor_level not in (None, tenant == ANCHOR):
        return json_response({"subscriptions": [], "total": 0, "nextCursor": None})
    chosen = await _filter_of(replica, tenant, query)
    found = await replica.listings.query(
        subscriptions.page, tenant, chosen, query.cursor or "", query.limit
    )
    document = {
        "subscriptions": [subscription_document(one) for one in found],
        "total": await replica.listings.query(subscriptions.count, tenant, chosen),
        "nextCursor": found[-1].code if len(found) == query.limit else None,
    }
    return json_response(document)


async def _filter_of(replica: Replica, tenant: int, query: SubscriptionQuery) -> SubscriptionFilter:
    named = [name for name in (query.dispatch_pool_id, query.pool) if name is not None]
    pools = await job_service.find_pool_numbers(replica, tenant, named)
    return SubscriptionFilter(
        status=query.status,
        source=query.source,
        pool_nos=pools,
        patterns=None if query.event_type is None else candidate_patterns(query.event_type),
    )


@router.get(
    "/{id}",
    dependencies=[Reads],
    operation_id="showSubscription",
    responses=describe_responses({200: SubscriptionView}, 404),
)
async def show_subscription(request: Request, name: SubscriptionName) -> Response:
    """Show one subscription, without its secrets."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    found = await replica.database.query(subscriptions.read, tenant, name)
    if found is None:
        raise refusal_error(SubscriptionRefusal.SUBSCRIPTION_NOT_FOUND)
    return json_response(subscription_document(found))


@router.put(
    "/{id}",
    dependencies=[Writes],
    operation_id="replaceSubscription",
    responses=describe_responses({200: SubscriptionView}, 404, 409),
    openapi_extra=json_body(SubscriptionReplacement),
)
async def replace_subscription(request: Request, name: SubscriptionName) -> Response:
    """Make a subscription anew; headers and auth stay if they are left out."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(SubscriptionReplacement, raw)
    edit = await SubscriptionService(replica, caller.tenant).replacement(body)
    done = await replica.database.query_once(subscriptions.change, caller.tenant, name, edit)
    return _settled(request, "subscription.replaced", done)


@router.patch(
    "/{id}",
    dependencies=[Writes],
    operation_id="changeSubscription",
    responses=describe_responses({200: SubscriptionView}, 404, 409),
    openapi_extra=json_body(SubscriptionPatch),
)
async def change_subscription(request: Request, name: SubscriptionName) -> Response:
    """Change some of a subscription; the rest stays."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(SubscriptionPatch, raw)
    edit = await SubscriptionService(replica, caller.tenant).change(body)
    done = await replica.database.query_once(subscriptions.change, caller.tenant, name, edit)
    return _settled(request, "subscription.changed", done)


@router.delete(
    "/{id}",
    dependencies=[Writes],
    operation_id="dropSubscription",
    status_code=204,
    responses=describe_responses({}, 404),
)
async def drop_subscription(request: Request, name: SubscriptionName) -> Response:
    """Remove a subscription with its secrets; what is on its way to it fails."""
    replica, caller = replica_of(request), caller_of(request)
    code = await replica.database.query_once(subscriptions.drop, caller.tenant, name)
    if code is None:
        raise refusal_error(SubscriptionRefusal.SUBSCRIPTION_NOT_FOUND)
    replica.subscription_cache.clear()
    log.info("subscription.dropped", tenant=caller.tenant, code=code, by=caller.prefix)
    return Response(status_code=204)


@router.post(
    "/{id}/pause",
    dependencies=[Writes],
    operation_id="pauseSubscription",
    responses=describe_responses({200: SubscriptionView}, 404),
)
async def pause_subscription(request: Request, name: SubscriptionName) -> Response:
    """Take no more events; what is on its way goes on."""
    replica, caller = replica_of(request), caller_of(request)
    done = await replica.database.query_once(subscriptions.pause, caller.tenant, name)
    return _settled(request, "subscription.paused", done)


@router.post(
    "/{id}/resume",
    dependencies=[Writes],
    operation_id="resumeSubscription",
    responses=describe_responses({200: SubscriptionView}, 404, 409),
)
async def resume_subscription(request: Request, name: SubscriptionName) -> Response:
    """Take events again, from now on; failures of before are forgotten."""
    replica, caller = replica_of(request), caller_of(request)
    done = await replica.database.query_once(subscriptions.resume, caller.tenant, name)
    return _settled(request, "subscription.resumed", done)


def _settled(
    request: Request, what: str, done: SubscriptionRefusal | Subscription, status: int = 200
) -> Response:
    """The subscription after a step, or why there was none."""
    if isinstance(done, SubscriptionRefusal):
        raise refusal_error(done)
    caller = caller_of(request)
    # Others hear of it in a moment; whoever asked for it may send an event before that.
    replica_of(request).subscription_cache.clear()
    log.info(what, tenant=caller.tenant, code=done.code, by=caller.prefix)
    return json_response(subscription_document(done), status)
