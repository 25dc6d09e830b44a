"""Converts subscriptions to and from rows."""

from typing import Any

import asyncpg
import msgspec

from core.dispatch.claim import DeliveryProfile
from core.dispatch.job import Mode
from core.dispatch.subscription import (
    Binding,
    ConfigEntry,
    Signature,
    Subscription,
    SubscriptionSource,
    SubscriptionStatus,
)
from storage.encryption.cipher import ENCRYPTION_ERRORS, Location
from storage.encryption.secret_values import (
    decrypt_bytes,
    decrypt_map,
    encrypt_map,
    subscription_at,
    webhook_secret_at,
)

_config = msgspec.json.Decoder(tuple[ConfigEntry, ...])


def values_of(one: Subscription) -> tuple[Any, ...]:
    """Return the parameters of create_subscription and save_subscription in their order."""
    return (
        one.tenant,
        one.subscription_id,
        one.code,
        one.name,
        one.description,
        one.version,
        one.target,
        one.queue,
        one.pool_no,
        one.mode,
        one.timeout_seconds,
        one.max_age_seconds,
        one.delay_seconds,
        one.max_retries,
        one.sequence,
        one.data_only,
        one.filter,
        encrypt_map(dict(one.headers), _at(one, "headers")),
        encrypt_map(None if one.auth is None else dict(one.auth), _at(one, "auth")),
        one.signature,
        _json(one.custom_config),
        one.source,
        one.application,
        one.status,
        one.status_reason,
        one.failing_since,
    )


def subscription_of(row: asyncpg.Record) -> Subscription:
    """Convert a row of read_subscriptions; `unreadable` says why decryption failed."""
    headers, auth, unreadable = _secrets(row)
    bound = zip(row["patterns"], row["spec_versions"], row["event_type_ids"], strict=True)
    return Subscription(
        tenant=row["tenant_id"],
        subscription_id=row["subscription_id"],
        code=row["code"],
        name=row["name"],
        description=row["description"],
        version=row["version"],
        target=row["target"],
        queue=row["queue"],
        pool_no=row["pool_no"],
        pool_id=row["pool_id"],
        pool_code=row["pool_code"],
        mode=Mode(row["mode"]),
        timeout_seconds=row["timeout_seconds"],
        max_age_seconds=row["max_age_seconds"],
        delay_seconds=row["delay_seconds"],
        max_retries=row["max_retries"],
        sequence=row["sequence"],
        data_only=row["data_only"],
        filter=row["filter"],
        headers=headers,
        auth=auth,
        unreadable=unreadable,
        signature=Signature(row["signature"]),
        custom_config=_config.decode(row["custom_config"]),
        source=SubscriptionSource(row["source"]),
        application=row["application"],
        status=SubscriptionStatus(row["status"]),
        status_reason=row["status_reason"],
        failing_since=row["failing_since"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        bindings=tuple(Binding(*each) for each in bound),
    )


def profile_of(row: asyncpg.Record) -> DeliveryProfile:
    """Convert and decrypt a row of read_profiles; raise if any secret cannot be decrypted."""
    location = webhook_secret_at(row["tenant_id"], row["subscription_id"])
    headers, auth = _decrypted(row)
    return DeliveryProfile(
        version=row["version"],
        target=row["target"],
        secrets=tuple(decrypt_bytes(raw, location) for raw in row["secrets"]),
        signature=Signature(row["signature"]),
        headers=headers,
        auth=auth,
    )


def _decrypted(row: asyncpg.Record) -> tuple[dict[str, str], dict[str, str] | None]:
    tenant, subscription_id = row["tenant_id"], row["subscription_id"]
    headers = decrypt_map(row["headers"], subscription_at(tenant, subscription_id, "headers"))
    auth = row["auth"]
    if auth is None:
        return headers, None
    return headers, decrypt_map(auth, subscription_at(tenant, subscription_id, "auth"))


def _secrets(row: asyncpg.Record) -> tuple[dict[str, str], dict[str, str] | None, str | None]:
    """Return headers and auth, or the reason why they cannot be decrypted."""
    try:
        return (*_decrypted(row), None)
    except ENCRYPTION_ERRORS as error:
        return {}, None, str(error)


def _at(one: Subscription, column: str) -> Location:
    return subscription_at(one.tenant, one.subscription_id, column)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
