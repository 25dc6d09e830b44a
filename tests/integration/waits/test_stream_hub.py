"""Streams of what a real shard commits to a real Postgres."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from actors.messaging.change_watch import ChangeWatch
from actors.waits.shard import Shard
from cli.shell.sse import EventDecoder
from core.gathers.gather import GatherSpec, Question, Resource, encode_gather_spec, wait_spec_of
from core.shared.address import Address
from core.shared.config import Config
from core.waits.messages import Abandon, Offer, Register, Reply
from core.waits.spec import Source, encode_spec
from core.waits.strategy import Outcome
from serve_app.gathers import journals_format  # noqa: F401  registers its format
from serve_app.gathers.stream_format import gather_format
from serve_app.http.sse import FROM_START
from serve_app.streams.hub import READ_AHEAD_BYTES, StreamHub
from serve_app.waits.rendering import WAIT_FORMAT
from storage.postgres.migrate import migrate
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.waits import waits
from tests.support.postgres import BareServer
from tests.support.shards import address, api, ask, kafka, register, running_shard

NAMES = ("one", "two", "three")
INLINE = Resource(url="http://one.example", headers={"X-Key": "s3cr3t"})
ASKED = GatherSpec(asks=tuple(Question(name=name, inline=INLINE) for name in NAMES))
FEED = "replica"


@dataclass
class Door:
    """What a replica has to reach a shard, without Ray in between."""

    config: Config
    pool: Pool
    shard: Shard
    left: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def watch(self, where: Address) -> AsyncIterator[ChangeWatch]:
        watch = ChangeWatch()

        async def listen() -> None:
            added = [where.key]
            while True:
                if await self.shard.feeds.listen(FEED, added, [], 20):
                    watch.wake()
                added = []

        listening = asyncio.create_task(listen())
        try:
            yield watch
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            await self.shard.feeds.listen(FEED, [], [where.key], 0)

    async def abandon(self, where: Address) -> Reply:
        reply = await ask(self.shard, Abandon(address=where, turn_id="a", feed=FEED))
        self.left.set()
        return reply


@contextlib.asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[tuple[Door, StreamHub]]:
    async with running_shard(dsn, log_limit=1_000) as shard:
        pool = await open_pool(PoolOptions(dsn=dsn, name="test"))
        door = Door(Config(dsn=dsn, request_timeout=2.0), pool, shard)
        hub = StreamHub(door, heartbeat=0.5)  # type: ignore[arg-type]
        try:
            yield door, hub
        finally:
            await hub.close()
            await pool.close()


def begin(where: Address) -> Register:
    return Register(
        address=where,
        turn_id="r",
        node_id="gather",
        spec=encode_spec(wait_spec_of(ASKED.asks, 60.0)),
        fresh=True,
        asked=encode_gather_spec(ASKED),
    )


def answer(where: Address, name: str, outcome: Outcome, payload: bytes = b"{}") -> Offer:
    return Offer(
        address=where,
        turn_id=name,
        event_id=f"call/{name}",
        source=Source.API,
        label=name,
        payload=payload,
        outcome=outcome,
    )


async def read(
    hub: StreamHub, where: Address, cursor: int = FROM_START, pause: float = 0.0
) -> list[tuple[str, str]]:
    """The events of a gather's stream, to its end."""
    decoder, seen = EventDecoder(), []
    async with (
        hub.open(where, gather_format(ASKED), 0.2) as channel,
        contextlib.aclosing(channel.frames(cursor)) as frames,
    ):
        async for chunk in frames:
            assert b"s3cr3t" not in chunk
            seen += [(event.event_id or "", event.kind) for event in decoder.feed(chunk)]
            await asyncio.sleep(pause)
    return seen


async def test_many_readers_see_one_gather_from_its_first_answer_to_its_summary(
    database: str,
) -> None:
    where = address()
    async with opened(database) as (door, hub):
        await ask(door.shard, begin(where))
        reading = [asyncio.create_task(read(hub, where)) for _ in range(20)]
        await ask(door.shard, answer(where, "one", Outcome.RECEIVED))
        await ask(door.shard, answer(where, "two", Outcome.REJECTED))
        late = asyncio.create_task(read(hub, where, 2))
        await ask(door.shard, answer(where, "three", Outcome.FAILED))
        whole = [("2", "callback"), ("3", "rejected"), ("4", "error"), ("5", "summary")]
        assert await asyncio.gather(*reading) == [whole] * 20
        assert await late == whole[1:]
        assert await read(hub, where) == whole
        assert hub.readers == 0


async def test_answers_larger_than_what_is_remembered_reach_a_slow_reader_as_well(
    database: str,
) -> None:
    where, large = address(), b'"' + b"x" * READ_AHEAD_BYTES + b'"'
    async with opened(database) as (door, hub):
        await ask(door.shard, begin(where))
        quick = asyncio.create_task(read(hub, where))
        slow = asyncio.create_task(read(hub, where, pause=0.3))
        for name in NAMES:
            await ask(door.shard, answer(where, name, Outcome.RECEIVED, large))
        assert await quick == await slow
        assert [kind for _, kind in await slow] == ["callback"] * 3 + ["summary"]


async def test_an_end_with_a_page_of_late_lines_behind_it_is_an_end(database: str) -> None:
    where, large = address(), b'"' + b"x" * (READ_AHEAD_BYTES // 4) + b'"'
    async with opened(database) as (door, hub):
        await ask(door.shard, register(where))
        await ask(door.shard, api(where, large))
        await ask(door.shard, kafka(where))
        for number in range(12):
            await ask(door.shard, api(where, large, event_id=f"late-{number}"))
        page = await waits.read_log(door.pool, where.key, 2, READ_AHEAD_BYTES)
        assert page.more
        for cursor in (FROM_START, 1, 2):
            async with hub.open(where, WAIT_FORMAT) as channel:
                text = b"".join([chunk async for chunk in channel.frames(cursor)])
            assert text.count(b"\nevent: ended\n") == 1
            assert b"late" not in text


async def test_a_gather_that_is_left_is_cancelled(database: str) -> None:
    where = address()
    async with opened(database) as (door, hub):
        await ask(door.shard, begin(where))
        async with hub.open(where, gather_format(ASKED), 0.2):
            assert hub.readers == 1
        await asyncio.wait_for(door.left.wait(), 10)
        assert await read(hub, where) == [("2", "summary")]
        seen = await waits.read(door.pool, where)
        assert seen is not None
        assert seen.wait.ending is not None
        assert seen.wait.ending.reason == "its last reader disconnected"


async def test_a_stream_outlives_a_restart_of_the_database(bare_server: BareServer) -> None:
    await migrate(bare_server.dsn)
    where = address()
    async with opened(bare_server.dsn) as (door, hub):
        await ask(door.shard, begin(where))
        reading = asyncio.create_task(read(hub, where))
        await ask(door.shard, answer(where, "one", Outcome.RECEIVED))
        await asyncio.to_thread(bare_server.stop, "immediate")
        answering = [
            asyncio.create_task(ask(door.shard, answer(where, name, Outcome.RECEIVED)))
            for name in ("two", "three")
        ]
        await asyncio.to_thread(bare_server.start)
        await asyncio.gather(*answering)
        assert await reading == [
            ("2", "callback"),
            ("3", "callback"),
            ("4", "callback"),
            ("5", "summary"),
        ]
