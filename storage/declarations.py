"""What an application declares as a whole: its subscriptions or its pools, all or nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from core.dispatch.pool import PoolRefusal, PoolStatus
from core.subscription import Refusal, Subscription
from storage import changes, dispatch_pools, subscriptions, webhook_secrets
from storage.changes import Topic
from storage.dispatch_pools import NewPool, PoolRow
from storage.pool import Connection, Pool
from storage.queries import Q


@dataclass(frozen=True, slots=True)
class Synced:
    """What became of each code."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """No longer declared, but still in use."""


@dataclass(frozen=True, slots=True)
class NotSynced:
    """Nothing was done, because of one of them."""

    code: str
    refusal: Refusal | PoolRefusal


class _RefusedError(Exception):
    """Undoes what the transaction has done so far."""

    def __init__(self, code: str, refusal: Refusal | PoolRefusal) -> None:
        super().__init__(code, refusal)
        self.reason = NotSynced(code, refusal)


async def sync_subscriptions(
    pool: Pool, tenant: int, application: str, wanted: Sequence[Subscription], *, remove: bool
) -> Synced | NotSynced:
    """Make and change what differs; what is no longer declared goes, if that is asked for."""
    synced = Synced()
    try:
        async with pool.acquire() as conn, conn.transaction():
            await conn.execute(Q["hold_tenant"], tenant)
            for one in wanted:
                await _sync_subscription(conn, application, one, synced)
            if remove:
                await _remove_subscriptions(conn, tenant, application, wanted, synced)
            if synced.created or synced.updated or synced.removed:
                await changes.notify(conn, Topic.SUBSCRIPTIONS)
    except _RefusedError as refused:
        return refused.reason
    return synced


async def _sync_subscription(
    conn: Connection, application: str, wish: Subscription, synced: Synced
) -> None:
    held = await subscriptions.hold(conn, wish.tenant, wish.code)
    if held is None:
        new = replace(wish, application=application)
        made = await subscriptions.add(conn, new, webhook_secrets.make())
        if isinstance(made, Refusal):
            raise _RefusedError(wish.code, made)
        synced.created.append(wish.code)
        return
    if held.application != application:  # somebody else's
        raise _RefusedError(wish.code, Refusal.CODE_EXISTS)
    declared = _declared(held, wish)
    if declared == held:
        synced.unchanged.append(wish.code)
        return
    saved = await subscriptions.save(conn, held, declared)
    if isinstance(saved, Refusal):
        raise _RefusedError(wish.code, saved)
    synced.updated.append(wish.code)


def _declared(held: Subscription, wish: Subscription) -> Subscription:
    """All that is declared; whether it is paused stays the affair of people."""
    return replace(
        wish,
        subscription_id=held.subscription_id,
        bindings=tuple(sorted(wish.bindings, key=lambda binding: binding.pattern)),
        application=held.application,
        version=held.version,
        status=held.status,
        status_reason=held.status_reason,
        failing_since=held.failing_since,
        created_at=held.created_at,
        updated_at=held.updated_at,
    )


async def _remove_subscriptions(
    conn: Connection,
    tenant: int,
    application: str,
    wanted: Sequence[Subscription],
    synced: Synced,
) -> None:
    listed = {one.code for one in wanted}
    for code in await subscriptions.declared(conn, tenant, application):
        held = None if code in listed else await subscriptions.hold(conn, tenant, code)
        if held is not None:
            await subscriptions.take_away(conn, held)
            synced.removed.append(code)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDeclaration:
    """The pools of an application, and how many there may be in all."""

    application: str
    pools: Sequence[NewPool]
    remove: bool
    most: int


async def sync_pools(pool: Pool, tenant: int, wish: PoolDeclaration) -> Synced | NotSynced:
    """Make and change what differs; what is no longer declared is archived, if nobody needs it."""
    synced = Synced()
    try:
        async with pool.acquire() as conn, conn.transaction():
            await dispatch_pools.lock_count(conn)
            if wish.remove:  # first, so that there is room
                await _remove_pools(conn, tenant, wish, synced)
            for one in wish.pools:
                await _sync_pool(conn, tenant, one, wish, synced)
            if synced.created:
                await changes.notify(conn, Topic.POOLS)
    except _RefusedError as refused:
        return refused.reason
    return synced


async def _sync_pool(
    conn: Connection, tenant: int, one: NewPool, wish: PoolDeclaration, synced: Synced
) -> None:
    held = await dispatch_pools.hold(conn, tenant, one.code)
    if held is None:
        new = replace(one, application=wish.application)
        made = await dispatch_pools.add(conn, tenant, new, wish.most)
        if isinstance(made, PoolRefusal):
            raise _RefusedError(one.code, made)
        synced.created.append(one.code)
        return
    if held.application != wish.application:
        raise _RefusedError(one.code, PoolRefusal.CODE_EXISTS)
    is_back = held.status is PoolStatus.ARCHIVED
    if is_back and not await dispatch_pools.has_room(conn, wish.most):
        raise _RefusedError(one.code, PoolRefusal.POOL_LIMIT)
    declared = _declared_pool(held, one)
    if declared == held:
        synced.unchanged.append(one.code)
        return
    await dispatch_pools.save(conn, declared)
    synced.updated.append(one.code)


def _declared_pool(held: PoolRow, wish: NewPool) -> PoolRow:
    status = PoolStatus.ACTIVE if held.status is PoolStatus.ARCHIVED else held.status
    return replace(
        held,
        name=wish.name,
        description=wish.description,
        rate_limit=wish.rate_limit,
        concurrency=wish.concurrency,
        status=status,
    )


async def _remove_pools(
    conn: Connection, tenant: int, wish: PoolDeclaration, synced: Synced
) -> None:
    listed = {one.code for one in wish.pools}
    for code in await dispatch_pools.declared(conn, tenant, wish.application):
        held = None if code in listed else await dispatch_pools.hold(conn, tenant, code)
        if held is not None:
            done = await dispatch_pools.put_away(conn, held)
            (synced.kept if isinstance(done, PoolRefusal) else synced.removed).append(code)
