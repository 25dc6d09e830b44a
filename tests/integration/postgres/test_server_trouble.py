"""A server that is read-only, or has another schema: nobody is blamed, and all is well after it.

As after a failover behind a name, or while a migration runs: for a while the server that answers
takes no writes. What comes meanwhile is held and stored afterwards; nothing is refused or buried.
"""

import asyncio
import math
import random
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

import asyncpg
import msgspec
import pytest

from actors.waits.shard import Shard
from core.kafka.message import KafkaMessage
from core.shared.address import Address
from core.waits.messages import (
    OfferReply,
    RefusalKind,
    RefusedReply,
    RegisterReply,
    Reply,
    Verdict,
    WaitMessage,
)
from services.kafka.ingest import Ingest, IngestDeps
from services.kafka.ingest_store import PostgresIngestStore
from services.waits.intake import CorrelationResolver, IdFieldRegistry
from storage.access import keys
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.waits import waits
from storage.waits.flush import WaitChange
from storage.waits.shard_store import ShardStore
from tests.integration.events.test_event_writer import a_writer
from tests.support.happenings import event
from tests.support.pool_at_work import PoolTenant, numbers, webhook_receiver
from tests.support.shards import address, api, ask, kafka, register, running_shard
from tests.support.trouble import read_only, renamed

Trouble = Callable[[str], AbstractAsyncContextManager[None]]
LASTS = 1.0
SOON = 10.0
WAITS: list[tuple[str, Trouble]] = [
    ("read-only", read_only),
    ("table renamed", partial(renamed, table="wait_state_events")),
    ("column renamed", partial(renamed, table="execution_wait_states", column="log_length")),
]
EVENTS: list[tuple[str, Trouble]] = [
    ("read-only", read_only),
    ("table renamed", partial(renamed, table="events")),
    ("column renamed", partial(renamed, table="events", column="source")),
]


def _of(troubles: list[tuple[str, Trouble]]) -> "pytest.MarkDecorator":
    names = [name for name, _ in troubles]
    return pytest.mark.parametrize("trouble", [one for _, one in troubles], ids=names)


@_of(WAITS)
async def test_a_shard_holds_what_comes_and_stores_it_afterwards(
    database: str, trouble: Trouble
) -> None:
    old, new = [address() for _ in range(20)], [address() for _ in range(20)]
    async with running_shard(database) as shard:
        await shard.handle([register(where) for where in old])
        async with trouble(database):
            coming = [
                *(asyncio.create_task(ask(shard, api(where))) for where in old),
                *(asyncio.create_task(ask(shard, register(where))) for where in new),
            ]
            await asyncio.sleep(LASTS)
            assert not any(one.done() for one in coming)
        replies = await asyncio.wait_for(asyncio.gather(*coming), SOON)
        assert all(isinstance(reply, OfferReply | RegisterReply) for reply in replies)
        more = await shard.handle([kafka(where) for where in old])
        assert all(isinstance(one, OfferReply) and one.verdict is Verdict.MATCHED for one in more)
        assert shard.snapshot()["rows_refused"] == 0


@_of(EVENTS)
async def test_a_writer_of_events_holds_them(database: str, trouble: Trouble) -> None:
    async with a_writer(database) as (writer, _):
        await writer.put([event()])
        async with trouble(database):
            puts = [asyncio.create_task(writer.put([event()])) for _ in range(20)]
            await asyncio.sleep(LASTS)
            assert not any(one.done() for one in puts)
        stored = await asyncio.wait_for(asyncio.gather(*puts), SOON)
        assert not any(one.duplicate for (one,) in stored)


def ingest_of(pool: Pool, shard: Shard) -> Ingest:
    """Ingest whose events go to one shard."""

    async def send_many(messages: list[WaitMessage]) -> list[Reply]:
        return await shard.handle(messages)

    profiles = IdFieldRegistry(
        partial(keys.list_profiles, pool), partial(keys.create_profile, pool)
    )
    deps = IngestDeps(
        resolver=CorrelationResolver(profiles, partial(waits.load_waits, pool)),
        send_many=send_many,
        store=PostgresIngestStore(pool, 3600.0),
        now=time.time,
        chance=random.random,
        new_turn_id=lambda: uuid.uuid4().hex,
    )
    return Ingest(deps, 1_000_000)


@_of([("read-only", read_only), ("table renamed", partial(renamed, table="event_inbox"))])
async def test_ingest_holds_back_and_buries_nothing(database: str, trouble: Trouble) -> None:
    pool = await open_pool(PoolOptions(dsn=database, name="ingest", max_size=3))
    tenant = await keys.create_tenant(pool, "own")
    async with running_shard(database) as shard:
        records = [
            KafkaMessage(topic="t", partition=0, offset=at, value=_value(at)) for at in range(20)
        ]
        async with trouble(database):
            handling = asyncio.create_task(ingest_of(pool, shard).handle(tenant, records))
            await asyncio.sleep(LASTS)
            assert not handling.done()
        done = await asyncio.wait_for(handling, SOON)
    assert (done.messages, done.unplaced, done.dead_letters) == (20, 10, [])
    assert done.verdicts == {"buffered": 10}
    assert await pool.fetchval("select count(*) from dead_letters") == 0
    assert await pool.fetchval("select count(*) from event_inbox") == 20
    await pool.close()


