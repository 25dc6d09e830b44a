"""Subscriptions on a real Postgres: who gets an event, and what may change."""

import asyncio
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from core.dispatch.job import ANCHOR, Mode
from core.dispatch.subscription import (
    Binding,
    ConfigEntry,
    Signature,
    Subscription,
    SubscriptionRefusal,
    SubscriptionSource,
    SubscriptionStatus,
    candidate_patterns,
)
from storage.dispatch import pools, subscriptions, webhook_secrets
from storage.dispatch.pools import PoolRow
from storage.dispatch.subscriptions import SubscriptionFilter
from storage.postgres.pool import Pool
from tests.support.subscriptions import (
    CREATED,
    SHIPPED,
    slow_pool,
    stored_subscription,
    subscription,
)


async def test_a_subscription_comes_back_whole(pool: Pool, tenant: int, other: int) -> None:
    slow = await slow_pool(pool, tenant)
    wish = subscription(
        tenant,
        description="all of it",
        queue="q",
        pool_no=slow.pool_no,
        mode=Mode.BLOCK_ON_ERROR,
        timeout_seconds=1,
        max_age_seconds=2,
        delay_seconds=3,
        max_retries=4,
        sequence=5,
        data_only=False,
        filter="data.a > 1",
        headers={"X-Key": "é"},
        auth={"type": "bearer", "token": "t"},
        signature=Signature.CLASSIC,
        custom_config=(ConfigEntry("a", "1"),),
        source=SubscriptionSource.UI,
        bindings=(Binding(CREATED, "1.*"), Binding("*:*:*:*")),
    )
    created = await subscriptions.create(pool, wish, b"secret")
    assert isinstance(created, Subscription)
    found = await subscriptions.read(pool, tenant, "orders")
    assert found == created == await subscriptions.read(pool, tenant, created.subscription_id)
    assert created == replace(
        wish,
        pool_id="dpl_slow",
        pool_code="slow",
        bindings=(Binding("*:*:*:*"), Binding(CREATED, "1.*")),
        created_at=created.created_at,
        updated_at=created.created_at,
    )
    assert await subscriptions.read(pool, other, "orders") is None
    assert await subscriptions.read(pool, ANCHOR, created.subscription_id) is None


async def test_codes_are_taken_within_a_tenant_only(pool: Pool, tenant: int, other: int) -> None:
    await stored_subscription(pool, tenant)
    again = replace(subscription(tenant), subscription_id="sub_2")
    assert await subscriptions.create(pool, again, b"s") is SubscriptionRefusal.CODE_EXISTS
    await stored_subscription(pool, other)


async def test_events_go_to_the_tenants_subscriptions_and_to_the_anchors(
    pool: Pool, tenant: int, other: int
) -> None:
    for owner, code, pattern in (
        (tenant, "exact", CREATED),
        (tenant, "segments", "shop:*:*:created"),
        (tenant, "everything", "*"),
        (tenant, "elsewhere", SHIPPED),
        (other, "theirs", CREATED),
        (ANCHOR, "anchors", "*:*:*:*"),
    ):
        await stored_subscription(
            pool, owner, code, bindings=(Binding(pattern), Binding("crm:a:b:c"))
        )

    async def taking(owner: int, type_: str) -> list[str]:
        found = await subscriptions.matching(pool, owner, candidate_patterns(type_))
        return sorted(one.code for one in found)

    assert await taking(tenant, CREATED) == ["anchors", "everything", "exact", "segments"]
    assert await taking(other, CREATED) == ["anchors", "theirs"]
    assert await taking(ANCHOR, CREATED) == ["anchors"]
    assert await taking(tenant, "order.created") == ["everything"]
    (_, exact, *_) = await subscriptions.matching(pool, tenant, [CREATED, "*:*:*:*"])
    assert exact.bindings == (Binding(CREATED),)  # the rest cannot take this type
    await subscriptions.pause(pool, tenant, "exact")
    assert await taking(tenant, CREATED) == ["anchors", "everything", "segments"]
    await subscriptions.resume(pool, tenant, "exact")
    assert await subscriptions.drop(pool, tenant, "everything") == "everything"
    assert await taking(tenant, CREATED) == ["anchors", "exact", "segments"]
    assert await subscriptions.matching(pool, tenant, []) == []


async def test_only_what_deliveries_feel_raises_the_version(pool: Pool, tenant: int) -> None:
    await stored_subscription(pool, tenant)

    async def version_after(**fields: Any) -> int:
        changed = await subscriptions.change(
            pool, tenant, "orders", lambda held: replace(held, **fields)
        )
        assert isinstance(changed, Subscription)
        assert all(getattr(changed, name) == value for name, value in fields.items())
        return changed.version

    assert await version_after(name="Other", description="b") == 1
    assert await version_after(target="https://example.org/b") == 2
    assert await version_after(bindings=(Binding(SHIPPED, "2.0"),)) == 3
    assert await version_after(headers={"X-A": "b"}) == 4
    assert await version_after(headers={"X-A": "b"}) == 4
    rotated = await webhook_secrets.rotate(pool, tenant, "sub_orders", b"new", 60)
    assert rotated is not None
    assert await version_after() == 5
    paused = await subscriptions.pause(pool, tenant, "orders")
    assert isinstance(paused, Subscription)
    assert (paused.status, paused.version) == (SubscriptionStatus.PAUSED, 6)


