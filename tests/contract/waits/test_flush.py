"""The flush statement: all or nothing per row, checked by version."""

import os
from collections.abc import AsyncIterator

import asyncpg
import pytest
from msgspec.structs import replace

from core.shared.address import Address
from core.waits.inbox import UnregisteredAddress
from core.waits.messages import Reason, Verdict
from core.waits.spec import Source
from core.waits.state import Decision, Wait
from core.waits.transitions import apply
from storage.postgres.pool import Connection, PoolOptions, open_connection, open_pool
from storage.waits import flush as journal
from storage.waits import inbox, waits
from storage.waits.flush import NO_VERSION, FlushWriter, WaitChange, write_parked
from storage.waits.waits import ELSEWHERE_LIMIT, LoadedWait, WaitLookup
from tests.support.shards import address, api, kafka, register

NOW = 1_800_000_000.0
TTL = 3600.0


async def flush(conn: Connection, changes: list[WaitChange], owner: str, ttl: float) -> set[bytes]:
    return await FlushWriter(owner, ttl).flush(conn, changes)


@pytest.fixture
async def conn(database: str) -> AsyncIterator[Connection]:
    connection = await open_connection(PoolOptions(dsn=database, name="test"))
    yield connection
    await connection.close()


def change(before: Wait | None, decision: Decision, key: bytes) -> WaitChange:
    return WaitChange(
        key,
        1,
        NO_VERSION if before is None else before.version,
        decision.wait if decision.wait is not before else None,
        list(decision.entries),
        list(decision.parked),
        list(decision.taken_from_inbox),
    )


async def load(conn: Connection, where: Address, *, has_event: bool = False) -> LoadedWait:
    asked = WaitLookup(where.key, where.tenant, has_event)
    return (await waits.load(conn, [asked]))[where.key]


async def opened(conn: Connection) -> Wait:
    message = register(address())
    decision = apply(None, message, NOW)
    assert decision.wait is not None
    kept = await flush(conn, [change(None, decision, message.address.key)], "a", TTL)
    assert kept == {message.address.key}
    return decision.wait


async def test_a_wait_comes_back_as_it_was_written(conn: Connection) -> None:
    wait = await opened(conn)
    first = apply(wait, api(wait.address, b'{"n":1}'), NOW + 1.25)
    await flush(conn, [change(wait, first, wait.address.key)], "a", TTL)
    assert await waits.load_waits(conn, [wait.address.key]) == {wait.address.key: first.wait}


async def test_a_stale_write_changes_nothing_and_leaves_no_log(conn: Connection) -> None:
    wait = await opened(conn)
    key = wait.address.key
    winner, loser = apply(wait, api(wait.address), NOW), apply(wait, kafka(wait.address), NOW)
    assert await flush(conn, [change(wait, winner, key)], "a", TTL) == {key}
    assert await flush(conn, [change(wait, loser, key)], "b", TTL) == set()
    assert await waits.load_waits(conn, [key]) == {key: winner.wait}
    assert await conn.fetchval("select count(*) from wait_state_events") == 1


async def test_one_lost_row_does_not_hold_back_the_others(conn: Connection) -> None:
    lost, fine = await opened(conn), await opened(conn)
    moved = apply(lost, api(lost.address), NOW)
    await flush(conn, [change(lost, moved, lost.address.key)], "a", TTL)
    both = [
        change(lost, apply(lost, kafka(lost.address), NOW), lost.address.key),
        change(fine, apply(fine, kafka(fine.address), NOW), fine.address.key),
    ]
    assert await flush(conn, both, "b", TTL) == {fine.address.key}


async def test_a_node_waits_once_per_execution(conn: Connection) -> None:
    wait = await opened(conn)
    other = register(address(wait.address.execution_id), node_id=wait.node_id)
    decision = apply(None, other, NOW)
    assert await flush(conn, [change(None, decision, other.address.key)], "b", TTL) == set()
    found = await waits.correlation_of_node(conn, other.address, wait.node_id)
    assert found == wait.address.correlation_id


