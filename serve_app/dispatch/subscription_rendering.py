"""Subscriptions and pools to the documents callers get, and refusals to problems."""

from collections.abc import Mapping, Sequence

from core.dispatch.job import ANCHOR
from core.dispatch.pool import PoolRefusal
from core.dispatch.signature import format_secret
from core.dispatch.subscription import Subscription, SubscriptionRefusal
from core.shared.timestamps import to_iso
from core.waits.config import MASK
from serve_app.http.problems import Problem, ProblemError
from serve_app.waits.rendering import Document
from services.dispatch.declarations import DeclarationOptions, SyncRefusal, SyncResult
from storage.dispatch.pools import PoolRow
from storage.dispatch.webhook_secrets import WebhookSecret

_SENTENCES: Mapping[SubscriptionRefusal | PoolRefusal, str] = {
    SubscriptionRefusal.CODE_EXISTS: "a subscription has this code already",
    SubscriptionRefusal.SUBSCRIPTION_NOT_FOUND: "there is no such subscription",
    SubscriptionRefusal.POOL_ARCHIVED: "its dispatch pool is archived: it needs another one",
    SubscriptionRefusal.TOO_MANY_SUBSCRIPTIONS: "there are as many subscriptions as there may be",
    SubscriptionRefusal.TOO_MANY_JOBS: "more deliveries wait in order in its old pool than can "
    "move with it: pause it until there are fewer",
}
_POOL_SENTENCES: Mapping[PoolRefusal, str] = {
    PoolRefusal.CODE_EXISTS: "a dispatch pool has this code already; an archived one keeps it, and "
    "can be activated",
    PoolRefusal.POOL_NOT_FOUND: "there is no such dispatch pool",
    PoolRefusal.POOL_ALREADY_ARCHIVED: "the dispatch pool is archived already",
    PoolRefusal.POOL_ARCHIVED: "the dispatch pool is archived: it can be activated",
    PoolRefusal.POOL_IN_USE: "active subscriptions or waiting deliveries need the dispatch pool",
    PoolRefusal.POOL_IS_DEFAULT: "the dispatch pool takes what names none, and stays",
    PoolRefusal.POOL_LIMIT: "there are as many dispatch pools as there may be, of all tenants: "
    "archive one, or raise MUSTER_POOL_LIMIT",
    PoolRefusal.ANCHORS_POOL: "the dispatch pool is the anchor's: it can be used, not changed",
    PoolRefusal.CODE_IS_RESERVED: "the code is that of the anchor's pool for what names none: a "
    "dispatch pool of one's own needs another",
}
_STATUSES: Mapping[SubscriptionRefusal | PoolRefusal, int] = {
    SubscriptionRefusal.SUBSCRIPTION_NOT_FOUND: 404,
    PoolRefusal.POOL_NOT_FOUND: 404,
    PoolRefusal.ANCHORS_POOL: 403,
}


def refusal_error(refusal: SubscriptionRefusal | PoolRefusal) -> ProblemError:
    """The answer to a step that is not allowed."""
    return ProblemError(_problem(refusal, _sentence(refusal)))


def declaration_error(found: SyncRefusal) -> ProblemError:
    """The answer to a declaration that cannot be met."""
    sentence = f"{found.code}: {_sentence(found.refusal)}; nothing was changed"
    return ProblemError(_problem(found.refusal, sentence))


def _problem(refusal: SubscriptionRefusal | PoolRefusal, detail: str) -> Problem:
    return Problem(status=_STATUSES.get(refusal, 409), code=refusal.value, detail=detail)


def _sentence(refusal: SubscriptionRefusal | PoolRefusal) -> str:
    # The kinds share values, and values are what they are compared by.
    return _POOL_SENTENCES[refusal] if isinstance(refusal, PoolRefusal) else _SENTENCES[refusal]


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


def pool_document(row: PoolRow) -> Document:
    """A pool."""
    return {
        "id": row.pool_id,
        "code": row.code,
        "name": row.name,
        "description": row.description,
        "rateLimit": row.rate_limit,
        "concurrency": row.concurrency,
        "status": row.status,
        "anchorLevel": row.tenant == ANCHOR,
        "application": row.application,
        "createdAt": to_iso(row.created_at),
        "updatedAt": to_iso(row.updated_at),
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
            {"code": one.code, "reason": one.refusal.value, "detail": _sentence(one.refusal)}
            for one in done.kept
        ],
    }
