"""A correlation in tables that streams are read from. Its turns are the real ones."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from actors.messaging.change_watch import ChangeWatch
from cli.shell.sse import EventDecoder
from core.shared.address import Address
from core.shared.config import Config
from core.shared.errors import UnavailableError
from core.waits.messages import (
    Abandon,
    Cancel,
    Offer,
    RefusalKind,
    RefusedReply,
    Register,
    Reply,
    WaitMessage,
)
from core.waits.spec import Source, WaitSpec, encode_spec
from core.waits.state import Wait, WaitLogEntry
from core.waits.transitions import apply
from serve_app.http.sse import FROM_START, HEARTBEAT_FRAME
from serve_app.streams.hub import Channel, StreamFormat, StreamHub
from serve_app.waits.rendering import WAIT_FORMAT
from storage.postgres.queries import Q
from tests.simulation.clockwork import simulate
from tests.unit.serve_app.container_fixtures import ADDRESS, BOTH

HEARTBEAT = 15.0
# No deadline comes in between.
PATIENT = msgspec.structs.replace(BOTH, timeout=1_000_000.0)


@dataclass
class FakeWaitTables:
    """What Postgres would answer; each question takes `lasts` seconds."""

    wait: Wait | None = None
    entries: list[WaitLogEntry] = field(default_factory=list)
    asked: int = 0
    lasts: float = 0.0
    broken: Exception | None = None

    async def fetchrow(self, query: str, key: bytes, tenant: int) -> dict[str, Any] | None:
        assert query == Q["read_wait"]
        await self._answering()
        wait = self.wait
        if wait is None or (key, tenant) != (wait.address.key, wait.address.tenant):
            return None
        return {
            "tenant_id": tenant,
            "execution_id": wait.address.execution_id,
            "correlation_id": wait.address.correlation_id,
            "node_id": wait.node_id,
            "spec": wait.spec.text,
            "registered_by": wait.registered_by,
            "opened_at": wait.opened_at,
            "expires_at": wait.expires_at,
            "version": wait.version,
            "marks": msgspec.json.encode(wait.marks),
            "log_length": wait.log_length,
            "ending": msgspec.json.encode(wait.ending) if wait.ending else None,
            "resumed_at": None,
            "resumed_by": None,
        }

    async def fetch(self, query: str, _: bytes, *arguments: Any) -> list[dict[str, Any]]:
        await self._answering()
        if query == Q["read_lines"]:
            return [_row(entry) for entry in self.entries if entry.seq in arguments[0]]
        assert query == Q["read_log"]
        after, budget = arguments
        rows, size = [], 0
        for entry in self.entries:
            if entry.seq > after and size < budget:
                rows.append(_row(entry))
                size += len(entry.payload)
        return rows

    async def _answering(self) -> None:
        self.asked += 1
        await asyncio.sleep(self.lasts)
        if self.broken is not None:
            raise self.broken


def _row(entry: WaitLogEntry) -> dict[str, Any]:
    return msgspec.structs.asdict(entry)


@dataclass
class StreamScenario:
    """A replica's door to one correlation, and those who read there."""

    spec: WaitSpec = PATIENT
    pool: FakeWaitTables = field(default_factory=FakeWaitTables)
    config: Config = field(default_factory=lambda: Config(dsn=""))
    watches: list[ChangeWatch] = field(default_factory=list)
    abandoned: list[float] = field(default_factory=list)
    is_shard_away: bool = False
    is_shard_new: bool = False
    hub: StreamHub = field(init=False)

    def __post_init__(self) -> None:
        self.hub = StreamHub(self, HEARTBEAT)  # type: ignore[arg-type]
        spec = encode_spec(self.spec)
        self.say(Register(address=ADDRESS, turn_id="r", node_id="n", spec=spec))

    # The client.

    @contextlib.asynccontextmanager
    async def watch(self, address: Address) -> AsyncIterator[ChangeWatch]:
        assert address == ADDRESS
        watch = ChangeWatch()
        self.watches.append(watch)
        try:
            yield watch
        finally:
            self.watches.remove(watch)

    async def abandon(self, address: Address) -> Reply:
        self.abandoned.append(clock())
        if self.is_shard_away:
            raise UnavailableError("shard-0 is away")
        if self.is_shard_new:
            return RefusedReply(kind=RefusalKind.OVERLOADED, detail="who reads here?")
        return self.say(Abandon(address=address, turn_id="a", feed="f"))

    # The correlation.

    def say(self, message: WaitMessage) -> Reply:
        decision = apply(self.pool.wait, message, clock())
        self.pool.wait = decision.wait
        self.pool.entries += decision.entries
        for watch in self.watches:
            watch.wake()
        return decision.reply

    def callback(self, name: str, size: int = 2) -> None:
        self._offer(Source.API, "bank", name, size)

    def event(self, name: str, size: int = 2) -> None:
        self._offer(Source.KAFKA, "orders", name, size)

    def cancel(self) -> None:
        self.say(Cancel(address=ADDRESS, turn_id="c"))

    def _offer(self, source: Source, label: str, name: str, size: int) -> None:
        payload = b'"' + b"x" * (size - 2) + b'"'
        self.say(
            Offer(
                address=ADDRESS,
                turn_id=name,
                event_id=name,
                source=source,
                label=label,
                payload=payload,
            )
        )

    # Its readers.

    def read(
        self,
        cursor: int = FROM_START,
        pause: float = 0.0,
        leaving: float | None = None,
        story: StreamFormat = WAIT_FORMAT,
    ) -> "Reader":
        return Reader(self, cursor, pause, leaving, story)


@dataclass
class Reader:
    """Reads until the end, with a pause after each chunk."""

    scene: StreamScenario
    cursor: int
    pause: float
    leaving: float | None
    story: StreamFormat
    ids: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    beats: list[float] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    channel: Channel | None = None
    task: "asyncio.Task[None]" = field(init=False)

    def __post_init__(self) -> None:
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        decoder = EventDecoder()
        async with (
            self.scene.hub.open(ADDRESS, self.story, self.leaving) as self.channel,
            contextlib.aclosing(self.channel.frames(self.cursor)) as frames,
        ):
            async for chunk in frames:
                self.chunks.append(chunk)
                if chunk == HEARTBEAT_FRAME:
                    self.beats.append(clock())
                for event in decoder.feed(chunk):
                    assert event.event_id is not None
                    self.ids.append(int(event.event_id))
                    self.kinds.append(event.kind)
                await asyncio.sleep(self.pause)

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def is_done(self) -> bool:
        return self.task.done()


def clock() -> float:
    return asyncio.get_running_loop().time()


async def settle() -> None:
    """Let everything happen that does not need time."""
    for _ in range(50):
        await asyncio.sleep(0)


def run_scenario(
    story: Callable[[StreamScenario], Awaitable[Any]], spec: WaitSpec = PATIENT
) -> None:
    """Run a story in simulated time; nobody may be left watching."""

    async def run() -> None:
        scene = StreamScenario(spec)
        await story(scene)
        await scene.hub.close()
        assert scene.watches == []

    simulate(run())