async def test_more_events_than_a_log_has_room_for_hold_up_nobody(database: str) -> None:
    """An order whose status goes on changing after its wait has ended."""
    pool = await open_pool(PoolOptions(dsn=database, name="ingest", max_size=3))
    where, other = address(), address()
    async with running_shard(database, log_limit=256) as shard:
        await shard.handle([register(where), register(other)])
        ingest = ingest_of(pool, shard)
        records = [_record(at, where) for at in range(300)]
        done = await asyncio.wait_for(ingest.handle(1, [*records, _record(300, other)]), 30)
    assert (done.messages, done.dead_letters) == (301, [])
    assert done.verdicts == {"matched": 2, "duplicate": 299}
    assert await pool.fetchval("select max(log_length) from execution_wait_states") == 256
    await pool.close()


def _record(at: int, where: Address) -> KafkaMessage:
    ids = {"correlation_id": where.correlation_id, "execution_id": where.execution_id}
    value = msgspec.json.encode(ids)
    return KafkaMessage(topic="process.completed", partition=0, offset=at, value=value)


def _value(at: int) -> bytes:
    """Every second one has ids."""
    return b"{}" if at % 2 else f'{{"correlation_id":"c{at}","execution_id":"e"}}'.encode()


@_of(
    [
        ("read-only", read_only),
        ("table renamed", partial(renamed, table="dispatch_attempts")),
    ]
)
async def test_what_was_delivered_is_not_sent_again(database: str, trouble: Trouble) -> None:
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    async with webhook_receiver() as hooks:
        shop = await PoolTenant.open(database, pool, hooks, "shop", concurrency=20)
        hooks.takes[shop.path] = 0.5
        async with shop.working() as actor:
            await shop.post(range(20), actor)
            await shop.until(lambda: len(shop.came) == 20)
            async with trouble(database):
                await asyncio.sleep(LASTS)
            await asyncio.wait_for(shop.done(), SOON)
    assert sorted(numbers(shop.came)) == list(range(20))
    pool.terminate()


async def test_one_poisoned_row_among_two_thousand_is_found_by_halves(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    flush = ShardStore.flush

    async def counted(self: ShardStore, changes: Sequence[WaitChange]) -> set[bytes]:
        sizes.append(len(changes))
        return await flush(self, changes)

    monkeypatch.setattr(ShardStore, "flush", counted)
    places = [address() for _ in range(2_000)]
    async with running_shard(database, flush_limit=2_000) as shard:
        await shard.handle([register(where) for where in places])
        before = len(sizes)
        bad = api(places[1_234], content_type="text/pl\x00ain")
        offers = [bad if at == 1_234 else api(where) for at, where in enumerate(places)]
        replies = await shard.handle(offers)
    refused = [(at, one) for at, one in enumerate(replies) if isinstance(one, RefusedReply)]
    assert [(at, one.kind) for at, one in refused] == [(1_234, RefusalKind.BROKEN)]
    assert len(sizes) - before <= 2 * math.ceil(math.log2(2_000)) + 2


async def test_a_row_that_takes_too_long_is_refused_and_holds_up_nobody(database: str) -> None:
    """Somebody holds the lock of one row: the others are stored, and that one is given up."""
    slow, others = address(), [address() for _ in range(15)]
    async with running_shard(database, statement_timeout=0.3) as shard:
        await shard.handle([register(where) for where in [slow, *others]])
        conn = await asyncpg.connect(database)
        async with conn.transaction():
            await conn.execute(
                "select from execution_wait_states where wait_key = $1 for update", slow.key
            )
            replies = await asyncio.wait_for(
                shard.handle([api(where) for where in [slow, *others]]), 30
            )
            assert all(isinstance(one, OfferReply) for one in replies[1:])
            assert isinstance(replies[0], RefusedReply)
            assert replies[0].kind is RefusalKind.BROKEN
            assert "statement timeout" in replies[0].detail
        await conn.close()
        again = await ask(shard, api(slow))
    assert isinstance(again, OfferReply)
    assert again.verdict is Verdict.MATCHED


async def test_a_flush_is_bounded_in_bytes(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    weights: list[int] = []
    flush = ShardStore.flush

    async def weighed(self: ShardStore, changes: Sequence[WaitChange]) -> set[bytes]:
        lines = [entry for change in changes for entry in change.entries]
        weights.append(sum(len(entry.payload) for entry in lines))
        return await flush(self, changes)

    monkeypatch.setattr(ShardStore, "flush", weighed)
    places = [address() for _ in range(30)]
    async with running_shard(database) as shard:
        await shard.handle([register(where) for where in places])
        replies = await shard.handle([api(where, b"x" * 1_000_000) for where in places])
    assert all(isinstance(one, OfferReply) for one in replies)
    assert max(weights) <= 8 * 1024 * 1024
    assert sum(weights) == 30_000_000
