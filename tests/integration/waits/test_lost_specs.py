"""A wait whose configuration Postgres has lost: found, ended in time, and healed by registering."""

import asyncpg
import pytest

from core.waits.messages import (
    Expire,
    OfferReply,
    RefusalKind,
    RefusedReply,
    RegisterReply,
    StatusReply,
    Verdict,
)
from core.waits.strategy import Status
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.waits import waits
from tests.support.shards import BOTH, address, api, ask, kafka, register, running_shard


async def run(dsn: str, statement: str) -> None:
    conn = await asyncpg.connect(dsn.replace("//muster@", "//postgres@"))
    try:
        await conn.execute(statement)
    finally:
        await conn.close()


@pytest.fixture
async def pool(database: str) -> Pool:
    return await open_pool(PoolOptions(dsn=database, name="test"))


LOSE = "delete from wait_specs"
DISCONNECT = """
select pg_terminate_backend(pid) from pg_stat_activity
 where application_name like 'muster shard%' and datname = current_database()
"""


async def test_a_new_connection_believes_in_no_spec(database: str, pool: Pool) -> None:
    """It may lead to a replica that was promoted without the last writes."""
    first, second = address(), address()
    async with running_shard(database) as shard:
        await ask(shard, register(first))
        await run(database, LOSE)
        await run(database, DISCONNECT)
        assert isinstance(await ask(shard, register(second)), RegisterReply)
        seen = await waits.read(pool, second)
        assert seen is not None
        assert seen.wait.spec.names == ("api_response", "kafka_event")
        assert isinstance(await ask(shard, api(second)), OfferReply)
    pool.terminate()


async def test_registering_again_heals_what_events_were_kept_for(database: str, pool: Pool) -> None:
    where = address()
    async with running_shard(database) as shard:
        await ask(shard, register(where))
    await run(database, LOSE)
    async with running_shard(database) as shard:
        early = await ask(shard, api(where))
        assert isinstance(early, OfferReply)
        assert early.verdict is Verdict.BUFFERED, "kept, as if nobody had registered"
        other = await ask(shard, register(where, BOTH | {"timeout": 61}))
        assert isinstance(other, RefusedReply)
        assert other.kind is RefusalKind.CONFLICT
        again = await ask(shard, register(where))
        assert isinstance(again, RegisterReply)
        assert not again.created
        matched = await ask(shard, kafka(where))
        assert isinstance(matched, OfferReply)
        assert matched.verdict is Verdict.MATCHED
    assert [row["wait_key"] for row in await waits_with_events(pool)] == [where.key]
    pool.terminate()


async def waits_with_events(pool: Pool) -> list[asyncpg.Record]:
    """What the sweeper offers again: the wait is there, and so is its early event."""
    return await pool.fetch(
        "select i.wait_key from event_inbox i join execution_wait_states using (wait_key)"
        " where i.verdict = 'buffered'"
    )


async def test_an_event_and_the_registration_in_one_batch_heal_too(database: str) -> None:
    where = address()
    async with running_shard(database) as shard:
        await ask(shard, register(where))
    await run(database, LOSE)
    async with running_shard(database) as shard:
        batch = [api(where), register(where), kafka(where)]
        replies = await shard.handle(list(batch))
    assert [type(reply) for reply in replies] == [OfferReply, RegisterReply, OfferReply]
    assert isinstance(replies[2], OfferReply)
    assert replies[2].status is Status.COMPLETED


async def test_without_a_spec_a_wait_is_shown_and_ends_at_its_deadline(
    database: str, pool: Pool
) -> None:
    where = address()
    async with running_shard(database) as shard:
        opened = await ask(shard, register(where))
        assert isinstance(opened, RegisterReply)
    await run(database, LOSE)
    seen = await waits.read(pool, where)
    assert seen is not None
    assert seen.wait.spec.names == ("unknown_1", "unknown_2")
    async with running_shard(database) as shard:
        await ask(shard, api(where))
        early = await ask(shard, Expire(address=where, turn_id="t", at=opened.expires_at - 1))
        assert early == StatusReply(status=Status.WAITING, changed=False)
        ended = await ask(shard, Expire(address=where, turn_id="t", at=opened.expires_at))
        assert ended == StatusReply(status=Status.TIMEOUT, changed=True)
    statuses = await pool.fetch("select status from execution_wait_states")
    assert [row[0] for row in statuses] == ["timeout"]
    pool.terminate()
