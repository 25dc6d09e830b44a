"""What deliveries are signed with: shown to whoever may change it, and replaced."""

import structlog
from fastapi import APIRouter, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.dispatch.subscription import SubscriptionRefusal
from serve_app.dispatch.secret_models import RotateRequest, SecretView
from serve_app.dispatch.subscription_rendering import refusal_error, secret_document
from serve_app.dispatch.subscription_service import secret_or_new
from serve_app.dispatch.subscriptions import PREFIX, SubscriptionName
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires
from storage.dispatch import subscriptions, webhook_secrets
from storage.dispatch.webhook_secrets import OWN, WebhookSecret

log = structlog.get_logger("webhook_secrets")

# Of subscriptions; under their address.
router = APIRouter(prefix=PREFIX, tags=["subscriptions"])
own_router = APIRouter(prefix="/api/webhook-secret", tags=["dispatch jobs"])


@router.get(
    "/{id}/secret",
    dependencies=[requires(Permission.SUBSCRIPTIONS_WRITE)],
    operation_id="showSubscriptionSecret",
    responses=describe_responses({200: SecretView}, 404),
)
async def show_secret(request: Request, name: SubscriptionName) -> Response:
    """Show what a subscription's deliveries are signed with."""
    subscription_id = await _id_of(request, name)
    tenant = caller_of(request).tenant
    live = await replica_of(request).database.query(webhook_secrets.live, tenant, subscription_id)
    return _shown(live)


@router.post(
    "/{id}/secret/rotate",
    dependencies=[requires(Permission.SUBSCRIPTIONS_WRITE)],
    operation_id="rotateSubscriptionSecret",
    responses=describe_responses({200: SecretView}, 404),
    openapi_extra=json_body(RotateRequest),
)
async def rotate_secret(request: Request, name: SubscriptionName) -> Response:
    """Sign with a new secret; for a while deliveries carry the signature of the old one too."""
    return await _rotated(request, await _rotation_in(request), await _id_of(request, name))


@own_router.get(
    "",
    dependencies=[requires(Permission.DISPATCH_WRITE)],
    operation_id="showWebhookSecret",
    responses=describe_responses({200: SecretView}),
)
async def show_own_secret(request: Request) -> Response:
    """Show what jobs that were posted directly are signed with."""
    tenant = caller_of(request).tenant
    return _shown(await replica_of(request).database.query(webhook_secrets.own, tenant))


@own_router.post(
    "/rotate",
    dependencies=[requires(Permission.DISPATCH_WRITE)],
    operation_id="rotateWebhookSecret",
    responses=describe_responses({200: SecretView}),
    openapi_extra=json_body(RotateRequest),
)
async def rotate_own_secret(request: Request) -> Response:
    """Sign such jobs with a new secret; for a while they carry the signature of the old one too."""
    return await _rotated(request, await _rotation_in(request), OWN)


async def _rotation_in(request: Request) -> RotateRequest:
    raw = await read_body(request, replica_of(request).config.request_timeout)
    return parse_as(RotateRequest, raw)


async def _id_of(request: Request, name: str) -> str:
    tenant = caller_of(request).tenant
    found = await replica_of(request).database.query(subscriptions.read, tenant, name)
    if found is None:
        raise refusal_error(SubscriptionRefusal.SUBSCRIPTION_NOT_FOUND)
    return found.subscription_id


async def _rotated(request: Request, body: RotateRequest, subscription_id: str) -> Response:
    replica, caller = replica_of(request), caller_of(request)
    live = await replica.database.query_once(
        webhook_secrets.rotate,
        caller.tenant,
        subscription_id,
        secret_or_new(body.secret),
        body.overlap_seconds,
        caller.prefix,
    )
    if live is None:  # somebody was quick to remove it
        raise refusal_error(SubscriptionRefusal.SUBSCRIPTION_NOT_FOUND)
    log.info(
        "webhook_secret.rotated",
        tenant=caller.tenant,
        subscription=subscription_id or None,
        overlap=body.overlap_seconds,
        by=caller.prefix,
    )
    return _shown(live)


def _shown(live: list[WebhookSecret]) -> Response:
    if not live:
        raise refusal_error(SubscriptionRefusal.SUBSCRIPTION_NOT_FOUND)
    return json_response(secret_document(live), headers={"Cache-Control": "no-store"})
