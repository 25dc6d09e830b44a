"""Subscriptions as Postgres keeps them."""

from typing import Any

import asyncpg
import msgspec

from core.dispatch.claimed import Profile
from core.dispatch.job import Mode
from core.subscription import (
    Binding,
    ConfigEntry,
    Signature,
    Subscription,
    SubscriptionSource,
    SubscriptionStatus,
)

_words = msgspec.json.Decoder(dict[str, str])
_config = msgspec.json.Decoder(tuple[ConfigEntry, ...])


def values_of(one: Subscription) -> tuple[Any, ...]:
    """In the order of create_subscription and save_subscription."""
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
        _json(one.headers),
        None if one.auth is None else _json(one.auth),
        one.signature,
        _json(one.custom_config),
        one.source,
        one.application,
        one.status,
        one.status_reason,
        one.failing_since,
    )


def subscription_of(row: asyncpg.Record) -> Subscription:
    """One that read_subscriptions found."""
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
        headers=_words.decode(row["headers"]),
        auth=_auth(row["auth"]),
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


def profile_of(row: asyncpg.Record) -> Profile:
    """One that read_profiles found."""
    return Profile(
        version=row["version"],
        target=row["target"],
        secrets=tuple(row["secrets"]),
        signature=Signature(row["signature"]),
        headers=_words.decode(row["headers"]),
        auth=_auth(row["auth"]),
    )


def _auth(raw: str | None) -> dict[str, str] | None:
    return None if raw is None else _words.decode(raw)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
