"""Subscriptions with their bindings, and the delivery profiles that sending needs."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from core.dispatch.claim import DeliveryProfile
from core.dispatch.subscription import (
    Subscription,
    SubscriptionRefusal,
    SubscriptionSource,
    SubscriptionStatus,
    same_delivery,
)
from storage.dispatch import subscription_moves, webhook_secrets
from storage.dispatch.subscription_rows import arguments_of, profile_of, subscription_of
from storage.dispatch.webhook_secrets import OWN
from storage.encryption.cipher import MissingKeyError
from storage.postgres import change_notifications
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

MAX_SUBSCRIPTIONS = 10_000
"""Subscriptions of one tenant."""


class SubscriptionKey(NamedTuple):
    """Identifies a subscription; an empty id stands for the tenant's direct jobs."""

    tenant: int
    subscription_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionFilter:
    """A filter of subscriptions; None matches all."""

    status: SubscriptionStatus | None = None
    source: SubscriptionSource | None = None
    pool_nos: Sequence[int] | None = None
    patterns: Sequence[str] | None = None


SubscriptionEdit: TypeAlias = Callable[[Subscription], Subscription]


# Matching


async def matching(pool: Pool, tenant: int, patterns: Sequence[str]) -> list[Subscription]:
    """Read the active subscriptions that have a binding with one of these patterns.

    These are the tenant's and the anchor's. Each is returned with its matching bindings only.
    """
    rows = await pool.fetch(Q["match_subscriptions"], tenant, list(patterns))
    wanted = frozenset(patterns)
    return [
        replace(one, bindings=tuple(b for b in one.bindings if b.pattern in wanted))
        for one in await _read(pool, [SubscriptionKey(*row) for row in rows])
        if one.status is SubscriptionStatus.ACTIVE
    ]


# Reading


async def read(pool: Pool, tenant: int, name: str) -> Subscription | None:
    """Read one subscription by its code or id."""
    found = await pool.fetchval(Q["find_subscription"], tenant, name)
    if found is None:
        return None
    return next(iter(await _read(pool, [SubscriptionKey(tenant, found)])), None)


async def page(
    pool: Pool, tenant: int, chosen: SubscriptionFilter, after: str, limit: int
) -> list[Subscription]:
    """Read the next subscriptions of a listing, by code."""
    rows = await pool.fetch(Q["list_subscriptions"], tenant, after, *_chosen(chosen), limit)
    return await _read(pool, [SubscriptionKey(tenant, row["subscription_id"]) for row in rows])


async def count(pool: Pool, tenant: int, chosen: SubscriptionFilter) -> int:
    """Count the subscriptions that match the filter."""
    return int(await pool.fetchval(Q["count_subscriptions"], tenant, *_chosen(chosen)))


# Changing


async def create(
    pool: Pool, new: Subscription, secret: bytes
) -> SubscriptionRefusal | Subscription:
    """Create a subscription with its first signing secret."""
    async with pool.acquire() as conn, conn.transaction():
        made = await add(conn, new, secret)
        if isinstance(made, Subscription):
            await change_notifications.notify(conn, ChangeTopic.SUBSCRIPTIONS, new.tenant)
        return made


async def add(
    conn: Connection, new: Subscription, secret: bytes
) -> SubscriptionRefusal | Subscription:
    """Create a subscription in the caller's transaction; the caller notifies listeners."""
    if await conn.fetchrow(Q["hold_open_pool"], new.pool_no) is None:
        return SubscriptionRefusal.POOL_ARCHIVED
    total = await conn.fetchval(Q["count_subscriptions"], new.tenant, None, None, None, None)
    if total >= MAX_SUBSCRIPTIONS:
        return SubscriptionRefusal.TOO_MANY_SUBSCRIPTIONS
    arguments = arguments_of("create_subscription", new)
    if await conn.fetchval(Q["create_subscription"], *arguments) is None:
        return SubscriptionRefusal.CODE_EXISTS
    await _bind(conn, new)
    await webhook_secrets.add(conn, new.tenant, new.subscription_id, secret)
    return await _read_one(conn, new.tenant, new.subscription_id)


async def change(
    pool: Pool, tenant: int, name: str, edit: SubscriptionEdit
) -> SubscriptionRefusal | Subscription:
    """Apply an edit to a subscription."""
    async with _held(pool, tenant, name) as (conn, current):
        if current is None:
            return SubscriptionRefusal.SUBSCRIPTION_NOT_FOUND
        return await save(conn, current, edit(current))


async def save(
    conn: Connection, current: Subscription, new: Subscription
) -> SubscriptionRefusal | Subscription:
    """Store the new values of a locked subscription, and notify listeners."""
    if current.unreadable is not None:  # saving it would erase its secrets
        raise MissingKeyError(current.unreadable)
    if new.status is SubscriptionStatus.ACTIVE and not await conn.fetchrow(
        Q["hold_open_pool"], new.pool_no
    ):
        return SubscriptionRefusal.POOL_ARCHIVED
    if refusal := await subscription_moves.move(conn, current, new.pool_no):
        return refusal
    version = current.version if same_delivery(current, new) else current.version + 1
    arguments = arguments_of("save_subscription", replace(new, version=version))
    await conn.execute(Q["save_subscription"], *arguments)
    if new.bindings != current.bindings:
        await conn.execute(Q["drop_bindings"], current.tenant, current.subscription_id)
        await _bind(conn, new)
    await change_notifications.notify(conn, ChangeTopic.SUBSCRIPTIONS, current.tenant)
    if new.target != current.target:
        await change_notifications.notify(conn, ChangeTopic.TARGETS)
    return await _read_one(conn, current.tenant, current.subscription_id)


