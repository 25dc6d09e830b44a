"""The flush of transactions: each is stored as a whole or not at all, whoever else writes."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from core.records.record import Record, RecordAddress, UniqueValue
from core.shared.entities import EntityRef
from core.shared.tsid import first_at
from storage.entities import loader
from storage.entities.loader import TURN_SECONDS, load_entities
from storage.entities.transactions import TransactionChange, flush_transactions
from storage.postgres.clock import read_clock
from storage.postgres.pool import Connection, Pool, PoolOptions, open_connection
from tests.support.records import changed, create_collection, created, transaction


@pytest.fixture
async def conn(database: str) -> AsyncIterator[Connection]:
    connection = await open_connection(PoolOptions(dsn=database, name="test"))
    yield connection
    await connection.close()


@pytest.fixture
async def rival(database: str) -> AsyncIterator[Connection]:
    connection = await open_connection(PoolOptions(dsn=database, name="rival"))
    yield connection
    await connection.close()


def address(record_id: str) -> RecordAddress:
    return RecordAddress(1, 1, record_id)


async def stored(conn: Connection, *names: str) -> list[Record]:
    """Store new records, each in a transaction of its own."""
    records = [created(address(name), name="first") for name in names]
    assert await flush_transactions(conn, [transaction((None, one)) for one in records]) == set()
    return records


async def versions(conn: Connection) -> dict[str, int]:
    """The version of each record, after a check that each has a change row of its own."""
    rows = await conn.fetch("select record_id, version from records order by record_id")
    changes = await conn.fetch("select record_id, version from record_changes order by 1, 2")
    assert [tuple(row) for row in changes] == [
        (row["record_id"], version) for row in rows for version in range(1, row["version"] + 1)
    ]
    return {row["record_id"]: row["version"] for row in rows}


def both(one: Record, other: Record) -> TransactionChange:
    """A transaction that changes two records."""
    return transaction((one, changed(one, "t2")), (other, changed(other, "t2")), turn_id="t2")


async def test_a_record_comes_back_as_it_was_written(conn: Connection) -> None:
    (one,) = await stored(conn, "r1")
    numbers = {"number": 2**53, "large": 1e30, "odd": [1.2345678901234568e18], "small": 1e-300}
    again = changed(one, "t2", name="Zoë", nothing=None, **numbers)
    assert await flush_transactions(conn, [transaction((one, again), turn_id="t2")]) == set()
    absent = address("r2").ref
    loaded = await load_entities(conn, [one.ref, absent])
    assert loaded == {one.ref: again, absent: None}
    found = loaded[one.ref]
    assert isinstance(found, Record)
    assert all(repr(found.data[name]) == repr(value) for name, value in again.data.items())
    assert await versions(conn) == {"r1": 2}


async def test_a_load_has_a_bounded_number_of_bytes(
    conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of compressible documents, too; what does not fit is missing, in the order of the request."""
    records = [created(address(f"r{n}"), name="x" * 10_000) for n in range(4)]
    assert await flush_transactions(conn, [transaction((None, one)) for one in records]) == set()
    monkeypatch.setattr(loader, "LOAD_BYTES", 25_000)
    monkeypatch.setattr(loader, "DECODED_BYTES", 500)
    refs = [records[3].ref, address("absent").ref, records[0].ref, records[1].ref, records[2].ref]
    assert await load_entities(conn, refs) == {
        refs[0]: records[3],
        refs[1]: None,
        refs[2]: records[0],
    }


async def test_a_stale_second_record_loses_the_first_and_its_change(conn: Connection) -> None:
    one, other = await stored(conn, "r1", "r2")
    ahead = transaction((other, changed(other, "x")), turn_id="x")
    assert await flush_transactions(conn, [ahead]) == set()
    assert await flush_transactions(conn, [both(one, other)]) == {0}
    assert await versions(conn) == {"r1": 1, "r2": 2}


async def until_blocked(conn: Connection) -> None:
    """Wait until another connection waits for a lock."""
    async with asyncio.timeout(10):
        while not await conn.fetchval(  # noqa: ASYNC110 - Postgres tells nobody
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
        ):
            await asyncio.sleep(0.01)


async def race(
    conn: Connection, rival: Connection, ours: TransactionChange, theirs: TransactionChange,
    *, commits: bool,
) -> set[int]:  # fmt: skip
    """Flush while a rival holds rows, and either commits or rolls back."""
    turn = rival.transaction()
    await turn.start()
    assert await flush_transactions(rival, [theirs]) == set()
    flushing = asyncio.create_task(flush_transactions(conn, [ours]))
    await until_blocked(rival)
    await (turn.commit() if commits else turn.rollback())
    return await flushing


async def test_a_rival_that_holds_a_row_and_commits_makes_us_lose_all(
    conn: Connection, rival: Connection
) -> None:
    one, other = await stored(conn, "r1", "r2")
    theirs = transaction((other, changed(other, "x")), turn_id="x")
    assert await race(conn, rival, both(one, other), theirs, commits=True) == {0}
    assert await versions(conn) == {"r1": 1, "r2": 2}


