"""Subscriptions on a real Postgres: who gets an event, and what deliveries need."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from core.dispatch.claimed import Profile
from core.dispatch.job import ANCHOR, Mode
from core.subscription import (
    Binding,
    ConfigEntry,
    Refusal,
    Signature,
    Subscription,
    SubscriptionSource,
    SubscriptionStatus,
    candidates,
)
from storage import access, declarations, dispatch_pools, subscriptions, webhook_secrets
from storage.declarations import Declaration, NotSynced, Synced
from storage.dispatch_pools import NewPool, PoolRow
from storage.pool import Pool, PoolOptions, open_pool
from storage.subscriptions import SubscriptionFilter, SubscriptionKey
from tests.support.subscriptions import CREATED, subscription

SHIPPED = "shop:orders:order:shipped"


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


@pytest.fixture
async def tenant(pool: Pool) -> int:
    return await access.create_tenant(pool, "acme")


@pytest.fixture
async def other(pool: Pool) -> int:
    return await access.create_tenant(pool, "other")


async def made(pool: Pool, tenant: int, code: str = "orders", **fields: Any) -> Subscription:
    created = await subscriptions.create(pool, subscription(tenant, code, **fields), b"secret")
    assert isinstance(created, Subscription)
    return created


async def slow_pool(pool: Pool, tenant: int) -> PoolRow:
    new = NewPool(pool_id="dpl_slow", code="slow", name="Slow")
    created = await dispatch_pools.create(pool, tenant, new, 20)
    assert isinstance(created, PoolRow)
    return created


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
    await made(pool, tenant)
    again = replace(subscription(tenant), subscription_id="sub_2")
    assert await subscriptions.create(pool, again, b"s") is Refusal.CODE_EXISTS
    await made(pool, other)


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
        await made(pool, owner, code, bindings=(Binding(pattern), Binding("crm:a:b:c")))

    async def taking(owner: int, type_: str) -> list[str]:
        found = await subscriptions.matching(pool, owner, candidates(type_))
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
    await made(pool, tenant)

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
    await made(pool, tenant)
    for owner in (other, ANCHOR):
        assert await subscriptions.pause(pool, owner, "orders") is Refusal.SUBSCRIPTION_NOT_FOUND
        assert await subscriptions.drop(pool, owner, "sub_orders") is None
        assert await webhook_secrets.rotate(pool, owner, "sub_orders", b"n", 0) is None
    found = await subscriptions.read(pool, tenant, "orders")
    assert found is not None
    assert found.status is SubscriptionStatus.ACTIVE


async def test_nothing_leads_to_an_archived_pool(pool: Pool, tenant: int) -> None:
    slow = await slow_pool(pool, tenant)
    await made(pool, tenant, pool_no=slow.pool_no)
    await subscriptions.pause(pool, tenant, "orders")
    assert isinstance(await dispatch_pools.archive(pool, tenant, "slow"), PoolRow)
    assert await subscriptions.resume(pool, tenant, "orders") is Refusal.POOL_ARCHIVED
    wish = subscription(tenant, "second", pool_no=slow.pool_no)
    assert await subscriptions.create(pool, wish, b"s") is Refusal.POOL_ARCHIVED
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
        subscriptions.create(pool, wish, b"s"), dispatch_pools.archive(pool, tenant, "slow")
    )
    assert isinstance(created, Subscription) != isinstance(archived, PoolRow)


async def test_subscriptions_are_listed_by_code_and_filtered(
    pool: Pool, tenant: int, other: int
) -> None:
    slow = await slow_pool(pool, tenant)
    await made(pool, tenant, "c-3", bindings=(Binding("*"),))
    await made(pool, tenant, "a-1", source=SubscriptionSource.UI)
    await made(pool, tenant, "b-2", pool_no=slow.pool_no, bindings=(Binding(SHIPPED),))
    await made(pool, other, "theirs")
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
    assert await listed(patterns=candidates(SHIPPED)) == ["b-2", "c-3"]


# What deliveries need


async def test_deliveries_are_signed_with_all_live_secrets_newest_first(
    pool: Pool, tenant: int, other: int
) -> None:
    await made(pool, tenant, headers={"X-A": "b"}, auth={"type": "bearer", "token": "t"})
    key, gone = SubscriptionKey(tenant, "sub_orders"), SubscriptionKey(other, "sub_orders")
    found = await subscriptions.profiles(pool, [key, gone])
    assert found == {
        key: Profile(
            version=1,
            target="http://127.0.0.1:9/hook",
            secrets=(b"secret",),
            headers={"X-A": "b"},
            auth={"type": "bearer", "token": "t"},
        )
    }
    await webhook_secrets.rotate(pool, tenant, "sub_orders", b"second", 60)
    assert (await subscriptions.profiles(pool, [key]))[key].secrets == (b"second", b"secret")
    await webhook_secrets.rotate(pool, tenant, "sub_orders", b"third", 0)
    profile = (await subscriptions.profiles(pool, [key]))[key]
    assert (profile.secrets, profile.version) == ((b"third",), 3)
    assert await subscriptions.drop(pool, tenant, "orders") == "orders"
    assert await subscriptions.profiles(pool, [key]) == {}
    assert await pool.fetchval("select count(*) from webhook_secrets") == 0


async def test_a_secret_that_is_replaced_often_does_not_pile_up(pool: Pool, tenant: int) -> None:
    await made(pool, tenant)
    for number in range(8):
        live = await webhook_secrets.rotate(pool, tenant, "sub_orders", b"%d" % number, 3600)
    assert live is not None
    assert [one.secret for one in live] == [b"7", b"6", b"5", b"4", b"3"]
    assert live[0].expires_at is None
    ends = [one.expires_at for one in live[1:]]
    assert all(end is not None and end > live[0].created_at + 3000 for end in ends)
    # One that ends sooner is not given more time.
    shorter = await webhook_secrets.rotate(pool, tenant, "sub_orders", b"8", 60)
    longer = await webhook_secrets.rotate(pool, tenant, "sub_orders", b"9", 7200)
    assert shorter is not None
    assert longer is not None
    assert longer[2].expires_at == shorter[1].expires_at
    assert "secret=" not in repr(longer)


async def test_a_tenants_own_secret_is_made_when_it_is_first_needed(
    pool: Pool, tenant: int, other: int
) -> None:
    keys = [SubscriptionKey(tenant, ""), SubscriptionKey(other, "")]
    several = await asyncio.gather(*(subscriptions.profiles(pool, keys) for _ in range(4)))
    assert all(found == several[0] for found in several)
    ours, theirs = several[0][keys[0]], several[0][keys[1]]
    assert len(ours.secrets) == 1
    assert len(ours.secrets[0]) == webhook_secrets.SIZE
    assert ours.secrets != theirs.secrets
    assert (ours.version, ours.headers, ours.auth) == (0, {}, None)
    await webhook_secrets.rotate(pool, tenant, "", b"next", 60)
    found = await subscriptions.profiles(pool, keys)
    assert found[keys[0]].secrets == (b"next", *ours.secrets)
    assert found[keys[1]] == theirs


async def test_failing_counts_from_the_first_failure_until_a_success(
    pool: Pool, tenant: int, other: int
) -> None:
    await made(pool, tenant)
    key, gone = SubscriptionKey(tenant, "sub_orders"), SubscriptionKey(other, "sub_orders")
    assert await subscriptions.mark_failing(pool, [key, gone]) == {key: 0.0}
    await pool.execute("update subscriptions set failing_since = now() - interval '1 hour'")
    failing = await subscriptions.mark_failing(pool, [key])
    assert 3600 <= failing[key] < 3660
    await subscriptions.mark_well(pool, [key])
    assert not await subscriptions.disable(pool, *key, "it failed")  # it took one a moment ago
    assert await subscriptions.mark_failing(pool, [key]) == {key: 0.0}
    assert await subscriptions.disable(pool, *key, "it failed for 5 days")
    assert not await subscriptions.disable(pool, *key, "it failed for 5 days")
    found = await subscriptions.read(pool, tenant, "orders")
    assert found is not None
    assert (found.status, found.status_reason) == (
        SubscriptionStatus.PAUSED,
        "it failed for 5 days",
    )
    assert (found.version, found.failing_since is not None) == (2, True)
    resumed = await subscriptions.resume(pool, tenant, "orders")
    assert isinstance(resumed, Subscription)
    assert (resumed.status, resumed.status_reason, resumed.failing_since) == (
        SubscriptionStatus.ACTIVE,
        None,
        None,
    )


# Declared as a whole


async def sync(
    pool: Pool, tenant: int, *wanted: Subscription, remove: bool = False, rehearse: bool = False
) -> Synced | NotSynced:
    wish = Declaration(application="shop", remove=remove, is_rehearsal=rehearse)
    return await declarations.sync_subscriptions(pool, tenant, wish, wanted)


async def test_an_application_declares_its_subscriptions(pool: Pool, tenant: int) -> None:
    several = (Binding(SHIPPED), Binding(CREATED))
    one, two = subscription(tenant, "one"), subscription(tenant, "two", bindings=several)
    rehearsed = await sync(pool, tenant, one, two, rehearse=True)
    assert rehearsed == Synced(created=["one", "two"])
    assert await subscriptions.read(pool, tenant, "one") is None
    assert await sync(pool, tenant, one, two) == rehearsed
    await subscriptions.pause(pool, tenant, "one")
    other_target = replace(two, subscription_id="sub_new", target="https://example.org/b")
    done = await sync(pool, tenant, one, other_target)
    assert done == Synced(updated=["two"], unchanged=["one"])
    found = await subscriptions.read(pool, tenant, "two")
    assert found is not None
    assert (found.subscription_id, found.target) == ("sub_two", "https://example.org/b")
    paused = await subscriptions.read(pool, tenant, "one")
    assert paused is not None
    assert paused.status is SubscriptionStatus.PAUSED
    await made(pool, tenant, "by-hand")
    done = await sync(pool, tenant, one, remove=True)
    assert done == Synced(unchanged=["one"], removed=["two"])
    assert await subscriptions.read(pool, tenant, "by-hand") is not None


async def test_a_declaration_that_cannot_be_met_changes_nothing(pool: Pool, tenant: int) -> None:
    slow = await slow_pool(pool, tenant)
    await made(pool, tenant, "by-hand")
    one = subscription(tenant, "one", pool_no=slow.pool_no)
    refused = await sync(pool, tenant, one, subscription(tenant, "by-hand"))
    assert refused == NotSynced("by-hand", Refusal.CODE_EXISTS)
    assert await subscriptions.read(pool, tenant, "one") is None
    await dispatch_pools.archive(pool, tenant, "slow")
    assert await sync(pool, tenant, one) == NotSynced("one", Refusal.POOL_ARCHIVED)
    fine = replace(one, pool_no=1)
    await sync(pool, tenant, fine)
    assert await sync(pool, tenant, one) == NotSynced("one", Refusal.POOL_ARCHIVED)


# Told to others


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
        await made(pool, tenant)
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
        for change in (dispatch_pools.suspend, dispatch_pools.archive):
            await change(pool, tenant, "slow")
            assert await told() == "pools"
        await dispatch_pools.archive(pool, tenant, "slow")  # refused
        await subscriptions.pause(pool, tenant, "nobody")
        await dispatch_pools.activate(pool, tenant, "slow", 20)
        assert await told() == "pools"
        assert heard.empty()
    finally:
        await listening.close()


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
    from storage.queries import Q

    conn = await asyncpg.connect(crowded)
    try:
        await conn.execute("set enable_seqscan = off; set enable_bitmapscan = off")
        plan = await conn.fetch(f"explain {Q[query]}", *arguments)
    finally:
        await conn.close()
    assert index in "\n".join(row[0] for row in plan)