async def pause(pool: Pool, tenant: int, name: str) -> SubscriptionRefusal | Subscription:
    """Stop taking events; jobs that exist are still delivered."""
    return await change(
        pool,
        tenant,
        name,
        lambda current: replace(current, status=SubscriptionStatus.PAUSED, status_reason=None),
    )


async def resume(pool: Pool, tenant: int, name: str) -> SubscriptionRefusal | Subscription:
    """Take events again, and clear all failures."""

    def edit(current: Subscription) -> Subscription:
        return replace(
            current, status=SubscriptionStatus.ACTIVE, status_reason=None, failing_since=None
        )

    return await change(pool, tenant, name, edit)


async def drop(pool: Pool, tenant: int, name: str) -> str | None:
    """Delete a subscription with its secrets; return its code, or None if there is none."""
    async with _held(pool, tenant, name) as (conn, current):
        if current is None:
            return None
        await delete_locked(conn, current)
        await change_notifications.notify(conn, ChangeTopic.SUBSCRIPTIONS, tenant)
        return current.code


async def delete_locked(conn: Connection, current: Subscription) -> None:
    """Delete a locked subscription in the caller's transaction; the caller notifies listeners.

    Its failed jobs are ignored from now on; its waiting jobs end when their turn comes.
    """
    await conn.execute(Q["drop_subscription"], current.tenant, current.subscription_id)
    await conn.execute(Q["drop_webhook_secrets"], current.tenant, current.subscription_id)
    await conn.execute(Q["put_aside_failed"], current.tenant, current.subscription_id)


async def lock_for_update(conn: Connection, tenant: int, name: str) -> Subscription | None:
    """Lock a subscription until the transaction ends."""
    found = await conn.fetchval(Q["hold_subscription"], tenant, name)
    return None if found is None else await _read_one(conn, tenant, found)


async def declared(conn: Connection, tenant: int, application: str) -> list[str]:
    """Return the codes of the subscriptions that an application declared."""
    rows = await conn.fetch(Q["application_subscriptions"], tenant, application)
    return [row["code"] for row in rows]


# Delivery


async def profiles(
    pool: Pool, keys: Iterable[tuple[int, str]]
) -> dict[SubscriptionKey, DeliveryProfile]:
    """Read the secrets and options that deliveries need; leave out deleted subscriptions.

    An empty id stands for the tenant's direct jobs.
    """
    wanted = [SubscriptionKey(*key) for key in keys]
    named = [key for key in wanted if key.subscription_id != OWN]
    found: dict[SubscriptionKey, DeliveryProfile] = {}
    if named:
        for row in await pool.fetch(Q["read_profiles"], *_columns(named)):
            key = SubscriptionKey(row["tenant_id"], row["subscription_id"])
            found[key] = profile_of(row)
    tenants = [key.tenant for key in wanted if key.subscription_id == OWN]
    for tenant, secrets in (await webhook_secrets.own_of(pool, tenants)).items():
        found[SubscriptionKey(tenant, OWN)] = DeliveryProfile(secrets=secrets)
    return found


async def mark_failing(
    pool: Pool, keys: Iterable[tuple[int, str]]
) -> Mapping[SubscriptionKey, float]:
    """Mark subscriptions as failing; return for how many seconds each has had no success."""
    rows = await pool.fetch(Q["mark_failing"], *_columns(keys))
    return {
        SubscriptionKey(row["tenant_id"], row["subscription_id"]): row["seconds"] for row in rows
    }


async def mark_well(pool: Pool, keys: Iterable[tuple[int, str]]) -> None:
    """Mark subscriptions as working: a delivery succeeded."""
    await pool.execute(Q["mark_well"], *_columns(keys))


async def disable(
    pool: Pool, tenant: int, subscription_id: str, reason: str, version: int | None = None
) -> bool:
    """Pause a failing subscription; return False if it no longer fails or was paused already.

    With a `version`, pause it only if that is still the current one.
    """
    async with pool.acquire() as conn, conn.transaction():
        done = await conn.fetchval(
            Q["disable_subscription"], tenant, subscription_id, reason, version
        )
        if done is None:
            return False
        await change_notifications.notify(conn, ChangeTopic.SUBSCRIPTIONS, tenant)
        return True


@asynccontextmanager
async def _held(
    pool: Pool, tenant: int, name: str
) -> AsyncIterator[tuple[Connection, Subscription | None]]:
    async with pool.acquire() as conn, conn.transaction():
        yield conn, await lock_for_update(conn, tenant, name)


async def _bind(conn: Connection, one: Subscription) -> None:
    await conn.execute(
        Q["add_bindings"],
        one.tenant,
        one.subscription_id,
        [binding.pattern for binding in one.bindings],
        [binding.spec_version for binding in one.bindings],
    )


async def _read(conn: Pool | Connection, keys: Sequence[SubscriptionKey]) -> list[Subscription]:
    if not keys:
        return []
    return [
        subscription_of(row) for row in await conn.fetch(Q["read_subscriptions"], *_columns(keys))
    ]


async def _read_one(conn: Connection, tenant: int, subscription_id: str) -> Subscription:
    (found,) = await _read(conn, [SubscriptionKey(tenant, subscription_id)])
    return found


def _chosen(chosen: SubscriptionFilter) -> tuple[object, ...]:
    pools = None if chosen.pool_nos is None else list(chosen.pool_nos)
    patterns = None if chosen.patterns is None else list(chosen.patterns)
    return chosen.status, chosen.source, pools, patterns


def _columns(keys: Iterable[tuple[int, str]]) -> tuple[list[int], list[str]]:
    pairs = list(keys)
    return [tenant for tenant, _ in pairs], [name for _, name in pairs]