async def test_completion_and_resume_are_one_write(conn: Connection) -> None:
    wait = await opened(conn)
    one = apply(wait, api(wait.address), NOW).wait
    assert one is not None
    two = apply(one, kafka(wait.address), NOW + 2)
    assert two.wait is not None
    folded = change(wait, two, wait.address.key)
    await flush(conn, [folded], "shard-7@host:1", TTL)
    row = await conn.fetchrow(
        "select status, version, resumed_at, resumed_by from execution_wait_states"
    )
    assert row is not None
    assert (row["status"], row["version"]) == ("completed", two.wait.version)
    assert row["resumed_at"] is not None
    assert row["resumed_by"] == "shard-7@host:1"


async def test_early_events_are_parked_loaded_and_taken_up(conn: Connection) -> None:
    where = address()
    event = api(where, b'{"early":true}')
    parked = apply(None, event, NOW)
    for _ in range(2):  # delivered twice, kept once
        await flush(conn, [change(None, parked, where.key)], "a", 10**9)
    loaded = await load(conn, where)
    assert loaded.sizes == {event.event_id: len(event.payload)}
    early = tuple((await waits.load_early(conn, [where.key]))[where.key])
    decision = apply(None, register(where), NOW, UnregisteredAddress(early=early))
    await flush(conn, [change(None, decision, where.key)], "a", 10**9)
    assert await conn.fetchval("select count(*) from event_inbox") == 0
    assert await conn.fetchval("select kind from wait_state_events") == "received"


async def test_the_same_correlation_elsewhere_is_found(conn: Connection) -> None:
    wait = await opened(conn)
    stranger = address(correlation=wait.address.correlation_id)
    loaded = await load(conn, stranger, has_event=True)
    assert (loaded.wait, loaded.elsewhere) == (None, wait.address.execution_id)


SHARED = """
insert into execution_wait_states
       (wait_key, tenant_id, execution_id, correlation_id, node_id, aggregation_strategy, status,
        version, log_length, spec_id, marks, registered_by, created_at, updated_at, expires_at,
        due_at)
select $1::bytea || int8send(n), 1, 'e' || n, $2, 'n', 'all', 'completed', 1, 0, '', '[]', '',
       now(), now(), now(), now()
  from generate_series(1, 1000) as n
"""


async def fetched(conn: Connection, where: Address, *, has_event: bool) -> int:
    """How many rows of waits are read to load one address."""
    async with conn.transaction():
        assert (await load(conn, where, has_event=has_event)).elsewhere is None
        rows: int = await conn.fetchval(
            "select idx_tup_fetch + seq_tup_read from pg_stat_xact_user_tables"
            " where relname = 'execution_wait_states'"
        )
    return rows


async def test_a_correlation_id_that_a_thousand_ended_waits_share_costs_as_one(
    conn: Connection,
) -> None:
    """Neither a registration nor an event may pay for what has ended."""
    where = address()
    await conn.execute(SHARED, where.key[:8], where.correlation_id)
    assert await fetched(conn, where, has_event=False) == 0
    assert await fetched(conn, where, has_event=True) == ELSEWHERE_LIMIT


async def test_another_tenant_is_never_named(conn: Connection) -> None:
    """Half a key is a hash that can be forged: whoever shares it is not named to a stranger."""
    wait = await opened(conn)
    forged = Address(2, "e", "c", wait.address.key[:8] + b"forged!!")
    assert (await load(conn, forged, has_event=True)).elsewhere is None


async def test_a_registration_does_not_ask_who_else_waits(conn: Connection) -> None:
    wait = await opened(conn)
    assert (await load(conn, address(correlation=wait.address.correlation_id))).elsewhere is None


async def test_a_mismatched_event_reaches_its_own_wait_if_that_comes(conn: Connection) -> None:
    wait = await opened(conn)
    stranger = address(correlation=wait.address.correlation_id)
    found = UnregisteredAddress(elsewhere=wait.address.execution_id)
    refused = apply(None, api(stranger), NOW, found)
    assert refused.parked[0].reason is Reason.EXECUTION_MISMATCH
    await flush(conn, [change(None, refused, stranger.key)], "a", 10**9)
    early = await waits.load_early(conn, [stranger.key])
    assert [event.source for event in early[stranger.key]] == [Source.API]


