"""Subscriptions and pools to the documents callers get, and refusals to problems."""

from collections.abc import Sequence

from core.dispatch.job import ANCHOR
from core.dispatch.signature import format_secret
from core.dispatch.subscription import Subscription
from core.shared.refusal import Refusal
from core.shared.timestamps import to_iso
from core.waits.config import MASK
from serve_app.http.models import Document
from serve_app.http.problems import ProblemError, problem_of_refusal
from services.dispatch.declarations import DeclarationOptions, SyncRefusal, SyncResult
from storage.dispatch.webhook_secrets import WebhookSecret


def refusal_error(refusal: Refusal) -> ProblemError:
    """Return the answer to a request that is refused."""
    return ProblemError(problem_of_refusal(refusal))


def declaration_error(found: SyncRefusal) -> ProblemError:
    """The answer to a declaration that cannot be met."""
    detail = f"{found.code}: {found.refusal.sentence}; nothing was changed"
    return ProblemError(problem_of_refusal(found.refusal, detail))


def subscription_document(one: Subscription) -> Document:
    """A subscription without its secrets."""
    return {
        "id": one.subscription_id,
        "code": one.code,
        "name": one.name,
        "description": one.description,
        "anchorLevel": one.tenant == ANCHOR,
        "eventTypes": [
            {
                "eventTypeCode": binding.pattern,
                "eventTypeId": binding.event_type_id,
                "specVersion": binding.spec_version,
            }
            for binding in one.bindings
        ],
        "target": one.target,
        "queue": one.queue,
        "dispatchPoolId": one.pool_id,
        "dispatchPoolCode": one.pool_code,
        "mode": one.mode,
        "timeoutSeconds": one.timeout_seconds,
        "maxAgeSeconds": one.max_age_seconds,
        "delaySeconds": one.delay_seconds,
        "maxRetries": one.max_retries,
        "sequence": one.sequence,
        "dataOnly": one.data_only,
        "filter": one.filter,
        "headers": dict.fromkeys(one.headers, MASK),
        "auth": None if one.auth is None else {"type": one.auth["type"], "secret": MASK},
        "signature": one.signature,
        "customConfig": [{"key": each.key, "value": each.value} for each in one.custom_config],
        "source": one.source,
        "application": one.application,
        "status": one.status,
        "statusReason": one.status_reason,
        "failingSince": None if one.failing_since is None else to_iso(one.failing_since),
        "version": one.version,
        "createdAt": to_iso(one.created_at),
        "updatedAt": to_iso(one.updated_at),
    }


def secret_document(live: Sequence[WebhookSecret]) -> Document:
    """What signs. Nowhere else is it shown."""
    return {
        "secret": format_secret(live[0].secret),
        "secrets": [
            {
                "secret": format_secret(one.secret),
                "createdAt": to_iso(one.created_at),
                "expiresAt": None if one.expires_at is None else to_iso(one.expires_at),
            }
            for one in live
        ],
    }


def sync_document(declaration: DeclarationOptions, done: SyncResult) -> Document:
    """What became of each code."""
    return {
        "application": declaration.application,
        "dryRun": declaration.is_dry_run,
        "created": done.created,
        "updated": done.updated,
        "unchanged": done.unchanged,
        "removed": done.removed,
        "kept": [
            {"code": one.code, "reason": one.refusal.code, "detail": one.refusal.sentence}
            for one in done.kept
        ],
    }
