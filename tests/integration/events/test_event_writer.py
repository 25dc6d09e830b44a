"""A writer of events on a real Postgres: races, lost answers, a server that goes away."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import asyncpg

from core.dispatch.event_job import EventJob
from core.dispatch.job import JobRef
from core.dispatch.subscription import Subscription
from core.events.event import Event
from core.shared.tsid import IdMaker
from services.events.writer import EventWriter
from storage.events.event_store import EventStore
from storage.events.events import FlushResult
from storage.postgres.migrate import migrate
from storage.postgres.pool import PoolOptions
from tests.support.happenings import NOW, event, subscription
from tests.support.postgres import BareServer

BY = subscription(pool_no=1)


class Wishes:
    async def matching(self, _tenant: int, _type: str) -> tuple[Subscription, ...]:
        return (BY,)


class Forgetful(EventStore):
    """Loses the connection the moment a flush is committed, so that its answer never comes."""

    losses = 1

    async def flush(self, events: Sequence[Event], jobs: Sequence[EventJob]) -> FlushResult:
        flushed = await super().flush(events, jobs)
        if self.losses:
            self.losses -= 1
            raise ConnectionResetError
        return flushed


@asynccontextmanager
async def a_writer(
    dsn: str, maker: int = 0, store: EventStore | None = None
) -> AsyncIterator[tuple[EventWriter, list[JobRef]]]:
    told: list[JobRef] = []

    async def hand_over(jobs: Mapping[int, Sequence[JobRef]]) -> None:
        told.extend(one for pointers in jobs.values() for one in pointers)

    writer = EventWriter(
        store or EventStore(PoolOptions(dsn=dsn, name=f"writer-{maker}")),
        Wishes(),
        IdMaker(maker, lambda: NOW),
        hand_over,
        lambda _subscription, _event: True,
    )
    try:
        yield writer, told
    finally:
        await writer.close()


async def count(dsn: str, table: str) -> int:
    conn = await asyncpg.connect(dsn)
    try:
        number: int = await conn.fetchval(f"select count(*) from {table}")
    finally:
        await conn.close()
    return number


async def test_of_many_with_the_same_id_one_is_stored_whoever_takes_them(database: str) -> None:
    async with a_writer(database, 0) as (one, heard), a_writer(database, 1) as (two, also):
        puts = [
            writer.put([event(deduplication_id=f"{n % 20}", subject=str(n))])
            for n in range(200)
            for writer in (one, two)
        ]
        stored = [answer for (answer,) in await asyncio.gather(*puts)]
    assert sum(not answer.duplicate for answer in stored) == 20
    assert sum(answer.jobs for answer in stored) == len(heard) + len(also) == 20
    firsts = {(answer.event.deduplication_id, answer.event.event_id) for answer in stored}
    assert len(firsts) == 20
    assert await count(database, "events") == await count(database, "dispatch_jobs") == 20


async def test_a_commit_whose_answer_was_lost_is_found_out(database: str) -> None:
    store = Forgetful(PoolOptions(dsn=database, name="writer"))
    async with a_writer(database, store=store) as (writer, told):
        given = [event(), event(deduplication_id="d"), event(deduplication_id="d")]
        stored = await writer.put(given)
    assert [answer.duplicate for answer in stored] == [False, False, True]
    assert [answer.event for answer in stored] == [*given[:2], given[1]]
    assert [answer.jobs for answer in stored] == [1, 1, 0]
    assert len(told) == await count(database, "dispatch_jobs") == 2


async def test_an_event_waits_for_postgres_to_come_back(bare_server: BareServer) -> None:
    await migrate(bare_server.dsn)
    async with a_writer(bare_server.dsn) as (writer, told):
        await writer.put([event()])
        bare_server.stop("immediate")
        putting = asyncio.create_task(writer.put([event(), event()]))
        await asyncio.to_thread(bare_server.start)
        assert [answer.duplicate for answer in await putting] == [False, False]
        assert len(told) == await count(bare_server.dsn, "events") == 3