async def test_ending_a_wait_stays_on_its_page(conn: Connection) -> None:
    """An update that touched an index would bloat all four of them."""
    wait = await opened(conn)
    done = apply(wait, api(wait.address), NOW)
    assert done.wait is not None
    await flush(conn, [change(wait, done, wait.address.key)], "a", TTL)
    last = apply(done.wait, kafka(wait.address), NOW)
    await flush(conn, [change(done.wait, last, wait.address.key)], "a", TTL)
    await conn.execute("select pg_stat_force_next_flush()")
    row = await conn.fetchrow(
        "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables"
        " where relname = 'execution_wait_states'"
    )
    assert row is not None
    assert row["n_tup_upd"] == row["n_tup_hot_upd"] == 2


async def test_text_that_postgres_cannot_hold_is_an_error_of_that_flush(conn: Connection) -> None:
    where = address()
    decision = apply(None, api(where, event_id="nul\x00inside"), NOW)
    with pytest.raises(asyncpg.PostgresError):
        await flush(conn, [change(None, decision, where.key)], "a", TTL)


async def test_a_long_log_is_read_in_pages_that_fit(database: str, conn: Connection) -> None:
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    wait = await opened(conn)
    key = wait.address.key
    for _ in range(6):
        decision = apply(wait, api(wait.address, b"x" * 1_000), NOW)
        assert decision.wait is not None
        await flush(conn, [change(wait, decision, key)], "a", TTL)
        wait = decision.wait
    seen: list[int] = []
    while True:
        page = await waits.read_log(pool, key, seen[-1] if seen else 0, budget=2_500)
        assert sum(len(entry.payload) for entry in page.entries) <= 3_500
        seen += [entry.seq for entry in page.entries]
        if not page.more:
            break
    assert seen == [1, 2, 3, 4, 5, 6]
    assert [entry.seq for entry in await waits.read_counted(pool, wait)] == [1]
    await pool.close()


async def test_a_spec_is_kept_once_and_as_long_as_a_wait_has_it(
    database: str, conn: Connection
) -> None:
    journal = FlushWriter("a", TTL)
    now: float = await conn.fetchval("select extract(epoch from now())::float8")
    for days_ago in (30.0, 0.0):
        decision = apply(None, register(address()), now - days_ago * 86_400)
        assert decision.wait is not None
        await journal.flush(conn, [change(None, decision, decision.wait.address.key)])
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    covered = "select last_deadline > now() from wait_specs"
    assert [row[0] for row in await conn.fetch(covered)] == [True]
    await conn.execute("update wait_specs set last_deadline = now() - interval '20 days'")
    await waits.forget_specs(pool, retention=7 * 86_400)
    assert await conn.fetchval("select count(*) from wait_specs") == 1  # an old row has it still
    await conn.execute("delete from execution_wait_states")
    await waits.forget_specs(pool, retention=7 * 86_400)
    assert await conn.fetchval("select count(*) from wait_specs") == 0
    await pool.close()


async def test_a_late_event_sent_again_is_logged_once(conn: Connection) -> None:
    wait = await opened(conn)
    key = wait.address.key
    for event in (api(wait.address), kafka(wait.address)):
        decision = apply(wait, event, NOW)
        assert decision.wait is not None
        await flush(conn, [change(wait, decision, key)], "a", TTL)
        wait = decision.wait
    late = api(wait.address, event_id="api/s/late")
    for _ in range(2):
        decision = apply(wait, late, NOW)
        assert decision.wait is not None
        await flush(conn, [change(wait, decision, key)], "a", TTL)
        wait = decision.wait
    kinds = [row[0] for row in await conn.fetch("select kind from wait_state_events order by seq")]
    assert kinds == ["received", "received", "late"]


async def test_two_copies_of_an_early_event_in_one_flush_are_kept_once(conn: Connection) -> None:
    where = address()
    event = api(where, event_id="api/s/twice")
    one, two = apply(None, event, NOW), apply(None, event, NOW + 1)
    both = WaitChange(where.key, 1, NO_VERSION, None, [], [*one.parked, *two.parked], [])
    await flush(conn, [both], "a", 10**9)
    assert await conn.fetchval("select count(*) from event_inbox") == 1


