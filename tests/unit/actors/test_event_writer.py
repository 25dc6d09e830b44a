"""Events in groups: in order, once, answered after the commit, within bounds."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.breath import STEP
from actors.event_writer import MOST_ROUNDS, Bounds, EventWriter, Stored
from core.dispatch.event_job import EventJob
from core.dispatch.job import ANCHOR, JobKey, Pointer
from core.errors import InvalidError, OverloadedError, UnavailableError
from core.event import Event
from core.subscription import Binding, Subscription
from storage.events import EventKey, Flushed, Place
from tests.support.happenings import event, new_id, subscription


class Table:
    """The two tables, as far as a writer sees them. A flush may be held, and may fail."""

    transient: tuple[type[Exception], ...] = (ConnectionError,)

    def __init__(self) -> None:
        self.events: dict[EventKey, Event] = {}
        self.once: dict[tuple[int, str], EventKey] = {}
        self.jobs: dict[JobKey, Place] = {}
        self.flushes: list[int] = []
        self.begun = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.before: list[Exception] = []
        self.after: list[Exception] = []
        self.refuses: Callable[[Event], bool] = lambda _event: False
        self.forgetful = False
        self.closed = False

    async def flush(self, events: Sequence[Event], jobs: Sequence[EventJob]) -> Flushed:
        self.flushes.append(len(events))
        self.begun.set()
        await self.open.wait()
        if self.before:
            raise self.before.pop(0)
        if any(map(self.refuses, events)):
            raise ValueError("a value that cannot be stored")
        flushed = Flushed()
        for one in sorted(events, key=lambda one: (one.tenant, one.deduplication_id or "")):
            self._store(one, flushed)
        for job in jobs:
            if EventKey(job.event_tenant, job.event_id) in flushed.stored:
                place = Place(len(self.jobs), float(job.delay_seconds))
                self.jobs[job.key] = flushed.jobs[job.key] = place
        if self.after:
            raise self.after.pop(0)
        return flushed

    def _store(self, one: Event, flushed: Flushed) -> None:
        key = EventKey(one.tenant, one.event_id)
        once = (one.tenant, one.deduplication_id or one.event_id)
        if key not in self.events and once not in self.once:
            self.events[key], self.once[once] = one, key
            flushed.stored.add(key)

    async def known(self, events: Sequence[Event]) -> dict[EventKey, Event]:
        if self.forgetful:
            self.forgetful = False
            self.events.clear()
            self.once.clear()
        found = {}
        for one in events:
            key = self.once.get((one.tenant, one.deduplication_id or one.event_id))
            if key is not None:
                found[EventKey(one.tenant, one.event_id)] = self.events[key]
        return found

    async def known_jobs(self, jobs: Sequence[JobKey]) -> dict[JobKey, Place]:
        return {job: self.jobs[job] for job in jobs if job in self.jobs}

    def close(self) -> None:
        self.closed = True


class Desk:
    """A writer with everything around it."""

    def __init__(self, *wishes: Subscription, **bounds: Any) -> None:
        self.table = Table()
        self.wishes = wishes
        self.asked: list[tuple[int, str]] = []
        self.told: list[tuple[int, Pointer]] = []
        self.informed = asyncio.Event()
        self.hand_over_fails = False
        self.writer = EventWriter(
            self.table, self, new_id, self.hand_over, self.wanted, Bounds(**bounds)
        )

    async def matching(self, tenant: int, type_: str) -> tuple[Subscription, ...]:
        self.asked.append((tenant, type_))
        return tuple(one for one in self.wishes if one.tenant in (tenant, ANCHOR))

    def wanted(self, by: Subscription, what: Event) -> bool:
        return what.subject == by.filter

    async def hand_over(self, jobs: Mapping[int, Sequence[Pointer]]) -> None:
        if self.hand_over_fails:
            raise RuntimeError("the pools are away")
        self.told += [(pool, one) for pool, pointers in jobs.items() for one in pointers]
        self.informed.set()

    async def put_each(self, *events: Event) -> list[Stored]:
        """As many callers, in this order."""
        answers = await asyncio.gather(*(self.writer.put([one]) for one in events))
        return [one for (one,) in answers]


# What is made of an event


async def test_everybody_who_wants_an_event_gets_a_job() -> None:
    own, anchor, other = subscription(), subscription(ANCHOR, pool_no=2), subscription(2)
    desk = Desk(own, anchor, other)
    one = event()
    assert await desk.writer.put([one]) == [Stored(one, duplicate=False, jobs=2)]
    assert [(pool, pointer.tenant) for pool, pointer in desk.told] == [(1, 1), (2, ANCHOR)]
    assert {pointer.key for _, pointer in desk.told} == set(desk.table.jobs)


@pytest.mark.parametrize(
    ("wanted", "given", "jobs"),
    [(None, "1.1", 1), ("1.1", "1.1", 1), ("1.*", "1.1", 1), ("2.*", "1.1", 0), ("1.1", None, 0)],
)
async def test_a_binding_may_name_a_version(
    wanted: str | None, given: str | None, jobs: int
) -> None:
    desk = Desk(subscription(bindings=(Binding("other"), Binding("order.created", wanted))))
    (stored,) = await desk.writer.put([event(type_version=given)])
    assert stored.jobs == jobs


async def test_a_filter_looks_at_each_event() -> None:
    desk = Desk(subscription(filter="a"), subscription(filter="b"), subscription())
    stored = await desk.writer.put([event(subject=name) for name in ("a", "b", "c")])
    assert [one.jobs for one in stored] == [2, 2, 1]


async def test_a_batch_asks_once_for_each_kind_of_event() -> None:
    desk = Desk(subscription())
    await desk.writer.put([event(), event(2), event(), event(type="x"), event(type_version="1.0")])
    assert sorted(desk.asked) == [
        (1, "order.created"),
        (1, "order.created"),
        (1, "x"),
        (2, "order.created"),
    ]


async def test_pools_are_told_in_the_order_of_the_jobs() -> None:
    first, second = subscription(delay_seconds=5), subscription(sequence=3)
    desk = Desk(first, second)
    await desk.writer.put([event(message_group="g") for _ in range(3)])
    pointers = [pointer for _, pointer in desk.told]
    assert [pointer.position for pointer in pointers] == list(range(6))
    assert [pointer.due for pointer in pointers] == [5.0, 0.0] * 3
    assert pointers[0].group == f"{first.code}:g"


async def test_nothing_to_put_is_nothing_to_do() -> None:
    desk = Desk(subscription())
    assert await desk.writer.put([]) == []
    assert desk.table.flushes == []


# Once


async def test_what_is_known_already_is_answered_with_the_first_and_makes_no_jobs() -> None:
    desk = Desk(subscription())
    first, again, third = (event(deduplication_id="d", subject=s) for s in ("1", "2", "3"))
    assert await desk.writer.put([first]) == [Stored(first, duplicate=False, jobs=1)]
    other = event()
    assert await desk.writer.put([again, other, third]) == [
        Stored(first, duplicate=True, jobs=0),
        Stored(other, duplicate=False, jobs=1),
        Stored(first, duplicate=True, jobs=0),
    ]
    assert len(desk.told) == len(desk.table.jobs) == 2


async def test_an_answer_that_was_lost_makes_nothing_twice() -> None:
    """The rows were committed, the connection broke: asked again, the event is its own first."""
    desk = Desk(subscription(), subscription())
    known = event(deduplication_id="d")
    await desk.writer.put([known])
    desk.table.after = [ConnectionError()]
    new, again = event(), event(deduplication_id="d")
    assert await desk.writer.put([new, again]) == [
        Stored(new, duplicate=False, jobs=2),
        Stored(known, duplicate=True, jobs=0),
    ]
    assert len(desk.table.jobs) == 4
    assert {pointer.key for _, pointer in desk.told} == set(desk.table.jobs)


async def test_what_stood_in_the_way_and_is_forgotten_does_so_no_longer() -> None:
    desk = Desk(subscription())
    await desk.writer.put([event(deduplication_id="d")])
    desk.table.forgetful = True
    again = event(deduplication_id="d")
    assert await desk.writer.put([again]) == [Stored(again, duplicate=False, jobs=1)]
    assert len(desk.told) == 2


async def test_an_event_that_can_neither_be_stored_nor_found_is_given_up() -> None:
    desk = Desk()
    desk.table.once[1, "d"] = EventKey(1, "gone")

    async def nothing(_events: Sequence[Event]) -> dict[EventKey, Event]:
        return {}

    desk.table.known = nothing  # type: ignore[method-assign]
    with pytest.raises(UnavailableError):
        await desk.writer.put([event(deduplication_id="d")])
    assert len(desk.table.flushes) == 1 + MOST_ROUNDS


# Groups


async def test_while_one_flush_is_under_way_the_next_gathers() -> None:
    desk = Desk()
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
    desk = Desk()
    desk.table.open.clear()
    putting = asyncio.create_task(desk.writer.put([event()]))
    await desk.table.begun.wait()
    assert not putting.done()
    desk.table.open.set()
    await putting


@given(st.lists(st.integers(1, 4), max_size=20), st.integers(1, 6))
async def test_flushes_stay_within_bounds_and_in_order(sizes: list[int], rows: int) -> None:
    desk = Desk(subscription(), flush_rows=2 * rows)
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
    desk = Desk(flush_bytes=10_000)
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
    desk = Desk(**bounds)
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


async def test_several_events_make_so_many_jobs_and_no_more() -> None:
    desk = Desk(*(subscription() for _ in range(4)), most_jobs=10)
    assert sum(one.jobs for one in await desk.writer.put([event(), event()])) == 8
    with pytest.raises(InvalidError, match="fewer events at once") as raised:
        await desk.writer.put([event() for _ in range(3)])
    assert raised.value.status == 413
    alone = Desk(*(subscription() for _ in range(11)), most_jobs=10)
    assert (await alone.writer.put([event()]))[0].jobs == 11


async def test_a_large_batch_lets_others_have_their_turn() -> None:
    desk = Desk(*(subscription() for _ in range(100)), most_jobs=50_000)
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
    class Slow(Desk):
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


# Trouble


async def test_a_flush_that_failed_is_tried_again() -> None:
    desk = Desk(subscription())
    desk.table.before = [ConnectionError(), ConnectionError()]
    one = event()
    assert await desk.writer.put([one]) == [Stored(one, duplicate=False, jobs=1)]
    assert desk.table.flushes == [1, 1, 1]


async def test_it_is_not_tried_for_longer_than_somebody_waits() -> None:
    desk = Desk(patience=0.5, longest_pause=0.01)
    desk.table.before = [ConnectionError() for _ in range(1_000)]
    with pytest.raises(UnavailableError, match="not stored in time"):
        await desk.writer.put([event()])
    desk.table.before = []
    await desk.writer.put([event()])
    assert len(desk.table.events) == 1


async def test_who_left_before_it_was_begun_has_put_nothing() -> None:
    desk = Desk()
    desk.table.open.clear()
    first = asyncio.create_task(desk.writer.put([event()]))
    await desk.table.begun.wait()
    second = asyncio.create_task(desk.writer.put([event()]))
    await asyncio.sleep(0)
    second.cancel()
    desk.table.open.set()
    await first
    with pytest.raises(asyncio.CancelledError):
        await second
    await desk.writer.put([event()])
    assert len(desk.table.events) == 2


async def test_who_leaves_while_it_is_stored_takes_no_job_away() -> None:
    desk = Desk(subscription())
    desk.table.open.clear()
    putting = asyncio.create_task(desk.writer.put([event()]))
    await desk.table.begun.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    desk.table.open.set()
    await desk.informed.wait()
    assert len(desk.table.jobs) == 1


async def test_what_postgres_will_not_take_harms_nobody_else() -> None:
    desk = Desk(subscription())
    desk.table.refuses = lambda one: one.subject == "bad"
    desk.table.open.clear()
    names = ["a", "b", "bad", "c"]
    puts = [asyncio.create_task(desk.writer.put([event(subject=name)])) for name in names]
    await desk.table.begun.wait()
    desk.table.open.set()
    answers = await asyncio.gather(*puts, return_exceptions=True)
    assert [isinstance(one, ValueError) for one in answers] == [False, False, True, False]
    assert [one.subject for one in desk.table.events.values()] == ["a", "b", "c"]


async def test_pools_that_cannot_be_told_delay_nobody() -> None:
    desk = Desk(subscription())
    desk.hand_over_fails = True
    assert (await desk.writer.put([event()]))[0].jobs == 1
    desk.hand_over_fails = False
    await desk.writer.put([event()])
    assert len(desk.told) == 1


async def test_whoever_waits_is_told_of_the_end() -> None:
    desk = Desk(flush_rows=1)
    desk.table.open.clear()
    puts = [asyncio.create_task(desk.writer.put([event()])) for _ in range(3)]
    await desk.table.begun.wait()
    await desk.writer.close()
    answers = await asyncio.gather(*puts, return_exceptions=True)
    assert [type(one) for one in answers] == [UnavailableError] * 3
    assert desk.table.closed


async def test_a_writer_that_did_nothing_can_be_closed() -> None:
    desk = Desk()
    await desk.writer.close()
    assert desk.table.closed
