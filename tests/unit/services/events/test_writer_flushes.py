"""Events in groups: in order, answered after the commit, within bounds."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.dispatch.subscription import Subscription
from core.events.event import Event
from core.shared.errors import InvalidError, OverloadedError
from services.shared.time_slice import STEP
from tests.support.happenings import event, subscription
from tests.unit.services.events.writer_fixtures import WriterFixture


async def test_while_one_flush_is_under_way_the_next_gathers() -> None:
    desk = WriterFixture()
    desk.table.open.clear()
    events = [event() for _ in range(5)]
    answers = asyncio.create_task(desk.put_each(*events))
    await desk.table.begun.wait()
    desk.table.open.set()
    assert [one.event for one in await answers] == events
    assert desk.table.flushes in ([1, 4], [5])
    again = await desk.put_each(*(event() for _ in range(3)))
    assert len(again) == 3


async def test_nobody_is_answered_before_the_commit() -> None:
    desk = WriterFixture()
    desk.table.open.clear()
    putting = asyncio.create_task(desk.writer.put([event()]))
    await desk.table.begun.wait()
    assert not putting.done()
    desk.table.open.set()
    await putting


@given(st.lists(st.integers(1, 4), max_size=20), st.integers(1, 6))
async def test_flushes_stay_within_bounds_and_in_order(sizes: list[int], rows: int) -> None:
    desk = WriterFixture(subscription(), flush_rows=2 * rows)
    desk.table.open.clear()
    batches = [[event() for _ in range(size)] for size in sizes]
    puts = [asyncio.create_task(desk.writer.put(batch)) for batch in batches]
    await asyncio.sleep(0)
    desk.table.open.set()
    await asyncio.gather(*puts)
    assert all(size <= max(rows, *sizes) for size in desk.table.flushes)
    assert [pointer.position for _, pointer in desk.told] == list(range(sum(sizes)))
    # Between callers that put at the same time there is no order; each of them keeps its own.
    stored = [key.event_id for key in desk.table.events]
    assert len(stored) == sum(sizes)
    for batch in batches:
        start = stored.index(batch[0].event_id)
        assert stored[start : start + len(batch)] == [one.event_id for one in batch]


async def test_a_flush_has_a_weight() -> None:
    desk = WriterFixture(flush_bytes=10_000)
    desk.table.open.clear()
    events = [event(data=b"x" * 4_000) for _ in range(5)]
    putting = asyncio.gather(*(desk.writer.put([one]) for one in events))
    await desk.table.begun.wait()
    desk.table.open.set()
    await putting
    assert sum(desk.table.flushes) == 5
    assert max(desk.table.flushes) == 2


@pytest.mark.parametrize("bounds", [{"pending_rows": 3}, {"pending_bytes": 1_000}])
async def test_more_than_may_wait_is_refused_at_once(bounds: dict[str, int]) -> None:
    desk = WriterFixture(**bounds)
    desk.table.open.clear()
    first = asyncio.create_task(desk.writer.put([event()]))
    await desk.table.begun.wait()
    puts = [first, *(asyncio.create_task(desk.writer.put([event()])) for _ in range(3))]
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError):
        await desk.writer.put([event()])
    desk.table.open.set()
    assert len(await asyncio.gather(*puts)) == 4
    # However large, one is taken where nothing waits.
    await desk.writer.put([event() for _ in range(10)])


async def test_beside_another_a_tenant_has_half_of_what_may_wait() -> None:
    desk = WriterFixture(pending_rows=20)
    desk.table.open.clear()
    puts = [asyncio.create_task(desk.writer.put([event()]))]
    await desk.table.begun.wait()
    puts.append(asyncio.create_task(desk.writer.put([event(tenant=2)])))
    puts += [asyncio.create_task(desk.writer.put([event()])) for _ in range(9)]
    await asyncio.sleep(0.01)
    with pytest.raises(OverloadedError, match="of this tenant"):
        await desk.writer.put([event()])
    puts.append(asyncio.create_task(desk.writer.put([event(tenant=2)])))
    desk.table.open.set()
    assert len(await asyncio.gather(*puts)) == 12


async def test_several_events_make_so_many_jobs_and_no_more() -> None:
    desk = WriterFixture(*(subscription() for _ in range(4)), max_jobs=10)
    assert sum(one.jobs for one in await desk.writer.put([event(), event()])) == 8
    with pytest.raises(InvalidError, match="fewer events at once") as raised:
        await desk.writer.put([event() for _ in range(3)])
    assert raised.value.status == 413
    alone = WriterFixture(*(subscription() for _ in range(11)), max_jobs=10)
    assert (await alone.writer.put([event()]))[0].jobs == 11


async def test_a_large_batch_lets_others_have_their_turn() -> None:
    desk = WriterFixture(*(subscription() for _ in range(100)), max_jobs=50_000)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    try:
        with pytest.raises(InvalidError):
            await desk.writer.put([event() for _ in range(1_000)])
    finally:
        running.cancel()
    assert turns >= 3


async def test_one_event_that_thousands_may_want_lets_others_have_their_turn() -> None:
    class Slow(WriterFixture):
        """A filter takes longer than a step."""

        def wanted(self, by: Subscription, what: Event) -> bool:
            until = time.perf_counter() + 2 * STEP
            while time.perf_counter() < until:
                pass
            return super().wanted(by, what)

    desk = Slow(*(subscription(filter=name) for name in "abcde"))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while not desk.table.begun.is_set():
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    (stored,) = await desk.writer.put([event(subject="c")])
    await running
    assert stored.jobs == 1
    assert turns >= 5
