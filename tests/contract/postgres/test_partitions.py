"""Partitions of `record_changes` on a real server, beside writers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest

from actors.maintenance.partitions import PartitionKeeper
from core.operations.partitions import WEEK, WEEKS_AHEAD, week_of
from core.shared.tsid import first_at
from storage.postgres import partitions
from storage.postgres.partitions import PartitionedTable
from storage.postgres.pool import Pool
from storage.records.changes import RECORD_CHANGES

NOW = 1_800_000_000.0
RETENTION = 10 * WEEK
INSERT = """
    insert into record_changes (tenant_id, collection_no, record_id, change_id, version, kind, data,
                                turn_id, at)
    values (1, 1, 'r', $1, 1, 'CREATED', '{}', 't', now())
"""
WHERE = "select tableoid::regclass::text from record_changes where change_id = $1"


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keeper(pool: Pool, clock: Clock) -> PartitionKeeper:
    return PartitionKeeper(pool, {RECORD_CHANGES: RETENTION}, clock)


async def write(pool: Pool, at: float) -> str:
    """Store a change that was made at this time; return its id."""
    change_id = first_at(at)
    await pool.execute(INSERT, change_id)
    return change_id


async def names(pool: Pool) -> list[str]:
    return [one.name for one in await partitions.list_partitions(pool, RECORD_CHANGES)]


def expected(*weeks: int) -> list[str]:
    return [week_of("record_changes", NOW + week * WEEK).name for week in weeks]


async def test_partitions_are_made_ahead_once(pool: Pool, keeper: PartitionKeeper) -> None:
    await keeper.keep()
    await keeper.keep()
    assert await names(pool) == expected(*range(WEEKS_AHEAD + 1))
    assert keeper.counters.created == keeper.counters.existing == WEEKS_AHEAD + 1
    found = await partitions.list_partitions(pool, RECORD_CHANGES)
    assert found == [week_of("record_changes", NOW + week * WEEK) for week in range(5)]


async def test_each_row_goes_to_its_week(pool: Pool, keeper: PartitionKeeper) -> None:
    await keeper.keep()
    for week in range(WEEKS_AHEAD + 1):
        change = await write(pool, NOW + week * WEEK)
        assert await pool.fetchval(WHERE, change) == expected(week)[0]
    with pytest.raises(asyncpg.UniqueViolationError):
        await pool.execute(INSERT, first_at(NOW))


async def test_rows_from_before_the_first_round_stay_readable(
    pool: Pool, keeper: PartitionKeeper
) -> None:
    early = await write(pool, NOW - 1)
    await keeper.keep()
    soon = await write(pool, NOW + 1)
    later = await write(pool, NOW + 3_600)
    assert await pool.fetchval(WHERE, early) == "record_changes_default"
    assert await pool.fetchval(WHERE, soon) == "record_changes_default"
    assert await pool.fetchval(WHERE, later) == expected(0)[0]
    await keeper.keep()
    assert keeper.counters.failed == 0


async def test_what_is_past_its_time_is_dropped_by_whole_weeks(
    pool: Pool, keeper: PartitionKeeper, clock: Clock
) -> None:
    await keeper.keep()
    old, kept = await write(pool, NOW), await write(pool, NOW + WEEK)
    clock.now = NOW + RETENTION + WEEK
    await keeper.keep()
    assert await pool.fetchval(WHERE, old) is None
    assert await pool.fetchval(WHERE, kept) == expected(1)[0]
    assert await names(pool) == expected(1, 2, 3, 4, 11, 12, 13, 14, 15)
    assert keeper.counters.dropped == 1


async def test_a_row_that_arrives_for_a_dropped_week_is_stored(
    pool: Pool, keeper: PartitionKeeper, clock: Clock
) -> None:
    await keeper.keep()
    clock.now = NOW + RETENTION + WEEK
    await keeper.keep()
    assert expected(0)[0] not in await names(pool)
    late = await write(pool, NOW)
    assert await pool.fetchval(WHERE, late) == "record_changes_default"
    clock.now += WEEK
    await keeper.keep()  # past its time there as well
    assert await pool.fetchval(WHERE, late) is None
    assert keeper.counters.failed == 0


@pytest.mark.parametrize("outbox", ["change_outbox", "event_outbox"])
async def test_a_week_of_which_others_are_still_to_be_told_stays(
    pool: Pool, keeper: PartitionKeeper, clock: Clock, outbox: str
) -> None:
    await keeper.keep()
    unsent = await write(pool, NOW)
    columns = "tenant_id, collection_no, record_id, change_id"
    topic = {"change_outbox": ("topic", "'t'"), "event_outbox": ("created_at", "now()")}[outbox]
    await pool.execute(
        f"insert into {outbox} ({columns}, {topic[0]}) values (1, 1, 'r', $1, {topic[1]})", unsent
    )
    clock.now = NOW + 2 * RETENTION
    await keeper.keep()
    assert await pool.fetchval(WHERE, unsent) == expected(0)[0]
    await pool.execute(f"delete from {outbox}")
    await keeper.keep()
    assert await pool.fetchval(WHERE, unsent) is None


async def test_old_rows_leave_the_default_partition_in_batches(
    pool: Pool, keeper: PartitionKeeper, clock: Clock
) -> None:
    for second in range(1_200):
        await write(pool, NOW + second)
    clock.now = NOW + RETENTION + 1_100
    await keeper.keep()
    assert await pool.fetchval("select count(*) from record_changes") == 100


@asynccontextmanager
async def reader(dsn: str, statement: str) -> AsyncIterator[None]:
    """Hold the locks of a statement, as a backup does for hours."""
    conn = await asyncpg.connect(dsn)
    try:
        async with conn.transaction():
            await conn.execute(statement)
            yield
    finally:
        await conn.close()


async def test_a_partition_that_is_in_use_is_dropped_later_and_holds_up_nothing(
    database: str, pool: Pool, keeper: PartitionKeeper, clock: Clock
) -> None:
    await keeper.keep()
    clock.now = NOW + RETENTION + 2 * WEEK
    async with reader(database, f"select from {expected(0)[0]}"):
        began = asyncio.get_running_loop().time()
        rounds = asyncio.create_task(keeper.keep())
        written = 0
        while not rounds.done():
            await asyncio.wait_for(write(pool, NOW + 3 * WEEK + written), 2)
            written += 1
        await rounds
        assert asyncio.get_running_loop().time() - began < 10 * partitions.LOCK_TIMEOUT
    assert keeper.counters.failed == 1
    assert keeper.counters.dropped == 1  # the next week
    assert expected(0)[0] in await names(pool)
    assert expected(1)[0] not in await names(pool)
    assert keeper.progress.stalled_seconds == 0
    await keeper.keep()
    assert expected(0)[0] not in await names(pool)


async def test_a_partition_that_cannot_be_made_is_made_later(
    database: str, pool: Pool, keeper: PartitionKeeper
) -> None:
    async with reader(database, "select from record_changes_default"):
        await keeper.keep()
    assert keeper.counters.failed == WEEKS_AHEAD + 1
    assert await names(pool) == []
    await asyncio.sleep(0.01)
    assert keeper.progress.stalled_seconds > 0  # it tells that the coming week has none
    await keeper.keep()
    assert await names(pool) == expected(*range(WEEKS_AHEAD + 1))
    assert keeper.progress.stalled_seconds == 0


async def test_a_table_that_cannot_be_kept_holds_up_no_other(
    pool: Pool, clock: Callable[[], float]
) -> None:
    async def broken(_: Pool) -> str | None:
        raise asyncpg.UndefinedTableError("there is no such table")

    missing = PartitionedTable(name="no_table", id_column="id", oldest_needed=broken)
    keeper = PartitionKeeper(pool, {missing: RETENTION, RECORD_CHANGES: RETENTION}, clock)
    await keeper.keep()
    assert keeper.counters.failed == 2  # it can neither be made ahead nor expire
    assert await names(pool) == expected(*range(WEEKS_AHEAD + 1))


async def test_writers_go_on_while_partitions_are_made(
    pool: Pool, keeper: PartitionKeeper, clock: Callable[[], float]
) -> None:
    stop = asyncio.Event()
    written: list[str] = []

    async def write_on(place: int) -> None:
        while not stop.is_set():
            written.append(await write(pool, clock() + place + 10 * len(written)))

    writers = [asyncio.create_task(write_on(place)) for place in range(3)]
    await asyncio.sleep(0.05)
    for _ in range(10):
        await keeper.keep()
    stop.set()
    await asyncio.gather(*writers)
    assert await pool.fetchval("select count(*) from record_changes") == len(written) > 0
