"""What deliveries need of a subscription: its secrets, its headers, and since when it fails."""

import asyncio

from core.dispatch.claim import DeliveryProfile
from core.dispatch.subscription import Subscription, SubscriptionStatus
from storage.dispatch import subscriptions, webhook_secrets
from storage.dispatch.subscriptions import SubscriptionKey
from storage.postgres.pool import Pool
from tests.support.subscriptions import stored_subscription


async def test_deliveries_are_signed_with_all_live_secrets_newest_first(
    pool: Pool, tenant: int, other: int
) -> None:
    await stored_subscription(
        pool, tenant, headers={"X-A": "b"}, auth={"type": "bearer", "token": "t"}
    )
    key, gone = SubscriptionKey(tenant, "sub_orders"), SubscriptionKey(other, "sub_orders")
    found = await subscriptions.profiles(pool, [key, gone])
    assert found == {
        key: DeliveryProfile(
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
    await stored_subscription(pool, tenant)
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
    assert len(ours.secrets[0]) == webhook_secrets.SECRET_BYTES
    assert ours.secrets != theirs.secrets
    assert (ours.version, ours.headers, ours.auth) == (0, {}, None)
    await webhook_secrets.rotate(pool, tenant, "", b"next", 60)
    found = await subscriptions.profiles(pool, keys)
    assert found[keys[0]].secrets == (b"next", *ours.secrets)
    assert found[keys[1]] == theirs


async def test_failing_counts_from_the_first_failure_until_a_success(
    pool: Pool, tenant: int, other: int
) -> None:
    await stored_subscription(pool, tenant)
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
