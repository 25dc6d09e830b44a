"""Webhook secrets over HTTP: what deliveries are signed with."""

from core.access.permissions import Permission
from core.dispatch.subscription import SubscriptionRefusal
from serve_app.dispatch.secret_models import RotateRequest, SecretView
from serve_app.dispatch.subscription_service import secret_or_new
from serve_app.dispatch.subscriptions import PREFIX, NamedSubscription
from serve_app.http.router import Context, HttpRouter, refuse
from storage.dispatch import subscriptions, webhook_secrets
from storage.dispatch.webhook_secrets import OWN, WebhookSecret

_NOT_FOUND = SubscriptionRefusal.SUBSCRIPTION_NOT_FOUND
# Whoever may change a secret may see it.
_SUBSCRIPTIONS, _JOBS = Permission.SUBSCRIPTIONS_WRITE, Permission.DISPATCH_WRITE
_NO_STORE = {"Cache-Control": "no-store"}

router = HttpRouter(
    PREFIX, tag="subscriptions", reads=_SUBSCRIPTIONS, writes=_SUBSCRIPTIONS, refuses=(404,)
)
own_router = HttpRouter("/api/webhook-secret", tag="dispatch jobs", reads=_JOBS, writes=_JOBS)


@router.get("/{id}/secret", headers=_NO_STORE)
async def show_subscription_secret(name: NamedSubscription, context: Context) -> SecretView:
    """Show the secrets that sign a subscription's deliveries."""
    subscription_id = await _id_of(name, context)
    return _view(await context.read(webhook_secrets.live, subscription_id))


@router.post("/{id}/secret/rotate", headers=_NO_STORE)
async def rotate_subscription_secret(
    name: NamedSubscription, body: RotateRequest, context: Context
) -> SecretView:
    """Sign with a new secret; for a while deliveries carry the signature of the old one too."""
    return await _rotate(context, body, await _id_of(name, context))


@own_router.get(headers=_NO_STORE)
async def show_webhook_secret(context: Context) -> SecretView:
    """Show the secrets that sign jobs that were posted directly."""
    return _view(await context.read(webhook_secrets.own))


@own_router.post("/rotate", headers=_NO_STORE)
async def rotate_webhook_secret(body: RotateRequest, context: Context) -> SecretView:
    """Sign such jobs with a new secret; for a while they carry the signature of the old one too."""
    return await _rotate(context, body, OWN)


async def _id_of(name: str, context: Context) -> str:
    row = await context.read(subscriptions.read, name) or refuse(_NOT_FOUND)
    return row.subscription_id


async def _rotate(context: Context, body: RotateRequest, subscription_id: str) -> SecretView:
    secret, overlap = secret_or_new(body.secret), body.overlap_seconds
    by = context.caller.prefix
    return _view(await context.write(webhook_secrets.rotate, subscription_id, secret, overlap, by))


def _view(live: list[WebhookSecret] | None) -> SecretView:
    # None: the subscription was deleted at the same time.
    secrets = live or refuse(_NOT_FOUND)
    return SecretView.of({"secret": secrets[0].secret, "secrets": secrets})
