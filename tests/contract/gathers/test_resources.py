"""Resources as Postgres keeps them, and the gathers that a pool finds there."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from core.gathers.gather import (
    GatherSpec,
    Question,
    ReplyBy,
    Resource,
    encode_gather_spec,
    wait_spec_of,
)
from core.shared.address import Address
from core.waits.messages import Accept, Cancel, Offer, Register, WaitMessage
from core.waits.spec import Source, encode_spec
from core.waits.state import PENDING, Wait
from core.waits.strategy import Outcome
from core.waits.transitions import apply
from storage.access import keys
from storage.gathers import resources
from storage.postgres.pool import Connection, Pool, PoolOptions, open_connection, open_pool
from storage.waits.flush import NO_VERSION, FlushWriter, WaitChange
from tests.support.shards import address, register

WHOLE = Resource(
    url="https://one.example/ask",
    method="PUT",
    headers={"X-Key": "ключ"},
    authorization="Bearer s3cr3t",
    connect_timeout=1.5,
    read_timeout=2.5,
    rate_per_minute=60,
    concurrency=7,
    reply=ReplyBy.DIRECT,
)
PLAIN = Resource(url="http://two.example")
NAMES = ("one", "two")


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


@pytest.fixture
async def tenant(pool: Pool) -> int:
    return await keys.create_tenant(pool, "own")


# Resources.


async def test_a_resource_comes_back_as_it_was_put(pool: Pool, tenant: int) -> None:
    assert await resources.put(pool, tenant, "one", WHOLE)
    assert await resources.put(pool, tenant, "two", PLAIN)
    assert await resources.find(pool, tenant, ["two", "one", "three"]) == {
        "one": WHOLE,
        "two": PLAIN,
    }
    found = await resources.read(pool, tenant, "one")
    assert found is not None
    assert (found.name, found.resource) == ("one", WHOLE)
    assert found.created_at == found.updated_at


async def test_a_resource_is_changed_in_its_place(pool: Pool, tenant: int) -> None:
    await resources.put(pool, tenant, "one", WHOLE)
    before = await resources.read(pool, tenant, "one")
    assert not await resources.put(pool, tenant, "one", PLAIN)
    after = await resources.read(pool, tenant, "one")
    assert before is not None
    assert after is not None
    assert after.resource == PLAIN
    assert after.created_at == before.created_at
    assert after.updated_at > before.updated_at


async def test_a_resource_that_was_dropped_can_be_put_anew(pool: Pool, tenant: int) -> None:
    await resources.put(pool, tenant, "one", WHOLE)
    assert await resources.drop(pool, tenant, "one")
    assert not await resources.drop(pool, tenant, "one")
    assert await resources.read(pool, tenant, "one") is None
    assert await resources.find(pool, tenant, ["one"]) == {}
    assert await resources.put(pool, tenant, "one", PLAIN)


async def test_a_listing_goes_by_name_page_by_page(pool: Pool, tenant: int) -> None:
    for name in ("b", "a", "B", "a-1", "Z"):
        await resources.put(pool, tenant, name, PLAIN)
    seen: list[str] = []
    while page := await resources.page(pool, tenant, seen[-1] if seen else "", 2):
        assert len(page) <= 2
        seen += [one.name for one in page]
    assert sorted(seen) == ["B", "Z", "a", "a-1", "b"]
    assert len(seen) == 5


async def test_each_tenant_has_its_own(pool: Pool, tenant: int) -> None:
    other = await keys.create_tenant(pool, "other")
    await resources.put(pool, tenant, "one", WHOLE)
    assert await resources.put(pool, other, "one", PLAIN)
    assert await resources.find(pool, other, ["one"]) == {"one": PLAIN}
    assert [one.resource for one in await resources.page(pool, tenant, "", 10)] == [WHOLE]
    assert await resources.drop(pool, other, "one")
    assert await resources.read(pool, tenant, "one") is not None


# Gathers that wait.


def asked(*names: str) -> GatherSpec:
    inline = Resource(url="http://inline.example")
    body = msgspec.Raw(b'{"a":  1.10}')
    asks = [Question(name=name, inline=inline, body=body) for name in names]
    return GatherSpec(
        asks=tuple(asks), context=msgspec.Raw(b'{"n": 1}'), ids_in_body=True, trace="t"
    )


def begin(where: Address, timeout: float = 10.0) -> Register:
    spec = encode_spec(wait_spec_of([Question(name=name) for name in NAMES], timeout))
    return Register(
        address=where,
        turn_id="r",
        node_id="gather",
        spec=spec,
        asked=encode_gather_spec(asked(*NAMES)),
    )


async def said(conn: Connection, wait: Wait | None, message: WaitMessage, age: float = 0.0) -> Wait:
    """One turn, stored; `age` seconds ago by the database's clock."""
    now: float = await conn.fetchval("select extract(epoch from now())::float8")
    decision = apply(wait, message, now - age)
    assert decision.wait is not None
    change = WaitChange(
        message.address.key,
        1,
        NO_VERSION if wait is None else wait.version,
        decision.wait,
        list(decision.entries),
        list(decision.parked),
        list(decision.taken_from_inbox),
    )
    assert await FlushWriter("test", 3600.0).flush(conn, [change]) == {message.address.key}
    return decision.wait


