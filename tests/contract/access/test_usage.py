"""What tenants have stored, from counters of several processes, and the limits of their own."""

import asyncio
import time
from functools import partial

import pytest

from core.access.usage_counter import ROW_BYTES, UsageCounter, UsageCounts
from core.kafka.message import KafkaMessage
from core.shared.config import Config
from core.shared.errors import QuotaExceededError
from core.shared.quotas import Quota, QuotaLimits, StoredKind, days_kept
from core.waits.state import Decision, Wait
from core.waits.transitions import apply
from services.access.quota_monitor import QuotaWatch, usage_source
from services.access.usage_writer import UsageWriter
from storage.access import keys, usage
from storage.access.usage import UsageSums
from storage.kafka.dead_letters import count_dead_letters
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import Pool, PoolOptions
from storage.waits.flush import NO_VERSION, WaitChange
from storage.waits.shard_store import ShardStore
from tests.support.shards import address, api, register

NOW = 1_800_000_000.0
WAITS, INBOX = StoredKind.WAITS, StoredKind.INBOX
KEPT = days_kept(86_400.0, 7 * 86_400.0)


async def _today(pool: Pool, tenant: int) -> UsageSums | None:
    return (await usage.read_today(pool, [tenant])).stored_today.get(tenant)


async def _move_back(pool: Pool, days: int) -> None:
    """Let all that was counted have been so many days ago."""
    await pool.execute(f"update tenant_usage set day = day - {days}")


async def test_several_processes_add_to_one_number(pool: Pool, tenant: int, other: int) -> None:
    counters = [UsageCounter() for _ in range(4)]
    writers = [UsageWriter(one, partial(usage.add, pool)) for one in counters]
    for _ in range(5):
        for counter in counters:
            counter.add(tenant, WAITS, 1, 0)
            counter.add(other, INBOX, 2, 100)
        await asyncio.gather(*(writer.flush() for writer in writers))
    assert await _today(pool, tenant) == UsageSums(20, 20 * ROW_BYTES[WAITS])
    assert await _today(pool, other) == UsageSums(40, 2_000 + 40 * ROW_BYTES[INBOX])


async def test_what_could_not_be_added_is_added_later(pool: Pool, tenant: int) -> None:
    counter = UsageCounter()
    away = [True]

    async def add(counts: UsageCounts) -> None:
        if away:
            raise ConnectionError("away")
        await usage.add(pool, counts)

    writer = UsageWriter(counter, add)
    counter.add(tenant, WAITS, 3, 0)
    with pytest.raises(ConnectionError):
        await writer.flush()
    away.clear()
    counter.add(tenant, WAITS, 1, 0)
    await writer.flush()
    assert await _today(pool, tenant) == UsageSums(4, 4 * ROW_BYTES[WAITS])


async def test_a_process_that_starts_anew_goes_on_from_what_was_told(
    pool: Pool, tenant: int
) -> None:
    """The first is killed with something untold: that is lost, what it told is not."""
    killed = UsageCounter()
    killed.add(tenant, WAITS, 7, 0)
    await UsageWriter(killed, partial(usage.add, pool)).flush()
    killed.add(tenant, WAITS, 1, 0)
    again = UsageCounter()
    again.add(tenant, WAITS, 2, 0)
    await UsageWriter(again, partial(usage.add, pool)).flush()
    assert await _today(pool, tenant) == UsageSums(9, 9 * ROW_BYTES[WAITS])


async def test_a_new_day_begins_with_nothing_and_what_is_kept_stays(
    pool: Pool, tenant: int
) -> None:
    await usage.add(pool, {(tenant, WAITS): (10, 1_000), (tenant, INBOX): (5, 500)})
    await _move_back(pool, 1)
    assert await _today(pool, tenant) is None
    assert await usage.read_before_today(pool, [tenant], KEPT) == {tenant: UsageSums(15, 1_500)}
    await usage.add(pool, {(tenant, WAITS): (1, 1)})
    # The inbox keeps for a day: its rows of the day before yesterday are gone.
    await _move_back(pool, 1)
    assert await usage.read_before_today(pool, [tenant], KEPT) == {tenant: UsageSums(11, 1_001)}
    await _move_back(pool, 6)
    assert await usage.read_before_today(pool, [tenant], KEPT) == {tenant: UsageSums(1, 1)}
    await usage.forget(pool, 7)
    assert await pool.fetchval("select count(*) from tenant_usage") == 1


async def test_a_limit_of_its_own_goes_before_that_of_all(pool: Pool, tenant: int) -> None:
    assert await usage.set_quota(pool, "own", Quota.KEYS, 5)
    assert await usage.set_quota(pool, "own", Quota.STORED_BYTES, 0)
    assert await usage.own_quotas(pool, tenant) == {"keys": 5, "storedBytes": 0}
    assert (await usage.read_today(pool, [tenant])).own_quotas[tenant]["keys"] == 5
    assert await usage.clear_quota(pool, "own", Quota.KEYS)
    assert await usage.own_quotas(pool, tenant) == {"storedBytes": 0}
    assert not await usage.set_quota(pool, "nobody", Quota.KEYS, 5)
    assert not await usage.clear_quota(pool, "nobody", Quota.KEYS)


