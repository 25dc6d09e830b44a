"""What one tenant waits for where another fills the shard: short flushes, and its turn in each."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from actors.entities.fair_flush import BYTES, ROWS
from actors.waits.shard import Shard
from core.shared.address import Address
from core.shared.config import Config
from core.waits.messages import Offer, Register
from core.waits.spec import ExpectedEvent, Source, WaitSpec, encode_spec
from storage.waits.flush import WaitChange
from tests.unit.actors.waits.test_shard_memory import SlowStore, World, ended

SPEC = encode_spec(WaitSpec(events=(ExpectedEvent(name="a", source=Source.API),)))


class CountingStore(SlowStore):
    """Stores when it is let, and remembers whose rows each flush had."""

    def __init__(self) -> None:
        super().__init__(ended())
        self.flushes: list[list[int]] = []
        self.is_flushing = asyncio.Event()

    async def flush(self, changes: Sequence[WaitChange]) -> set[bytes]:
        self.flushes.append([change.tenant for change in changes])
        self.is_flushing.set()
        return await super().flush(changes)


def registrations(tenant: int, count: int) -> list[Register]:
    return [
        Register(
            address=Address(tenant, f"run-{at}", "c"),
            turn_id="r",
            node_id="n",
            spec=SPEC,
            fresh=True,
        )
        for at in range(count)
    ]


@contextlib.asynccontextmanager
async def at_work(store: CountingStore) -> AsyncIterator[Shard]:
    shard = Shard(Config(dsn=""), store, World())
    loops = [asyncio.create_task(shard.run_forever())]
    try:
        yield shard
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)


async def test_beside_others_a_flush_is_short_and_each_tenant_has_its_turn() -> None:
    store = CountingStore()
    async with at_work(store) as shard:
        first = asyncio.create_task(shard.handle([*registrations(2, 1)]))
        await store.is_flushing.wait()
        many = asyncio.create_task(shard.handle([*registrations(1, 1_000)]))
        few = asyncio.create_task(shard.handle([*registrations(3, 2)]))
        await asyncio.sleep(0)
        store.let.set()
        await asyncio.gather(first, few)
        assert store.flushes[:2] == [[2], [3, 3]]  # and not one row of the many
        await many
    assert {len(flush) for flush in store.flushes[2:-1]} == {ROWS}
    assert sum(map(len, store.flushes)) == 1_003


async def test_beside_others_large_rows_are_stored_one_after_another() -> None:
    store = CountingStore()
    async with at_work(store) as shard:
        first = asyncio.create_task(shard.handle([*registrations(2, 1)]))
        await store.is_flushing.wait()
        large = [
            Offer(
                address=Address(1, f"run-{at}", "c"),
                turn_id="o",
                event_id="e",
                source=Source.API,
                label="a",
                payload=b'"%s"' % (b"x" * (BYTES // 2 + 1)),
            )
            for at in range(3)
        ]
        many = asyncio.create_task(shard.handle([*large]))
        await asyncio.sleep(0.01)
        store.let.set()
        await asyncio.gather(first, many)
    assert store.flushes == [[2], [1], [1], [1]]


async def test_alone_a_tenant_has_whole_flushes() -> None:
    store = CountingStore()
    store.let.set()
    async with at_work(store) as shard:
        await shard.handle([*registrations(1, 1_000)])
    assert [len(flush) for flush in store.flushes] == [1_000]
