"""Subscriptions that are declared become so as a whole, and every change is told to others."""

import asyncio
from dataclasses import replace

import asyncpg

from core.dispatch.subscription import (
    Binding,
    Subscription,
    SubscriptionRefusal,
    SubscriptionStatus,
)
from services.dispatch import declarations
from storage.dispatch import pools, subscriptions, webhook_secrets
from storage.postgres.pool import Pool
from storage.postgres.reconciler import DeclarationOptions, SyncRefusal, SyncResult
from tests.support.subscriptions import (
    CREATED,
    SHIPPED,
    slow_pool,
    stored_subscription,
    subscription,
)


async def sync(
    pool: Pool, tenant: int, *wanted: Subscription, remove: bool = False, rehearse: bool = False
) -> SyncResult | SyncRefusal:
    wish = DeclarationOptions(application="shop", remove=remove, is_dry_run=rehearse)
    return await declarations.sync_subscriptions(pool, tenant, wish, wanted)


async def test_an_application_declares_its_subscriptions(pool: Pool, tenant: int) -> None:
    several = (Binding(SHIPPED), Binding(CREATED))
    one, two = subscription(tenant, "one"), subscription(tenant, "two", bindings=several)
    rehearsed = await sync(pool, tenant, one, two, rehearse=True)
    assert rehearsed == SyncResult(created=["one", "two"])
    assert await subscriptions.read(pool, tenant, "one") is None
    assert await sync(pool, tenant, one, two) == rehearsed
    await subscriptions.pause(pool, tenant, "one")
    other_target = replace(two, subscription_id="sub_new", target="https://example.org/b")
    done = await sync(pool, tenant, one, other_target)
    assert done == SyncResult(updated=["two"], unchanged=["one"])
    found = await subscriptions.read(pool, tenant, "two")
    assert found is not None
    assert (found.subscription_id, found.target) == ("sub_two", "https://example.org/b")
    paused = await subscriptions.read(pool, tenant, "one")
    assert paused is not None
    assert paused.status is SubscriptionStatus.PAUSED
    await stored_subscription(pool, tenant, "by-hand")
    done = await sync(pool, tenant, one, remove=True)
    assert done == SyncResult(unchanged=["one"], removed=["two"])
    assert await subscriptions.read(pool, tenant, "by-hand") is not None


async def test_a_declaration_that_cannot_be_met_changes_nothing(pool: Pool, tenant: int) -> None:
    slow = await slow_pool(pool, tenant)
    await stored_subscription(pool, tenant, "by-hand")
    one = subscription(tenant, "one", pool_no=slow.pool_no)
    refused = await sync(pool, tenant, one, subscription(tenant, "by-hand"))
    assert refused == SyncRefusal("by-hand", SubscriptionRefusal.CODE_EXISTS)
    assert await subscriptions.read(pool, tenant, "one") is None
    await pools.archive(pool, tenant, "slow")
    assert await sync(pool, tenant, one) == SyncRefusal("one", SubscriptionRefusal.POOL_ARCHIVED)
    fine = replace(one, pool_no=1)
    await sync(pool, tenant, fine)
    assert await sync(pool, tenant, one) == SyncRefusal("one", SubscriptionRefusal.POOL_ARCHIVED)


async def test_every_change_is_told_once_it_is_committed(
    pool: Pool, tenant: int, database: str
) -> None:
    listening = await asyncpg.connect(database)
    heard: asyncio.Queue[object] = asyncio.Queue()
    await listening.add_listener("muster_changes", lambda *notice: heard.put_nowait(notice[3]))

    async def told() -> object:
        async with asyncio.timeout(10):
            return await heard.get()

    try:
        await stored_subscription(pool, tenant)
        assert await told() == f"subscriptions {tenant}"
        for work in (
            subscriptions.pause(pool, tenant, "orders"),
            subscriptions.resume(pool, tenant, "orders"),
            webhook_secrets.rotate(pool, tenant, "sub_orders", b"n", 0),
            webhook_secrets.rotate(pool, tenant, "", b"n", 0),
            sync(pool, tenant, subscription(tenant, "declared")),
        ):
            await work
            assert await told() == f"subscriptions {tenant}"
        await subscriptions.change(
            pool, tenant, "orders", lambda held: replace(held, target="http://127.0.0.1:9/new")
        )
        assert [await told(), await told()] == [f"subscriptions {tenant}", "targets"]
        await subscriptions.mark_failing(pool, [(tenant, "sub_orders")])
        await subscriptions.disable(pool, tenant, "sub_orders", "why")
        assert await told() == f"subscriptions {tenant}"
        await subscriptions.drop(pool, tenant, "orders")
        assert await told() == f"subscriptions {tenant}"
        await slow_pool(pool, tenant)
        assert await told() == "pools"
        for change in (pools.suspend, pools.archive):
            await change(pool, tenant, "slow")
            assert await told() == "pools"
        await pools.archive(pool, tenant, "slow")  # refused
        await subscriptions.pause(pool, tenant, "nobody")
        await pools.activate(pool, tenant, "slow", 20)
        assert await told() == "pools"
        assert heard.empty()
    finally:
        await listening.close()
