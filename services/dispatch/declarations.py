"""What an application declares as a whole: its subscriptions or its pools, all or nothing."""

from collections.abc import AsyncIterator, Sequence, Set
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from core.dispatch.pool import PoolRefusal, PoolStatus
from core.dispatch.subscription import Refusal, Subscription
from storage.dispatch import pools, subscriptions, webhook_secrets
from storage.dispatch.pools import NewPool, PoolRow
from storage.postgres import change_notifications
from storage.postgres.change_notifications import Topic
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q


@dataclass(frozen=True, slots=True)
class Synced:
    """What became of each code."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list["NotSynced"] = field(default_factory=list)
    """No longer declared, but still in use."""


@dataclass(frozen=True, slots=True)
class NotSynced:
    """Nothing was done, because of one of them."""

    code: str
    refusal: Refusal | PoolRefusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """How an application means what it declares."""

    application: str
    remove: bool = False
    """What is no longer declared goes."""
    is_rehearsal: bool = False
    """It wants to know what would happen, and nothing does."""


class _RehearsedError(Exception):
    """Undoes what the transaction has done."""


class _RefusedError(Exception):
    """The same, for it cannot go on."""

    def __init__(self, code: str, refusal: Refusal | PoolRefusal) -> None:
        super().__init__(code, refusal)
        self.reason = NotSynced(code, refusal)


@asynccontextmanager
async def _together(pool: Pool, wish: Declaration) -> AsyncIterator[Connection]:
    """A transaction, undone at the end of a rehearsal."""
    with suppress(_RehearsedError):
        async with pool.acquire() as conn, conn.transaction():
            yield conn
            if wish.is_rehearsal:
                raise _RehearsedError


async def sync_subscriptions(
    pool: Pool, tenant: int, wish: Declaration, wanted: Sequence[Subscription]
) -> Synced | NotSynced:
    """Make and change what differs; what is no longer declared goes, if that is asked for."""
    synced = Synced()
    try:
        async with _together(pool, wish) as conn:
            await conn.execute(Q["hold_tenant"], tenant)
            for one in wanted:
                await _sync_subscription(conn, wish.application, one, synced)
            if wish.remove:
                listed = {one.code for one in wanted}
                await _remove_subscriptions(conn, tenant, wish.application, listed, synced)
            if synced.created or synced.updated or synced.removed:
                await change_notifications.notify(conn, Topic.SUBSCRIPTIONS, tenant)
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
    conn: Connection, tenant: int, application: str, listed: Set[str], synced: Synced
) -> None:
    for code in await subscriptions.declared(conn, tenant, application):
        held = None if code in listed else await subscriptions.hold(conn, tenant, code)
        if held is not None:
            await subscriptions.take_away(conn, held)
            synced.removed.append(code)


async def sync_pools(
    pool: Pool, tenant: int, wish: Declaration, wanted: Sequence[NewPool], most: int
) -> Synced | NotSynced:
    """Make and change what differs; what is no longer declared is archived, if nobody needs it.

    There may be `most` of them, of all tenants together.
    """
    synced = Synced()
    try:
        async with _together(pool, wish) as conn:
            await pools.lock_count(conn)
            if wish.remove:  # first, so that there is room
                listed = {one.code for one in wanted}
                await _remove_pools(conn, tenant, wish.application, listed, synced)
            for one in wanted:
                new = replace(one, application=wish.application)
                await _sync_pool(conn, tenant, new, most, synced)
            if synced.created:
                await change_notifications.notify(conn, Topic.POOLS)
    except _RefusedError as refused:
        return refused.reason
    return synced


async def _sync_pool(
    conn: Connection, tenant: int, wish: NewPool, most: int, synced: Synced
) -> None:
    held = await pools.hold(conn, tenant, wish.code)
    if held is None:
        made = await pools.add(conn, tenant, wish, most)
        if isinstance(made, PoolRefusal):
            raise _RefusedError(wish.code, made)
        synced.created.append(wish.code)
        return
    if held.application != wish.application:
        raise _RefusedError(wish.code, PoolRefusal.CODE_EXISTS)
    is_back = held.status is PoolStatus.ARCHIVED
    refusal = await pools.refuse_one_more(conn, tenant, most) if is_back else None
    if refusal is not None:
        raise _RefusedError(wish.code, refusal)
    declared = _declared_pool(held, wish)
    if declared == held:
        synced.unchanged.append(wish.code)
        return
    await pools.save(conn, declared)
    synced.updated.append(wish.code)


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
    conn: Connection, tenant: int, application: str, listed: Set[str], synced: Synced
) -> None:
    for code in await pools.declared(conn, tenant, application):
        held = None if code in listed else await pools.hold(conn, tenant, code)
        if held is None:
            continue
        done = await pools.put_away(conn, held)
        if isinstance(done, PoolRefusal):
            synced.kept.append(NotSynced(code, done))
        else:
            synced.removed.append(code)
