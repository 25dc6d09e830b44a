"""A shard between two flushes: what it decided and has not stored yet must not be forgotten."""

import asyncio
import contextlib
from collections.abc import Sequence

from actors.waits.shard import Shard
from core.shared.address import Address
from core.shared.config import Config
from core.waits.messages import Offer, OfferReply, Register, Verdict
from core.waits.spec import ExpectedEvent, Source, Strategy, WaitSpec, encode_spec
from core.waits.state import ParkedEvent, Wait
from core.waits.transitions import apply
from storage.waits.flush import WaitChange
from storage.waits.waits import LoadedWait, WaitLookup

ENDED, OTHER = Address(1, "run", "ended"), Address(1, "run", "other")
SPEC = WaitSpec(events=(ExpectedEvent(name="a", source=Source.API),), strategy=Strategy.ANY)


def register(where: Address) -> Register:
    return Register(
        address=where, turn_id="r", node_id=where.correlation_id, spec=encode_spec(SPEC)
    )


def offer(name: str) -> Offer:
    return Offer(
        address=ENDED, turn_id=name, event_id=name, source=Source.API, label="x", payload=b"{}"
    )


class SlowStore:
    """Reads at once what is stored; stores only when it is let."""

    def __init__(self, wait: Wait) -> None:
        self.wait = wait
        self.let = asyncio.Event()
        self.flushed: list[WaitChange] = []

    async def load(self, requests: Sequence[WaitLookup]) -> dict[bytes, LoadedWait]:
        keys = [request.key for request in requests]
        return {key: LoadedWait(wait=self.wait if key == ENDED.key else None) for key in keys}

    async def load_early(self, keys: Sequence[bytes]) -> dict[bytes, list[ParkedEvent]]:
        raise NotImplementedError

    async def probe(self) -> None:
        """Take rows, as ever."""

    async def flush(self, changes: Sequence[WaitChange]) -> set[bytes]:
        await self.let.wait()
        self.flushed += changes
        return {change.key for change in changes}

    async def restore_spec(self, tenant: int, spec: WaitSpec, last_deadline: float) -> None:
        raise NotImplementedError

    async def correlation_of_node(self, address: Address, node_id: str) -> str | None:
        return None


class World:
    def now(self) -> float:
        return 20.0

    def monotonic(self) -> float:
        return 20.0

    def chance(self) -> float:
        return 0.0

    def arm_deadlines(self, due: list[tuple[Address, float]]) -> None:
        pass

    def cancel_calls(self, gathers: list[bytes]) -> None:
        pass


def ended() -> Wait:
    opened = apply(None, register(ENDED), 10.0).wait
    assert opened is not None
    done = apply(opened, offer("first"), 11.0).wait
    assert done is not None
    assert done.ending is not None
    return done


async def test_late_events_beside_a_repeated_one_get_lines_of_their_own() -> None:
    """A wait that a repeated event left as it was goes from memory; one that changed must not."""
    store = SlowStore(ended())
    shard = Shard(Config(dsn=""), store, World())
    loops = [asyncio.create_task(shard.run_forever())]
    busy = asyncio.create_task(shard.handle([register(OTHER)]))
    await asyncio.sleep(0.01)  # the writer is at work from here on
    pair = asyncio.create_task(shard.handle([offer("first"), offer("late-1")]))
    await asyncio.sleep(0.01)
    another = asyncio.create_task(shard.handle([offer("late-2")]))
    await asyncio.sleep(0.01)
    store.let.set()
    replies = [*(await pair)[1:], *await another]
    await busy
    for loop in loops:
        loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loop
    assert all(isinstance(r, OfferReply) and r.verdict is Verdict.LATE for r in replies)
    lines = [entry.seq for c in store.flushed if c.key == ENDED.key for entry in c.entries]
    assert lines == [3, 4]