async def test_a_rival_that_rolls_back_lets_us_keep_all(
    conn: Connection, rival: Connection
) -> None:
    one, other = await stored(conn, "r1", "r2")
    theirs = transaction((other, changed(other, "x")), turn_id="x")
    assert await race(conn, rival, both(one, other), theirs, commits=False) == set()
    assert await versions(conn) == {"r1": 2, "r2": 2}


async def test_a_lost_transaction_leaves_out_itself_alone(conn: Connection) -> None:
    one, other, good = await stored(conn, "r1", "r2", "r3")
    ahead = transaction((other, changed(other, "x")), turn_id="x")
    assert await flush_transactions(conn, [ahead]) == set()
    fine = transaction((good, changed(good, "t2")), turn_id="t2")
    new = transaction((None, created(address("r4"))))
    assert await flush_transactions(conn, [fine, both(one, other), new]) == {1}
    assert await versions(conn) == {"r1": 1, "r2": 2, "r3": 2, "r4": 1}


async def test_a_row_that_is_gone_loses(conn: Connection) -> None:
    one, other = await stored(conn, "r1", "r2")
    await conn.execute("delete from records where record_id = 'r2'")
    await conn.execute("delete from record_changes where record_id = 'r2'")
    alone = transaction((other, changed(other, "t2")), turn_id="t2")
    assert await flush_transactions(conn, [both(one, other)]) == {0}
    assert await flush_transactions(conn, [alone]) == {0}
    assert await versions(conn) == {"r1": 1}


async def test_an_addressed_record_that_exists_loses_without_an_error(conn: Connection) -> None:
    (one, other) = await stored(conn, "r1", "r2")
    again = created(address("r1"), "t9", name="second")
    with_update = transaction((None, again), (other, changed(other, "t9")), turn_id="t9")
    good = transaction((None, created(address("r3"))))
    assert await flush_transactions(conn, [with_update, good]) == {0}
    assert await versions(conn) == {"r1": 1, "r2": 1, "r3": 1}
    assert (await load_entities(conn, [one.ref]))[one.ref] == one


async def test_a_rival_that_inserts_the_addressed_record_makes_us_lose(
    conn: Connection, rival: Connection
) -> None:
    (other,) = await stored(conn, "r2")
    ours = transaction((None, created(address("r1"), "a")), (other, changed(other, "a")))
    theirs = transaction((None, created(address("r1"), "b")))
    assert await race(conn, rival, ours, theirs, commits=True) == {0}
    assert await versions(conn) == {"r1": 1, "r2": 1}


async def test_a_second_new_record_that_exists_raises_and_stores_nothing(
    conn: Connection,
) -> None:
    await stored(conn, "r2")
    twice = transaction((None, created(address("r1"))), (None, created(address("r2"))))
    good = transaction((None, created(address("r3"))))
    with pytest.raises(asyncpg.UniqueViolationError):
        await flush_transactions(conn, [twice, good])
    assert await versions(conn) == {"r2": 1}


async def test_what_was_only_read_must_be_the_same(conn: Connection) -> None:
    parent, child = await stored(conn, "parent", "child")
    ours = transaction((child, changed(child, "t2")), turn_id="t2", unchanged=(parent,))
    assert await flush_transactions(conn, [ours]) == set()
    child = changed(child, "t2")
    ahead = transaction((parent, changed(parent, "x")), turn_id="x")
    assert await flush_transactions(conn, [ahead]) == set()
    late = transaction((child, changed(child, "t3")), turn_id="t3", unchanged=(parent,))
    assert await flush_transactions(conn, [late]) == {0}
    assert await versions(conn) == {"child": 2, "parent": 2}


EMAIL: EntityRef[UniqueValue] = address("").unique_ref("email", b"zoe")


async def holder(conn: Connection) -> str | None:
    found = (await load_entities(conn, [EMAIL]))[EMAIL]
    assert found is None or isinstance(found, UniqueValue)
    return None if found is None else found.record_id


async def test_a_value_that_another_record_has_raises_and_stores_nothing(
    conn: Connection,
) -> None:
    taken = UniqueValue(ref=EMAIL, record_id="r1")
    first = transaction((None, created(address("r1"))), (None, taken))
    assert await flush_transactions(conn, [first]) == set()
    second = transaction(
        (None, created(address("r2"))), (None, UniqueValue(ref=EMAIL, record_id="r2"))
    )
    with pytest.raises(asyncpg.UniqueViolationError):
        await flush_transactions(conn, [second])
    assert await versions(conn) == {"r1": 1}
    assert await holder(conn) == "r1"