async def test_only_the_tenant_that_stored_too_much_is_refused(
    database: str, pool: Pool, tenant: int, other: int
) -> None:
    source = usage_source(pool, Config(dsn=database))
    watch = QuotaWatch(QuotaLimits(rows_per_day=10, stored_rows=15), source)
    watch.check(tenant)
    watch.check(other)
    await usage.add(pool, {(tenant, WAITS): (10, 0), (other, WAITS): (9, 0)})
    await watch.refresh()
    watch.check(other)
    with pytest.raises(QuotaExceededError, match="rowsPerDay, which is 10") as raised:
        watch.check(tenant)
    assert 1 <= (raised.value.retry_after or 0) <= 3_600
    assert watch.refused == {"rowsPerDay": 1}
    # An operator gives it more: it is let in again.
    await usage.set_quota(pool, "own", Quota.ROWS_PER_DAY, 20)
    await watch.refresh()
    watch.check(tenant)
    # The next day it may store again, until too much is kept.
    await usage.clear_quota(pool, "own", Quota.ROWS_PER_DAY)
    await _move_back(pool, 1)
    tomorrow = QuotaWatch(QuotaLimits(rows_per_day=10, stored_rows=15), source)
    tomorrow.watch(tenant)
    await tomorrow.refresh()
    tomorrow.check(tenant)
    await usage.add(pool, {(tenant, WAITS): (5, 0)})
    await tomorrow.refresh()
    with pytest.raises(QuotaExceededError, match="storedRows, which is 15"):
        tomorrow.check(tenant)


async def test_how_many_there_are_is_counted_no_further_than_needed(
    pool: Pool, tenant: int, other: int
) -> None:
    for at in range(3):
        key = keys.NewKey(tenant=tenant, name="k", prefix=f"p{at}", secret="s", permissions=())
        await keys.create_key(pool, key)
    assert await usage.count(pool, tenant, Quota.KEYS, 10) == 3
    assert await usage.count(pool, tenant, Quota.KEYS, 2) == 2
    assert await usage.count(pool, other, Quota.KEYS, 10) == 0
    # One that is revoked counts for a day: else making and revoking would have no bound.
    await keys.revoke_key(pool, tenant, "p0")
    assert await usage.count(pool, tenant, Quota.KEYS, 10) == 3
    await pool.execute("update api_keys set revoked_at = now() - interval '2 days'")
    assert await usage.count(pool, tenant, Quota.KEYS, 10) == 0


@pytest.mark.parametrize(
    "quota",
    [Quota.RESOURCES, Quota.EVENT_TYPES, Quota.SCHEMAS, Quota.SUBSCRIPTIONS, Quota.TOPICS],
)
async def test_whoever_has_none_has_none(pool: Pool, tenant: int, quota: Quota) -> None:
    assert await usage.count(pool, tenant, quota, 10) == 0
    if quota is not Quota.SCHEMAS:
        assert await usage.count_known(pool, tenant, quota, ["a", "b"]) == 0


def _change(before: Wait | None, decision: Decision, key: bytes) -> WaitChange:
    return WaitChange(
        key,
        1,
        NO_VERSION if before is None else before.version,
        decision.wait if decision.wait is not before else None,
        list(decision.entries),
        list(decision.parked),
        list(decision.taken_from_inbox),
    )


async def test_a_shard_counts_what_it_stores(database: str) -> None:
    counter = UsageCounter()
    clock = DatabaseClock(time.monotonic, time.time)
    store = ShardStore(PoolOptions(dsn=database, name="test"), "a", 60.0, clock, counter)
    message = register(address())
    key = message.address.key
    opened = apply(None, message, NOW)
    await store.flush([_change(None, opened, key)])
    assert counter.take(10)[1, WAITS] == (1, ROW_BYTES[WAITS])
    assert opened.wait is not None
    came = apply(opened.wait, api(message.address, b"x" * 1_000), NOW)
    await store.flush([_change(opened.wait, came, key)])
    lines, size = counter.take(10)[1, StoredKind.WAIT_EVENTS]
    assert lines >= 1
    assert size >= 1_000
    # Another owner has moved the row on: nothing was stored, nothing is counted.
    await store.flush([_change(opened.wait, came, key)])
    assert counter.take(10) == {}
    early = apply(None, api(address(), b"y" * 50), NOW)
    await store.flush([_change(None, early, b"k" * 16)])
    assert counter.take(10) == {(1, INBOX): (1, 50 + ROW_BYTES[INBOX])}
    await store.close()


def test_dead_letters_weigh_what_they_bring() -> None:
    counter = UsageCounter()
    record = KafkaMessage(topic="t", partition=0, offset=1, value=b"123", key=b"45", headers=())
    count_dead_letters(counter, 3, [(record, "bad"), (record, "bad")])
    letters = StoredKind.DEAD_LETTERS
    assert counter.take(1) == {(3, letters): (2, 10 + 2 * ROW_BYTES[letters])}
