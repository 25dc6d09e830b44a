"""Events as Postgres keeps them: once, with their jobs, and found again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from core.dispatch.job import JobKey, Mode
from core.events.event import Event
from core.shared.tsid import first_at
from storage.access import keys
from storage.events import events
from storage.events.event_store import EventStore
from storage.events.events import EventFilter, EventKey
from storage.postgres import bounded_scan
from storage.postgres.error_class import SERVER_ERRORS
from storage.postgres.pool import Connection, Pool, PoolOptions, open_connection, open_pool
from tests.support.happenings import NOW, event, jobs, new_id, subscription

WHOLE: dict[str, Any] = {
    "type": "shop:orders:order:created",
    "subject": "order:1 é",
    "time": 1_749_000_000.123456,
    "data": b'{"b" : 1.10,\x00 "a": 2 }',
    "content_type": "application/json",
    "data_schema": "urn:x",
    "type_version": "1.0",
    "execution_id": "run",
    "correlation_id": "order",
    "causation_id": "cause",
    "deduplication_id": "once",
    "message_group": "group",
    "context": (("region", "us=west"), ("a", "1")),
    "extensions": {"traceparent": "00-1", "sampled": True, "weight": 5},
}


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test", plan_each_time=True))
    yield opened
    await opened.close()


@pytest.fixture
async def conn(database: str) -> AsyncIterator[Connection]:
    connection = await open_connection(PoolOptions(dsn=database, name="test"))
    yield connection
    await connection.close()


async def stored_jobs(conn: Connection) -> list[str]:
    rows = await conn.fetch("select job_id from dispatch_jobs order by position")
    return [row["job_id"] for row in rows]


# Storing


async def test_an_event_comes_back_as_it_was(pool: Pool, conn: Connection) -> None:
    least, whole = event(), event(**WHOLE)
    flushed = await events.flush(conn, [least, whole], [])
    assert flushed.stored == {EventKey(1, least.event_id), EventKey(1, whole.event_id)}
    assert await events.read(pool, 1, least.event_id) == least
    assert await events.read(pool, 1, whole.event_id) == whole
    assert await events.read(pool, 2, whole.event_id) is None


async def test_a_job_is_made_for_each_who_wants_the_event(conn: Connection) -> None:
    one = event(message_group="g", subject="order:1", correlation_id="c")
    plain = subscription(max_age_seconds=0)
    anchor = subscription(
        0,
        mode=Mode.BLOCK_ON_ERROR,
        delay_seconds=60,
        max_age_seconds=100,
        max_retries=5,
        timeout_seconds=7,
        sequence=3,
        data_only=False,
    )
    made = jobs([one], plain, anchor)
    flushed = await events.flush(conn, [one], made)
    first, second = (JobKey(job.tenant_id, job.job_id) for job in made)
    assert flushed.jobs[first].due == 0.0
    assert flushed.jobs[first].position < flushed.jobs[second].position
    rows = await conn.fetch("select * from dispatch_jobs order by position")
    assert [(row["tenant_id"], row["job_id"]) for row in rows] == [first, second]
    assert [row["message_group"] for row in rows] == [f"{plain.code}:g", f"{anchor.code}@1:g"]
    for row, by in zip(rows, (plain, anchor), strict=True):
        assert (row["kind"], row["status"], row["standing"]) == ("EVENT", "QUEUED", "open")
        assert (row["code"], row["source"], row["subject"]) == (one.type, "shop", "order:1")
        assert (row["event_tenant"], row["event_id"]) == (1, one.event_id)
        assert (row["subscription_id"], row["target_url"]) == (by.subscription_id, by.target)
        assert row["correlation_id"] == "c"
        assert (row["mode"], row["sequence"], row["max_retries"]) == (
            by.mode,
            by.sequence,
            by.max_retries,
        )
        assert (row["timeout_seconds"], row["data_only"]) == (by.timeout_seconds, by.data_only)
        assert row["idempotency_key"] == f"{one.event_id}:{by.subscription_id}"
    assert rows[0]["scheduled_for"] is rows[0]["expires_at"] is None
    later, end = (rows[1][name] - rows[1]["created_at"] for name in ("scheduled_for", "expires_at"))
    assert (later.total_seconds(), end.total_seconds()) == (60.0, 100.0)
    assert flushed.jobs[second].due == rows[1]["scheduled_for"].timestamp()


async def test_jobs_keep_the_order_in_which_they_are_given(conn: Connection) -> None:
    # Against the order of what they are known by, and of their ids.
    given = [event(deduplication_id=f"{n:02}", event_id=new_id()) for n in reversed(range(50))]
    made = jobs(given, subscription(), subscription())
    made.sort(key=lambda job: job.job_id, reverse=True)
    flushed = await events.flush(conn, given, made)
    assert await stored_jobs(conn) == [job.job_id for job in made]
    positions = [flushed.jobs[JobKey(job.tenant_id, job.job_id)].position for job in made]
    assert positions == sorted(positions)


# Once


async def test_what_its_sender_knows_by_the_same_id_is_stored_once(conn: Connection) -> None:
    by = subscription()
    first, again = event(deduplication_id="d"), event(deduplication_id="d", subject="other")
    other = event(2, deduplication_id="d")
    await events.flush(conn, [first], jobs([first], by))
    flushed = await events.flush(conn, [again, other], jobs([again, other], by))
    assert flushed.stored == {EventKey(2, other.event_id)}
    assert len(flushed.jobs) == 1
    assert len(await stored_jobs(conn)) == 2
    assert await events.known(conn, [again]) == {EventKey(1, again.event_id): first}


async def test_of_two_in_one_flush_the_first_counts(conn: Connection) -> None:
    by = subscription()
    pair = [event(deduplication_id="d", subject=name) for name in ("first", "second")]
    rest = [event(), event(deduplication_id="a")]
    made = jobs([*pair, *rest], by)
    flushed = await events.flush(conn, [*pair, *rest], made)
    assert flushed.stored == {EventKey(1, one.event_id) for one in (pair[0], *rest)}
    assert await stored_jobs(conn) == [made[0].job_id, made[2].job_id, made[3].job_id]
    known = await events.known(conn, pair)
    assert [known[EventKey(1, one.event_id)].subject for one in pair] == ["first", "first"]


async def test_events_without_such_an_id_are_all_different(conn: Connection) -> None:
    flushed = await events.flush(conn, [event(), event()], [])
    assert len(flushed.stored) == 2


async def test_a_flush_that_is_repeated_changes_nothing_and_finds_its_own(
    conn: Connection,
) -> None:
    given = [event(), event(deduplication_id="d")]
    made = jobs(given, subscription(delay_seconds=5))
    before = await events.flush(conn, given, made)
    again = await events.flush(conn, given, made)
    assert (again.stored, again.jobs) == (set(), {})
    known = await events.known(conn, given)
    assert known == {EventKey(1, one.event_id): one for one in given}
    keys = [JobKey(job.tenant_id, job.job_id) for job in made]
    assert await events.known_jobs(conn, [*keys, JobKey(1, "nobody")]) == before.jobs
    assert len(await stored_jobs(conn)) == 2


async def test_nothing_is_known_of_an_event_that_is_new(conn: Connection) -> None:
    assert await events.known(conn, [event(), event(deduplication_id="x")]) == {}


async def test_one_of_two_who_store_the_same_at_once_wins(database: str, conn: Connection) -> None:
    """The loser waits until the winner has committed, and makes no jobs."""
    other = await open_connection(PoolOptions(dsn=database, name="other"))
    by = subscription()
    one, two = event(deduplication_id="d"), event(deduplication_id="d")
    try:
        transaction = conn.transaction()
        await transaction.start()
        assert (await events.flush(conn, [one], jobs([one], by))).stored
        loser = asyncio.create_task(events.flush(other, [two], jobs([two], by)))
        await _until_waiting(conn)
        assert not loser.done()
        await transaction.commit()
        assert (await loser) == events.FlushResult()
        assert await events.known(other, [two]) == {EventKey(1, two.event_id): one}
        assert len(await stored_jobs(conn)) == 1
    finally:
        await other.close()


async def test_the_second_is_stored_if_the_first_gives_up(database: str, conn: Connection) -> None:
    other = await open_connection(PoolOptions(dsn=database, name="other"))
    one, two = event(deduplication_id="d"), event(deduplication_id="d")
    try:
        transaction = conn.transaction()
        await transaction.start()
        await events.flush(conn, [one], [])
        second = asyncio.create_task(events.flush(other, [two], jobs([two], subscription())))
        await _until_waiting(conn)
        await transaction.rollback()
        flushed = await second
        assert flushed.stored == {EventKey(1, two.event_id)}
        assert len(flushed.jobs) == 1
    finally:
        await other.close()


async def test_many_who_store_the_same_make_one_of_each(database: str) -> None:
    """In orders that would let them wait for each other for ever."""
    by = subscription()
    conns = [await open_connection(PoolOptions(dsn=database, name="test")) for _ in range(4)]
    try:
        for round_ in range(10):
            ids = [f"{round_}/{n}" for n in range(40)]
            batches = [
                [event(deduplication_id=id_) for id_ in (reversed(ids) if n % 2 else ids)]
                for n in range(len(conns))
            ]
            flushes = await asyncio.gather(
                *(
                    events.flush(conn, batch, jobs(batch, by))
                    for conn, batch in zip(conns, batches, strict=True)
                )
            )
            assert sum(len(flushed.stored) for flushed in flushes) == len(ids)
            assert sum(len(flushed.jobs) for flushed in flushes) == len(ids)
        assert len(await stored_jobs(conns[0])) == 400
    finally:
        for conn in conns:
            await conn.close()


async def _until_waiting(conn: Connection) -> None:
    """Until somebody waits for this transaction."""
    async with asyncio.timeout(10):
        # Postgres tells nobody.
        while not await conn.fetchval(  # noqa: ASYNC110
            "select count(*) from pg_locks where not granted"
        ):
            await asyncio.sleep(0.01)


async def test_a_store_connects_again_after_its_connection_was_lost(
    database: str, conn: Connection
) -> None:
    store = EventStore(PoolOptions(dsn=database, name="victim"))
    one, two = event(deduplication_id="d"), event(deduplication_id="d")
    made = jobs([one], subscription())
    await store.flush([one], made)
    await conn.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'muster victim'"
    )
    with contextlib.suppress(*SERVER_ERRORS):  # or it has noticed by itself
        await store.flush([two], [])
    assert (await store.flush([two], [])).stored == set()
    assert await store.known([two]) == {EventKey(1, two.event_id): one}
    assert len(await store.known_jobs([JobKey(1, made[0].job_id)])) == 1
    store.close()


# Finding


@pytest.fixture
async def shelf(pool: Pool, conn: Connection) -> list[Event]:
    """Five events, oldest first, and one of somebody else."""
    given = [
        event(type="order.created", source="a", subject="order:1", time=NOW),
        event(type="order.paid", source="b", correlation_id="c", time=NOW + 10),
        event(type="shop:orders:order:created", context=(("a", "1"), ("b", "2")), time=NOW + 20),
        event(type="shop:stock:order:created", context=(("a", "1"),), data=b"12345", time=NOW + 30),
        event(type="shop:stock:item:moved", message_group="g", time=NOW + 40),
    ]
    stranger = event(2, type="order.created", source="a")
    await events.flush(conn, [*given, stranger], [])
    return given


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, [4, 3, 2, 1, 0]),
        ({"type": "order.created"}, [0]),
        ({"type": "order.*"}, [1, 0]),
        ({"type": "*"}, [4, 3, 2, 1, 0]),
        ({"type": "shop:*:order:*"}, [3, 2]),
        ({"type": "shop:*"}, []),
        ({"source": "a"}, [0]),
        ({"subject": "order:1"}, [0]),
        ({"correlation_id": "c"}, [1]),
        ({"message_group": "g"}, [4]),
        ({"context": (("a", "1"),)}, [3, 2]),
        ({"context": (("b", "2"), ("a", "1"))}, [2]),
        ({"context": (("a", "2"),)}, []),
        ({"since": NOW + 20}, [4, 3, 2]),
        ({"until": NOW + 20}, [1, 0]),
        ({"since": NOW + 5, "until": NOW + 35, "type": "*:*:*:created"}, [3, 2]),
        ({"since": NOW + 90_000}, []),
    ],
    ids=str,
)
async def test_events_are_found_by_what_is_known_of_them(
    pool: Pool, shelf: list[Event], chosen: dict[str, Any], expected: list[int]
) -> None:
    found = await events.page(pool, 1, EventFilter(**chosen), None, 10)
    assert [
        shelf.index(replace(one.event, data=shelf[at].data))
        for one, at in zip(found.items, expected, strict=True)
    ] == expected


async def test_a_listing_goes_page_by_page_and_tells_sizes(pool: Pool, shelf: list[Event]) -> None:
    seen: list[events.ListedEvent] = []
    while page := (
        await events.page(pool, 1, EventFilter(), seen[-1].event.event_id if seen else None, 2)
    ).items:
        assert len(page) <= 2
        seen += page
    assert [one.event.event_id for one in seen] == [one.event_id for one in reversed(shelf)]
    assert [one.size for one in seen] == [None, 5, None, None, None]
    assert all(one.event.data is None for one in seen)


async def test_a_look_reads_so_many_and_tells_where_it_ended(
    pool: Pool, shelf: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_scan, "SCAN_LIMIT", 2)

    async def look(before: str | None, **chosen: Any) -> tuple[list[str], str | None]:
        found = await events.page(pool, 1, EventFilter(**chosen), before, 10)
        return [one.event.event_id for one in found.items], found.scanned_to

    ids = [one.event_id for one in shelf]
    assert await look(None, source="a") == ([], ids[3])
    assert await look(ids[3], source="a") == ([], ids[1])
    assert await look(ids[1], source="a") == ([ids[0]], None)
    assert await look(None, context=(("a", "1"),)) == ([ids[3], ids[2]], None)
    assert await look(None) == (ids[::-1], None)


# Forgetting


async def test_old_events_go_once_no_job_needs_them(pool: Pool, conn: Connection) -> None:
    tenants = [await keys.create_tenant(pool, name) for name in ("one", "two")]
    at = NOW - 100
    old = [event(t, event_id=first_at(at + n / 10)) for n in range(3) for t in tenants]
    busy = event(tenants[0], event_id=first_at(at + 1))
    young = event(tenants[0], event_id=first_at(NOW))
    # An anchor's job needs a tenant's event; a job of another event with the same id does not.
    twin = event(tenants[1], event_id=busy.event_id)
    await events.flush(conn, [*old, busy, young, twin], jobs([busy], subscription(0)))
    assert await events.forget(pool, NOW - 50, 4) == 4
    assert await events.forget(pool, NOW - 50, 4) == 3
    assert await events.forget(pool, NOW - 50, 4) == 0
    assert await events.read(pool, tenants[0], busy.event_id) == busy
    assert await events.read(pool, tenants[0], young.event_id) == young
    await conn.execute("delete from dispatch_jobs")
    assert await events.forget(pool, NOW - 50, 4) == 1