async def test_what_is_not_there_cannot_change(pool: Pool, tenant: int, other: int) -> None:
    await stored_subscription(pool, tenant)
    for owner in (other, ANCHOR):
        assert (
            await subscriptions.pause(pool, owner, "orders")
            is SubscriptionRefusal.SUBSCRIPTION_NOT_FOUND
        )
        assert await subscriptions.drop(pool, owner, "sub_orders") is None
        assert await webhook_secrets.rotate(pool, owner, "sub_orders", b"n", 0) is None
    found = await subscriptions.read(pool, tenant, "orders")
    assert found is not None
    assert found.status is SubscriptionStatus.ACTIVE


async def test_nothing_leads_to_an_archived_pool(pool: Pool, tenant: int) -> None:
    slow = await slow_pool(pool, tenant)
    await stored_subscription(pool, tenant, pool_no=slow.pool_no)
    await subscriptions.pause(pool, tenant, "orders")
    assert isinstance(await pools.archive(pool, tenant, "slow"), PoolRow)
    assert await subscriptions.resume(pool, tenant, "orders") is SubscriptionRefusal.POOL_ARCHIVED
    wish = subscription(tenant, "second", pool_no=slow.pool_no)
    assert await subscriptions.create(pool, wish, b"s") is SubscriptionRefusal.POOL_ARCHIVED
    renamed = await subscriptions.change(
        pool, tenant, "orders", lambda held: replace(held, name="Paused still")
    )
    assert isinstance(renamed, Subscription)


async def test_archiving_and_subscribing_at_once_leave_no_subscription_without_a_pool(
    pool: Pool, tenant: int
) -> None:
    slow = await slow_pool(pool, tenant)
    wish = subscription(tenant, pool_no=slow.pool_no)
    created, archived = await asyncio.gather(
        subscriptions.create(pool, wish, b"s"), pools.archive(pool, tenant, "slow")
    )
    assert isinstance(created, Subscription) != isinstance(archived, PoolRow)


async def test_subscriptions_are_listed_by_code_and_filtered(
    pool: Pool, tenant: int, other: int
) -> None:
    slow = await slow_pool(pool, tenant)
    await stored_subscription(pool, tenant, "c-3", bindings=(Binding("*"),))
    await stored_subscription(pool, tenant, "a-1", source=SubscriptionSource.UI)
    await stored_subscription(
        pool, tenant, "b-2", pool_no=slow.pool_no, bindings=(Binding(SHIPPED),)
    )
    await stored_subscription(pool, other, "theirs")
    await subscriptions.pause(pool, tenant, "a-1")

    async def listed(after: str = "", limit: int = 9, **chosen: Any) -> list[str]:
        filters = SubscriptionFilter(**chosen)
        found = await subscriptions.page(pool, tenant, filters, after, limit)
        if not after and limit == 9:
            assert await subscriptions.count(pool, tenant, filters) == len(found)
        return [one.code for one in found]

    assert await listed() == ["a-1", "b-2", "c-3"]
    assert await listed(limit=2) == ["a-1", "b-2"]
    assert await listed(after="a-1") == ["b-2", "c-3"]
    assert await listed(status=SubscriptionStatus.PAUSED) == ["a-1"]
    assert await listed(source=SubscriptionSource.UI) == ["a-1"]
    assert await listed(pool_nos=[slow.pool_no]) == ["b-2"]
    assert await listed(patterns=candidate_patterns(SHIPPED)) == ["b-2", "c-3"]


@pytest.fixture
async def crowded(database: str) -> str:
    """With so many rows that it matters which index a query takes."""
    conn = await asyncpg.connect(database)
    try:
        await conn.execute("""
            insert into tenants (slug) select 't' || n from generate_series(1, 20) n;
            insert into subscriptions (tenant_id, subscription_id, code, name, target, pool_no)
            select t.tenant_id, 'sub_' || n, 'code-' || n, 'n', 'http://t', 1
              from tenants t, generate_series(1, 200) n;
            insert into subscription_bindings (tenant_id, subscription_id, pattern)
            select tenant_id, subscription_id, 'a:b:c:' || code from subscriptions;
            insert into webhook_secrets (tenant_id, subscription_id, secret)
            select tenant_id, subscription_id, 's' from subscriptions;
            analyze;
        """)
    finally:
        await conn.close()
    return database


@pytest.mark.parametrize(
    ("query", "arguments", "index"),
    [
        ("match_subscriptions", (1, [CREATED, "*"]), "subscription_bindings_pattern"),
        ("read_subscriptions", ([1], ["sub_1"]), "subscriptions_pkey"),
        ("read_subscriptions", ([1], ["sub_1"]), "subscription_bindings_pkey"),
        ("read_profiles", ([1], ["sub_1"]), "webhook_secrets_pkey"),
        ("mark_well", ([1], ["sub_1"]), "subscriptions_pkey"),
        ("mark_failing", ([1], ["sub_1"]), "subscriptions_pkey"),
        ("list_subscriptions", (1, "", None, None, None, None, 9), "subscriptions_tenant_id_code"),
        ("pool_is_used", (1,), "dispatch_jobs_open"),
        ("pool_is_used", (1,), "subscriptions_pool"),
        ("live_webhook_secrets", (1, "sub_1"), "webhook_secrets_pkey"),
    ],
)
async def test_queries_use_their_index(
    crowded: str, query: str, arguments: tuple[object, ...], index: str
) -> None:
    from storage.postgres.queries import Q

    conn = await asyncpg.connect(crowded)
    try:
        await conn.execute("set enable_seqscan = off; set enable_bitmapscan = off")
        plan = await conn.fetch(f"explain {Q[query]}", *arguments)
    finally:
        await conn.close()
    assert index in "\n".join(row[0] for row in plan)
