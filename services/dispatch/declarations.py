"""Applies the declared subscriptions or pools of an application, all or nothing."""

from collections.abc import AsyncIterator, Sequence, Set
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from core.dispatch.pool import PoolRefusal, PoolStatus
from core.dispatch.subscription import Subscription, SubscriptionRefusal
from storage.dispatch import pools, subscriptions, webhook_secrets
from storage.dispatch.pools import NewPool, PoolRow
from storage.postgres import change_notifications
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The result for each code."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list["SyncRefusal"] = field(default_factory=list)
    """Pools that are no longer declared, but still in use."""


@dataclass(frozen=True, slots=True)
class SyncRefusal:
    """Nothing was changed, because of this code."""

    code: str
    refusal: SubscriptionRefusal | PoolRefusal


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationOptions:
    """The application, and how its declaration is to be applied."""

    application: str
    remove: bool = False
    """Delete what is no longer declared."""
    is_dry_run: bool = False
    """Report what would change, and change nothing."""


class _RehearsedError(Exception):
    """Rolls back the transaction of a dry run."""


class _RefusedError(Exception):
    """Rolls back the transaction because a code is refused."""

    def __init__(self, code: str, refusal: SubscriptionRefusal | PoolRefusal) -> None:
        super().__init__(code, refusal)
        self.reason = SyncRefusal(code, refusal)


@asynccontextmanager
async def _together(pool: Pool, declaration: DeclarationOptions) -> AsyncIterator[Connection]:
    """Run a transaction, which a dry run rolls back at its end."""
    with suppress(_RehearsedError):
        async with pool.acquire() as conn, conn.transaction():
            yield conn
            if declaration.is_dry_run:
                raise _RehearsedError


async def sync_subscriptions(
    pool: Pool, tenant: int, declaration: DeclarationOptions, wanted: Sequence[Subscription]
) -> SyncResult | SyncRefusal:
    """Create and update what differs; delete what is no longer declared, if requested."""
    synced = SyncResult()
    try:
        async with _together(pool, declaration) as conn:
            await conn.execute(Q["hold_tenant"], tenant)
            for one in wanted:
                await _sync_subscription(conn, declaration.application, one, synced)
            if declaration.remove:
                listed = {one.code for one in wanted}
                await _remove_subscriptions(conn, tenant, declaration.application, listed, synced)
            if synced.created or synced.updated or synced.removed:
                await change_notifications.notify(conn, ChangeTopic.SUBSCRIPTIONS, tenant)
    except _RefusedError as refused:
        return refused.reason
    return synced


async def _sync_subscription(
    conn: Connection, application: str, declaration: Subscription, synced: SyncResult
) -> None:
    current = await subscriptions.lock_for_update(conn, declaration.tenant, declaration.code)
    if current is None:
        new = replace(declaration, application=application)
        made = await subscriptions.add(conn, new, webhook_secrets.new_secret())
        if isinstance(made, SubscriptionRefusal):
            raise _RefusedError(declaration.code, made)
        synced.created.append(declaration.code)
        return
    if current.application != application:  # it belongs to another application
        raise _RefusedError(declaration.code, SubscriptionRefusal.CODE_EXISTS)
    declared = _declared(current, declaration)
    if declared == current:
        synced.unchanged.append(declaration.code)
        return
    saved = await subscriptions.save(conn, current, declared)
    if isinstance(saved, SubscriptionRefusal):
        raise _RefusedError(declaration.code, saved)
    synced.updated.append(declaration.code)


def _declared(current: Subscription, declaration: Subscription) -> Subscription:
    """Return the declared subscription with the stored status: only operators pause and resume."""
    return replace(
        declaration,
        subscription_id=current.subscription_id,
        bindings=tuple(sorted(declaration.bindings, key=lambda binding: binding.pattern)),
        application=current.application,
        version=current.version,
        status=current.status,
        status_reason=current.status_reason,
        failing_since=current.failing_since,
        created_at=current.created_at,
        updated_at=current.updated_at,
    )


async def _remove_subscriptions(
    conn: Connection, tenant: int, application: str, listed: Set[str], synced: SyncResult
) -> None:
    for code in await subscriptions.declared(conn, tenant, application):
        current = (
            None if code in listed else await subscriptions.lock_for_update(conn, tenant, code)
        )
        if current is not None:
            await subscriptions.delete_locked(conn, current)
            synced.removed.append(code)


async def sync_pools(
    pool: Pool, tenant: int, declaration: DeclarationOptions, wanted: Sequence[NewPool], most: int
) -> SyncResult | SyncRefusal:
    """Create and update what differs; archive unused pools that are no longer declared.

    There may be at most `most` pools of all tenants together.
    """
    synced = SyncResult()
    try:
        async with _together(pool, declaration) as conn:
            await pools.lock_count(conn)
            if declaration.remove:  # first, to make room
                listed = {one.code for one in wanted}
                await _remove_pools(conn, tenant, declaration.application, listed, synced)
            for one in wanted:
                new = replace(one, application=declaration.application)
                await _sync_pool(conn, tenant, new, most, synced)
    except _RefusedError as refused:
        return refused.reason
    return synced


async def _sync_pool(
    conn: Connection, tenant: int, declaration: NewPool, most: int, synced: SyncResult
) -> None:
    current = await pools.lock_for_update(conn, tenant, declaration.code)
    if current is None:
        made = await pools.add(conn, tenant, declaration, most)
        if isinstance(made, PoolRefusal):
            raise _RefusedError(declaration.code, made)
        synced.created.append(declaration.code)
        return
    if current.application != declaration.application:
        raise _RefusedError(declaration.code, PoolRefusal.CODE_EXISTS)
    is_back = current.status is PoolStatus.ARCHIVED
    refusal = await pools.refuse_one_more(conn, tenant, most) if is_back else None
    if refusal is not None:
        raise _RefusedError(declaration.code, refusal)
    declared = _declared_pool(current, declaration)
    if declared == current:
        synced.unchanged.append(declaration.code)
        return
    await pools.save(conn, declared)
    synced.updated.append(declaration.code)


def _declared_pool(current: PoolRow, declaration: NewPool) -> PoolRow:
    status = PoolStatus.ACTIVE if current.status is PoolStatus.ARCHIVED else current.status
    return replace(
        current,
        name=declaration.name,
        description=declaration.description,
        rate_limit=declaration.rate_limit,
        concurrency=declaration.concurrency,
        status=status,
    )


async def _remove_pools(
    conn: Connection, tenant: int, application: str, listed: Set[str], synced: SyncResult
) -> None:
    for row in await conn.fetch(Q["application_pools"], tenant, application):
        code = row["code"]
        current = None if code in listed else await pools.lock_for_update(conn, tenant, code)
        if current is None:
            continue
        done = await pools.archive_locked(conn, current)
        if isinstance(done, PoolRefusal):
            synced.kept.append(SyncRefusal(code, done))
        else:
            synced.removed.append(code)
