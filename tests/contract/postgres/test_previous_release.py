"""The release before this one goes on working on the newest schema, beside this one."""

import time

import asyncpg
import pytest

from core.waits.messages import OfferReply, Verdict
from core.waits.spec import encode_spec
from core.waits.state import Decision, ParkedEvent, Wait
from core.waits.strategy import Status
from core.waits.transitions import apply
from host.postgres.embedded import EmbeddedServer
from storage.waits import waits
from storage.waits.wait_rows import json_of
from tests.contract.previous_release import composite_types, statements, types
from tests.support.postgres import database_dsn
from tests.support.shards import address, api, ask, kafka, register, running_shard

OLD = statements()
# Sent by `muster migrate` and by the first start of an embedded server, never beside another.
_NOT_BESIDE = {"create_embedded_role", "create_embedded_database"}


@pytest.fixture
def schema(postgres_server: EmbeddedServer, template_database: str) -> str:
    """A migrated database that nobody writes to."""
    return database_dsn(postgres_server, template_database)


@pytest.mark.parametrize("name", sorted(OLD.keys() - _NOT_BESIDE))
async def test_every_statement_of_the_last_release_prepares(schema: str, name: str) -> None:
    conn = await asyncpg.connect(schema)
    try:
        await conn.prepare(OLD[name])
    finally:
        await conn.close()


async def test_what_it_writes_rows_of_has_kept_its_form(schema: str) -> None:
    """It sends all attributes of a type, in order: one more, and it can write nothing."""
    conn = await asyncpg.connect(schema)
    try:
        found = await composite_types(conn)
        assert {name: found.get(name) for name in types()} == types()
    finally:
        await conn.close()


async def test_both_work_on_one_wait_in_turns(database: str) -> None:
    """The old one opens it, the new one takes an event, the old one reads and ends it."""
    conn = await asyncpg.connect(database)
    async with running_shard(database) as shard:
        wait = apply(None, register(address()), time.time()).wait
        assert wait is not None
        key = wait.address.key
        kept = await conn.fetch(OLD["flush"], [_spec(wait)], [_opened(wait)], [], [], [], [], "old")
        assert [row[0] for row in kept] == [key]
        reply = await ask(shard, api(wait.address))
        assert isinstance(reply, OfferReply)
        assert reply.verdict is Verdict.MATCHED
        (row,) = await conn.fetch(OLD["load_waits"], [key])
        assert (row["version"], row["log_length"]) == (2, 1)
        one = (await waits.load_waits(conn, [key]))[key]
        two = apply(one, kafka(wait.address), time.time())
        assert two.wait is not None
        assert two.wait.status is Status.COMPLETED
        saved = _saved(two.wait, seen=one.version)
        await conn.fetch(OLD["flush"], [], [], [saved], [_line(key, two)], [], [], "old")
        assert (await waits.load_waits(conn, [key]))[key].status is Status.COMPLETED
        assert await conn.fetchval("select count(*) from wait_state_events") == 2
    await conn.close()


async def test_what_one_of_them_parks_the_other_finds(database: str) -> None:
    conn = await asyncpg.connect(database)
    async with running_shard(database) as shard:
        old, new = address(), address()
        (parked,) = apply(None, api(old), time.time()).parked
        await conn.execute(OLD["park"], [_parked(old.key, parked)], 60.0)
        await ask(shard, register(old))
        (row,) = await conn.fetch(OLD["load_waits"], [old.key])
        assert row["log_length"] == 1
        assert await conn.fetchval("select count(*) from wait_state_events") == 1
        await ask(shard, api(new))
        assert len(await conn.fetch(OLD["load_early"], [new.key])) == 1
    await conn.close()


def _parked(key: bytes, event: ParkedEvent) -> tuple[object, ...]:
    return (
        key,
        event.event_id,
        1,
        event.address.execution_id,
        event.address.correlation_id,
        event.turn_id,
        event.source,
        event.label,
        event.content_type,
        event.payload,
        event.outcome,
        event.verdict,
        event.reason,
        json_of(event.clause),
        event.at,
    )


def _spec(wait: Wait) -> tuple[object, ...]:
    return (1, wait.spec.digest, encode_spec(wait.spec).decode(), wait.expires_at)


def _opened(wait: Wait) -> tuple[object, ...]:
    return (
        wait.address.key,
        1,
        wait.address.execution_id,
        wait.address.correlation_id,
        wait.node_id,
        wait.spec.strategy,
        wait.status,
        wait.version,
        wait.log_length,
        wait.spec.digest,
        json_of(wait.marks),
        json_of(wait.ending),
        wait.registered_by,
        wait.opened_at,
        wait.expires_at,
        wait.due_at,
        None,
    )


def _saved(wait: Wait, seen: int) -> tuple[object, ...]:
    return (
        wait.address.key,
        seen,
        wait.version,
        wait.log_length,
        wait.status,
        json_of(wait.marks),
        json_of(wait.ending),
        wait.due_at,
        wait.ending.at if wait.ending else None,
    )


def _line(key: bytes, decision: Decision) -> tuple[object, ...]:
    (entry,) = decision.entries
    return (
        key,
        1,
        entry.seq,
        entry.kind,
        entry.event,
        entry.event_id,
        entry.source,
        entry.label,
        entry.content_type,
        entry.payload,
        entry.at,
    )
