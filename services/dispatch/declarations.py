"""Synchronizes subscriptions and pools with an application's declaration, all or nothing."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from core.dispatch.pool import PoolRefusal, PoolStatus
from core.dispatch.subscription import Subscription, SubscriptionRefusal
from core.shared.refusal import Refusal
from storage.dispatch import pools, subscriptions, webhook_secrets
from storage.dispatch.pools import NewPool, PoolRow
from storage.postgres import change_notifications
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q
from storage.postgres.reconciler import DeclarationOptions, Reconciler, Synced, SyncOutcome


async def sync_subscriptions(
    pool: Pool, tenant: int, options: DeclarationOptions, declared: Sequence[Subscription]
) -> Synced:
    """Create and update what differs; delete what is no longer declared, if requested."""
    application, codes = options.application, {one.code for one in declared}

    async def apply(conn: Connection, one: Subscription) -> SyncOutcome | Refusal:
        current = await subscriptions.lock_for_update(conn, tenant, one.code)
        if current is None:
            new = replace(one, application=application)
            made = await subscriptions.add(conn, new, webhook_secrets.new_secret())
            return made if isinstance(made, Refusal) else SyncOutcome.CREATED
        if current.application != application:
            return SubscriptionRefusal.CODE_EXISTS
        merged = _merged(current, one)
        if merged == current:
            return SyncOutcome.UNCHANGED
        saved = await subscriptions.save(conn, current, merged)
        return saved if isinstance(saved, Refusal) else SyncOutcome.UPDATED

    async def remove(conn: Connection) -> AsyncIterator[tuple[str, SyncOutcome]]:
        for code in await subscriptions.declared(conn, tenant, application):
            if code not in codes and (
                current := await subscriptions.lock_for_update(conn, tenant, code)
            ):
                await subscriptions.delete_locked(conn, current)
                yield code, SyncOutcome.REMOVED

    reconciler = Reconciler(
        lock=lambda conn: conn.execute(Q["hold_tenant"], tenant),
        apply=apply,
        remove=remove,
        notify=lambda conn: change_notifications.notify(conn, ChangeTopic.SUBSCRIPTIONS, tenant),
    )
    return await reconciler.run(pool, options, declared)


def _merged(current: Subscription, declared: Subscription) -> Subscription:
    """Return the declared subscription with the stored status: only operators pause and resume."""
    return replace(
        declared,
        subscription_id=current.subscription_id,
        bindings=tuple(sorted(declared.bindings, key=lambda binding: binding.pattern)),
        application=current.application,
        version=current.version,
        status=current.status,
        status_reason=current.status_reason,
        failing_since=current.failing_since,
        created_at=current.created_at,
        updated_at=current.updated_at,
    )


async def sync_pools(
    pool: Pool, tenant: int, options: DeclarationOptions, declared: Sequence[NewPool], limit: int
) -> Synced:
    """Create and update what differs; archive unused pools that are no longer declared.

    There may be at most `limit` pools of all tenants together.
    """
    application, codes = options.application, {one.code for one in declared}

    async def apply(conn: Connection, one: NewPool) -> SyncOutcome | Refusal:
        current = await pools.lock_for_update(conn, tenant, one.code)
        if current is None:
            made = await pools.add(conn, tenant, replace(one, application=application), limit)
            return made if isinstance(made, Refusal) else SyncOutcome.CREATED
        if current.application != application:
            return PoolRefusal.CODE_EXISTS
        merged = _merged_pool(current, one)
        if merged == current:
            return SyncOutcome.UNCHANGED
        is_back = current.status is PoolStatus.ARCHIVED
        refusal = await pools.refuse_one_more(conn, tenant, limit) if is_back else None
        if refusal is None:
            await pools.save(conn, merged)
        return refusal or SyncOutcome.UPDATED

    async def remove(conn: Connection) -> AsyncIterator[tuple[str, SyncOutcome | Refusal]]:
        for row in await conn.fetch(Q["application_pools"], tenant, application):
            code = row["code"]
            if code not in codes and (current := await pools.lock_for_update(conn, tenant, code)):
                done = await pools.archive_locked(conn, current)
                yield code, done if isinstance(done, Refusal) else SyncOutcome.REMOVED

    reconciler = Reconciler(lock=pools.lock_count, apply=apply, remove=remove, removes_first=True)
    return await reconciler.run(pool, options, declared)


def _merged_pool(current: PoolRow, declared: NewPool) -> PoolRow:
    return replace(
        current,
        name=declared.name,
        description=declared.description,
        rate_limit=declared.rate_limit,
        concurrency=declared.concurrency,
        status=(PoolStatus.ACTIVE if current.status is PoolStatus.ARCHIVED else current.status),
    )
