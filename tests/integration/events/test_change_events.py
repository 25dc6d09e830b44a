"""Record changes become events, in order and once, whatever happens in between."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest

from core.dispatch.job import JobRef
from core.dispatch.subscription import Binding
from core.events.event import Event
from core.records.validation import MASK
from core.shared.errors import InvalidError, OverloadedError
from core.shared.tsid import IdMaker
from handlers.filters.cel import passes_filter
from services.events import change_events
from services.events.change_events import ChangeEventRelay
from services.events.subscription_cache import SubscriptionCache
from services.events.writer import EventWriter
from storage.access import keys
from storage.dispatch import subscriptions
from storage.events import events
from storage.events.event_store import EventStore
from storage.postgres.pool import Connection, Pool, PoolOptions, open_connection, open_pool
from storage.records import change_outbox
from tests.integration.kafka.test_kafka_ingest import until
from tests.support.record_changes import RecordWriter
from tests.support.records import NOW
from tests.support.subscriptions import stored_subscription

FOLLOWED = Binding("muster:records:orders:*")


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test", max_size=4))
    yield opened
    await opened.close()


@pytest.fixture
async def conn(database: str) -> AsyncIterator[Connection]:
    opened = await open_connection(PoolOptions(dsn=database, name="relay"))
    yield opened
    await opened.close()


@pytest.fixture
async def tenant(pool: Pool) -> int:
    return await keys.create_tenant(pool, "own")


@asynccontextmanager
async def relaying(
    dsn: str, pool: Pool, maker: int = 1
) -> AsyncIterator[tuple[ChangeEventRelay, list[JobRef]]]:
    """A relay with all its parts, and the jobs that its pools were told of."""
    told: list[JobRef] = []

    async def notify(jobs: Mapping[int, Sequence[JobRef]]) -> None:
        told.extend(one for refs in jobs.values() for one in refs)

    loop = asyncio.get_running_loop()
    cache = SubscriptionCache(partial(subscriptions.matching, pool), loop.time)
    store = EventStore(PoolOptions(dsn=dsn, name="events"))
    writer = EventWriter(store, cache, IdMaker(maker, lambda: NOW), notify, passes_filter)
    try:
        yield ChangeEventRelay(pool, writer.put), told
    finally:
        await writer.close()


async def stored_events(pool: Pool, tenant: int) -> list[Event]:
    rows = await pool.fetch("select event_id from events where tenant_id = $1 order by 1", tenant)
    found = [await events.read(pool, tenant, row["event_id"]) for row in rows]
    return [one for one in found if one is not None]


def document(event: Event) -> dict[str, Any]:
    assert event.data is not None
    read: dict[str, Any] = msgspec.json.decode(event.data)
    return read


async def test_each_change_is_an_event_with_a_job_for_who_follows_it(
    database: str, pool: Pool, conn: Connection, tenant: int
) -> None:
    await stored_subscription(pool, tenant, bindings=(FOLLOWED,))
    orders = await RecordWriter.of(pool, tenant)
    await orders.write("r1", status="open", card="4111")
    await orders.write("r1", status="paid")
    await orders.delete("r1")
    async with relaying(database, pool) as (relay, told):
        assert await relay.relay_some(conn) == 3
        assert await relay.relay_some(conn) == 0
    created, updated, deleted = await stored_events(pool, tenant)
    assert [one.type.rpartition(":")[2] for one in (created, updated, deleted)] == [
        "created",
        "updated",
        "deleted",
    ]
    assert (created.source, created.subject) == ("muster", "orders/r1")
    assert {one.message_group for one in (created, updated, deleted)} == {"orders/r1"}
    told_of = document(updated)
    assert told_of["eventId"] == updated.event_id
    assert (told_of["tenantId"], told_of["collectionName"]) == ("own", "orders")
    assert told_of["data"] == {"status": "paid", "card": MASK}
    assert told_of["previousData"] == {"status": "open", "card": MASK}
    assert b"4111" not in b"".join(one.data or b"" for one in (created, updated, deleted))
    assert len(told) == 3
    assert (await change_outbox.event_backlog(pool)).rows == 0
    assert relay.counters.stored == 3


async def test_a_filter_and_a_binding_choose_among_changes(
    database: str, pool: Pool, conn: Connection, tenant: int
) -> None:
    await stored_subscription(
        pool,
        tenant,
        bindings=(Binding("muster:records:orders:updated"),),
        filter='data.data.status == "paid"',
    )
    orders = await RecordWriter.of(pool, tenant)
    for status in ("paid", "open", "paid"):
        await orders.write("r1", status=status)
    async with relaying(database, pool) as (relay, told):
        await relay.relay_some(conn)
    assert len(told) == 1


async def test_a_crash_before_the_rows_are_removed_makes_no_second_delivery(
    database: str, pool: Pool, conn: Connection, tenant: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored_subscription(pool, tenant, bindings=(FOLLOWED,))
    orders = await RecordWriter.of(pool, tenant)
    for number in range(20):
        await orders.write(f"r{number}")

    async def die(*_: object) -> None:
        raise ConnectionResetError

    async with relaying(database, pool) as (relay, told):
        with monkeypatch.context() as broken:
            broken.setattr(change_outbox, "confirm_events", die)
            assert await relay.relay_some(conn) == 0
        assert len(told) == 20
        assert relay.counters.postponed == 1
    async with relaying(database, pool, maker=2) as (again, told_again):
        assert await again.relay_some(conn) == 20
        assert told_again == []
    assert await pool.fetchval("select count(*) from dispatch_jobs") == 20
    assert await pool.fetchval("select count(*) from events") == 20


async def test_a_change_that_is_gone_is_skipped(
    database: str, pool: Pool, conn: Connection, tenant: int
) -> None:
    orders = await RecordWriter.of(pool, tenant)
    await orders.write("r1")
    await pool.execute("delete from record_changes")
    await orders.write("r2")
    async with relaying(database, pool) as (relay, _):
        assert await relay.relay_some(conn) == 2
    assert (relay.counters.vanished, relay.counters.stored) == (1, 1)
    assert [one.subject for one in await stored_events(pool, tenant)] == ["orders/r2"]


async def test_a_backlog_of_one_tenant_holds_up_no_other(
    database: str, pool: Pool, conn: Connection, tenant: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_events, "ROWS", 5)
    monkeypatch.setattr(change_events, "TENANTS", 1)
    other = await keys.create_tenant(pool, "other")
    for whose, count in ((tenant, 12), (other, 1)):
        orders = await RecordWriter.of(pool, whose)
        for number in range(count):
            await orders.write(f"r{number}")
    async with relaying(database, pool) as (relay, _):
        assert [await relay.relay_some(conn) for _ in range(5)] == [5, 1, 5, 2, 0]
    assert [one.subject for one in await stored_events(pool, tenant)] == [
        f"orders/r{number}" for number in range(12)
    ]


class Refusing:
    """A writer that refuses some events, each alone or all together."""

    def __init__(self, *refused: str, overloaded: frozenset[str] = frozenset()) -> None:
        self.refused = refused
        self.overloaded = overloaded
        self.stored: list[str] = []

    async def put(self, given: list[Event]) -> None:
        subjects = [str(one.subject) for one in given]
        if any(one in self.overloaded for one in subjects):
            raise OverloadedError("too many events wait to be stored")
        if any(one in self.refused for one in subjects):
            raise InvalidError("event", "one that Postgres can store")
        self.stored += subjects


async def test_an_event_that_is_refused_for_good_leaves_the_others_alone(
    pool: Pool, conn: Connection, tenant: int
) -> None:
    orders = await RecordWriter.of(pool, tenant)
    for name in ("r1", "r2", "r3"):
        await orders.write(name)
    writer = Refusing("orders/r2")
    relay = ChangeEventRelay(pool, writer.put)
    assert await relay.relay_some(conn) == 3
    assert writer.stored == ["orders/r1", "orders/r3"]
    assert relay.counters.refused == 1
    assert (await change_outbox.event_backlog(pool)).rows == 0


async def test_what_cannot_be_stored_now_waits_in_order(
    pool: Pool, conn: Connection, tenant: int
) -> None:
    orders = await RecordWriter.of(pool, tenant)
    for name in ("r1", "r2", "r3"):
        await orders.write(name)
    writer = Refusing("orders/r1", overloaded=frozenset({"orders/r2"}))
    relay = ChangeEventRelay(pool, writer.put)
    assert await relay.relay_some(conn) == 0  # together they are refused as overloaded
    writer.overloaded = frozenset()
    writer.refused = ()
    assert relay.progress.stalled_seconds > 0
    assert await relay.relay_some(conn) == 3
    assert writer.stored == ["orders/r1", "orders/r2", "orders/r3"]
    assert relay.progress.stalled_seconds == 0


async def test_only_one_relay_makes_events(database: str, pool: Pool, tenant: int) -> None:
    options = PoolOptions(dsn=database, name="relay")
    orders = await RecordWriter.of(pool, tenant)
    writer = Refusing()
    first, second = (ChangeEventRelay(pool, writer.put) for _ in range(2))
    tasks = [asyncio.create_task(one.run_forever(options)) for one in (first, second)]
    try:
        for number in range(30):
            await orders.write(f"r{number}")

        async def is_empty() -> bool:
            return (await change_outbox.event_backlog(pool)).rows == 0

        await until("all changes are events", is_empty)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert writer.stored == [f"orders/r{number}" for number in range(30)]
    assert sorted((first.counters.stored, second.counters.stored)) == [0, 30]