async def test_a_gather_that_waits_is_found_and_so_is_what_it_asked(
    pool: Pool, conn: Connection
) -> None:
    where = address()
    wait = await said(conn, None, begin(where), age=3.0)
    wait = await said(conn, wait, Accept(address=where, turn_id="a", event="two"), age=2.5)
    (found,) = await resources.open_gathers(pool, 2.0, 10)
    assert found.address == where
    assert found.expires_at == wait.expires_at
    assert found.marks == dict(zip(NAMES, wait.marks, strict=True))
    assert (found.marks["one"], found.marks["two"].at > 0) == (PENDING, True)
    again = await resources.read_gather_spec(pool, where)
    assert again is not None
    assert encode_gather_spec(again) == encode_gather_spec(asked(*NAMES))


async def test_what_is_no_gather_has_asked_nothing(pool: Pool, conn: Connection) -> None:
    where = address()
    wait = await said(conn, None, register(where, {"events": [{"name": "one"}, {"name": "two"}]}))
    assert await resources.read_gather_spec(pool, where) is None
    await said(conn, wait, answer(where, "one"))
    assert await resources.read_gather_spec(pool, where) is None


async def test_only_gathers_that_somebody_may_have_forgotten_are_found(
    pool: Pool, conn: Connection
) -> None:
    young, over, cancelled, done = (address() for _ in range(4))
    await said(conn, None, begin(young), age=1.0)
    await said(conn, None, begin(over, timeout=5.0), age=6.0)
    wait = await said(conn, None, begin(cancelled), age=3.0)
    await said(conn, wait, Cancel(address=cancelled, turn_id="c"))
    wait = await said(conn, None, begin(done), age=3.0)
    for name in NAMES:
        wait = await said(conn, wait, answer(done, name))
    plain = {"events": [{"name": "x"}], "aggregationStrategy": "settled"}
    await said(conn, None, register(address(), plain), age=3.0)
    # No gather lasts so long, so those that do are not even looked at.
    await said(conn, None, begin(address(), timeout=60.0), age=3.0)
    assert await resources.open_gathers(pool, 2.0, 10) == []
    assert [one.address for one in await resources.open_gathers(pool, 0.5, 10)] == [young]


async def test_those_whose_time_is_over_first_are_found_first(pool: Pool, conn: Connection) -> None:
    late, soon, later = (address() for _ in range(3))
    for where, timeout in ((late, 20.0), (soon, 10.0), (later, 25.0)):
        await said(conn, None, begin(where, timeout), age=3.0)
    found = await resources.open_gathers(pool, 2.0, 2)
    assert [one.address for one in found] == [soon, late]


async def test_a_gather_stays_on_its_page_while_it_is_promised_answered_and_ended(
    conn: Connection,
) -> None:
    """Its index names nothing that an update changes: else each answer would be a new row there."""
    where = address()
    wait = await said(conn, None, begin(where))
    steps: list[WaitMessage] = [Accept(address=where, turn_id="a", event="one")]
    for message in (*steps, *(answer(where, name) for name in NAMES)):
        wait = await said(conn, wait, message)
    assert wait.ending is not None
    await conn.execute("select pg_stat_force_next_flush()")
    row = await conn.fetchrow(
        "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables"
        " where relname = 'execution_wait_states'"
    )
    assert row is not None
    assert row["n_tup_upd"] == row["n_tup_hot_upd"] == 3


def answer(where: Address, name: str) -> Offer:
    return Offer(
        address=where,
        turn_id=name,
        event_id=f"call/{name}",
        source=Source.API,
        label=name,
        payload=b"{}",
        outcome=Outcome.RECEIVED,
    )