async def test_a_value_is_released_and_taken_over(conn: Connection) -> None:
    one, other = await stored(conn, "r1", "r2")
    none, of_one = UniqueValue(ref=EMAIL, record_id=None), UniqueValue(ref=EMAIL, record_id="r1")
    of_other = UniqueValue(ref=EMAIL, record_id="r2")
    one_2, other_2 = changed(one, "t2"), changed(other, "t2")
    await flush_transactions(conn, [transaction((one, one_2), (None, of_one), turn_id="t2")])
    assert await holder(conn) == "r1"
    over = transaction((one_2, changed(one_2, "t3")), (other, other_2), (of_one, of_other))
    assert await flush_transactions(conn, [over]) == set()
    assert await holder(conn) == "r2"
    late = transaction((one_2, changed(one_2, "t4")), (of_other, none))
    assert await flush_transactions(conn, [late]) == {0}
    assert await holder(conn) == "r2"
    freed = transaction((other_2, changed(other_2, "t5")), (of_other, none), turn_id="t5")
    assert await flush_transactions(conn, [freed]) == set()
    assert await holder(conn) is None
    assert await versions(conn) == {"r1": 3, "r2": 3}


async def test_a_lost_transaction_takes_no_value(conn: Connection) -> None:
    (one,) = await stored(conn, "r1")
    ahead = changed(one, "x")
    assert await flush_transactions(conn, [transaction((one, ahead), turn_id="x")]) == set()
    stale = transaction((one, changed(one, "t2")), (None, UniqueValue(ref=EMAIL, record_id="r1")))
    assert await flush_transactions(conn, [stale]) == {0}
    assert await holder(conn) is None


async def test_a_transaction_that_was_stored_is_recognised_by_its_turn(conn: Connection) -> None:
    """The answer got lost on its way, so the same transaction is stored again."""
    (one,) = await stored(conn, "r1")
    ours = transaction((one, changed(one, "t2")), turn_id="t2")
    assert await flush_transactions(conn, [ours]) == set()
    assert await flush_transactions(conn, [ours]) == {0}
    found = (await load_entities(conn, [one.ref]))[one.ref]
    assert isinstance(found, Record)
    assert [found.version_of_turn(turn) for turn in ("t1", "t2", "t3")] == [1, 2, None]
    assert await versions(conn) == {"r1": 2}


async def test_the_changes_that_messages_made_are_found(conn: Connection) -> None:
    (one,) = await stored(conn, "r1")
    state = one
    for number in range(2, 12):
        later = changed(state, f"t{number}")
        await flush_transactions(conn, [transaction((state, later), turn_id=f"t{number}")])
        state = later
    refs = [one.address.turn_ref(f"t{number}") for number in (1, 2, 11, 12)]
    elsewhere = address("r2").turn_ref("t1")
    found = await load_entities(conn, [*refs, elsewhere])
    versions = [None if turn is None else turn.version for turn in found.values()]
    assert versions == [1, 2, 11, None, None]
    assert list(found) == [*refs, elsewhere]


async def test_changes_are_looked_for_by_the_clock_of_the_database(
    conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 4e9)
    (one,) = await stored(conn, "r1")
    ref = one.address.turn_ref("t1")
    now = await read_clock(conn)
    for age, version in ((0.0, 1), (TURN_SECONDS + 60.0, None)):
        await conn.execute("update record_changes set change_id = $1", first_at(now - age))
        turn = (await load_entities(conn, [ref]))[ref]
        assert (None if turn is None else turn.version) == version


async def test_a_definition_that_changed_loses(conn: Connection, pool: Pool, tenant: int) -> None:
    number = await create_collection(pool, tenant)
    place = RecordAddress(tenant, number, "r1")
    ours = transaction((None, created(place)))
    ours.definitions = {place.collection_ref: 2}
    assert await flush_transactions(conn, [ours]) == {0}
    await pool.execute("update collections set version = 2 where collection_no = $1", number)
    assert await flush_transactions(conn, [ours]) == set()
    assert await versions(conn) == {"r1": 1}
    for elsewhere in (RecordAddress(tenant, number + 1, "r2"), RecordAddress(0, number, "r2")):
        unknown = transaction((None, created(elsewhere)))
        unknown.definitions = {elsewhere.collection_ref: 2}
        assert await flush_transactions(conn, [unknown]) == {0}
    await pool.execute("update collections set status = 'ARCHIVED'")
    late = transaction((None, created(RecordAddress(tenant, number, "r3"))))
    late.definitions = {place.collection_ref: 2}
    assert await flush_transactions(conn, [late]) == {0}


async def test_a_collection_is_read_for_its_tenant_alone(pool: Pool, tenant: int) -> None:
    number = await create_collection(pool, tenant)
    own = RecordAddress(tenant, number, "r1").collection_ref
    foreign = RecordAddress(tenant + 1, number, "r1").collection_ref
    loaded = await load_entities(pool, [own, foreign])
    assert loaded[foreign] is None
    assert loaded[own] is not None
    assert loaded[own].version == 1  # type: ignore[union-attr]