async def test_an_explanation_looks_at_a_bounded_part_of_the_inbox(
    database: str, conn: Connection
) -> None:
    """What others sent under the same correlation id costs no more the more it is."""
    mine = address()
    others = [address(correlation=mine.correlation_id) for _ in range(3 * inbox.NEAR_LIMIT)]
    events = [(where.key, apply(None, api(where), NOW).parked[0]) for where in [mine, *others]]
    await write_parked(conn, events, 10**9)
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    async with pool.acquire() as reader, reader.transaction():
        near = await inbox.near_misses(reader, mine, limit=10_000)
        read = await reader.fetchval(
            "select idx_tup_fetch + seq_tup_read from pg_stat_xact_user_tables"
            " where relname = 'event_inbox'"
        )
    await pool.close()
    assert mine in {event.address for event in near}
    assert read == len(near) <= 3 * inbox.NEAR_LIMIT


async def test_to_park_one_more_event_reads_no_payload(conn: Connection) -> None:
    """A payload of this size is kept beside its row, and only who takes it up reads it."""
    where = address()
    event = api(where, os.urandom(100_000))
    await flush(conn, [change(None, apply(None, event, NOW), where.key)], "a", 10**9)
    touched = """select coalesce(sum(idx_tup_fetch), 0) from pg_stat_xact_all_tables
                  where relid =
                        (select reltoastrelid from pg_class where relname = 'event_inbox')"""
    async with conn.transaction():
        loaded = await load(conn, where, has_event=True)
        assert loaded.sizes == {event.event_id: 100_000}
        assert await conn.fetchval(touched) == 0
    async with conn.transaction():
        (early,) = (await waits.load_early(conn, [where.key]))[where.key]
        assert early.payload == event.payload
        assert await conn.fetchval(touched) > 0


async def test_early_events_are_read_up_to_a_bound(
    conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as older settings or another owner let in: the oldest come first, the rest stays."""
    monkeypatch.setattr(waits, "EARLY_BYTES", 2_500)
    where = address()
    events = [apply(None, api(where, b"x" * 1_000, event_id=f"e{n}"), NOW + n) for n in range(6)]
    await write_parked(conn, [(where.key, one.parked[0]) for one in events], 10**9)
    early = (await waits.load_early(conn, [where.key]))[where.key]
    assert [event.event_id for event in early] == ["e0", "e1", "e2"]
    monkeypatch.setattr(waits, "EARLY_EVENTS", 2)
    early = (await waits.load_early(conn, [where.key]))[where.key]
    assert [event.event_id for event in early] == ["e0", "e1"]
    assert len((await load(conn, where)).sizes) == 4


async def test_of_what_one_correlation_refused_so_much_is_kept(
    conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever holds one callback URL cannot fill the disk with it."""
    monkeypatch.setattr(journal, "REFUSED_KEPT", 5)
    monkeypatch.setattr(journal, "REFUSED_BYTES", 10_000)

    async def refuse(where: Address, payload: bytes, key: bytes) -> None:
        (early,) = apply(None, api(where, payload), NOW).parked
        refused = replace(early, verdict=Verdict.REJECTED, reason=Reason.LABEL_NOT_EXPECTED)
        await write_parked(conn, [(key, refused)], TTL)

    async def kept(key: bytes) -> int:
        found: int = await conn.fetchval(
            "select count(*) from event_inbox where wait_key = $1", key
        )
        return found

    many, heavy, other = address(), address(), address()
    for _ in range(10):
        await refuse(many, b"{}", many.key)
        await refuse(heavy, b"x" * 6_000, heavy.key)
    assert (await kept(many.key), await kept(heavy.key)) == (5, 2)
    await refuse(other, b"{}", other.key)
    assert await kept(other.key) == 1
    # Those without ids belong to no correlation: quotas bound them.
    for _ in range(10):
        await refuse(address(), b"{}", b"")
    assert await kept(b"") == 10
