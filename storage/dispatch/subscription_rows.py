"""Converts subscriptions to and from rows."""

from typing import Any

import asyncpg
import msgspec

from core.dispatch.claim import DeliveryProfile
from core.dispatch.subscription import Signature, Subscription
from storage.encryption.cipher import ENCRYPTION_ERRORS, Location
from storage.encryption.secret_values import (
    decrypt_bytes,
    decrypt_map,
    encrypt_map,
    subscription_at,
    webhook_secret_at,
)
from storage.postgres.queries import Q
from storage.postgres.table import values_of


def arguments_of(query: str, one: Subscription) -> list[Any]:
    """Return the arguments of create_subscription or save_subscription."""
    auth = None if one.auth is None else dict(one.auth)
    stored = {
        "headers": encrypt_map(dict(one.headers), _at(one, "headers")),
        "auth": encrypt_map(auth, _at(one, "auth")),
        "custom_config": msgspec.json.encode(one.custom_config).decode(),
    }
    return Q.arguments(query, values_of(one) | stored)


def subscription_of(row: asyncpg.Record) -> Subscription:
    """Convert a row of read_subscriptions; `unreadable` says why decryption failed."""
    headers, auth, unreadable = _secrets(row)
    bound = zip(row["patterns"], row["spec_versions"], row["event_type_ids"], strict=True)
    names = ("pattern", "spec_version", "event_type_id")
    values = {
        "tenant": row["tenant_id"],
        "headers": headers,
        "auth": auth,
        "unreadable": unreadable,
        "custom_config": msgspec.json.decode(row["custom_config"]),
        "bindings": [dict(zip(names, each, strict=True)) for each in bound],
    }
    return msgspec.convert(dict(row) | values, Subscription)


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
