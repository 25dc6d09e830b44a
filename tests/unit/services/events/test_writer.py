"""What becomes of an event: a job for everybody who wants it, and nothing twice."""

from collections.abc import Sequence

import pytest

from core.dispatch.job import ANCHOR
from core.dispatch.subscription import Binding
from core.events.event import Event
from core.shared.errors import UnavailableError
from services.events.writer import MAX_ROUNDS, StoredEvent
from storage.events.events import EventKey
from tests.support.happenings import event, subscription
from tests.unit.services.events.writer_fixtures import WriterFixture

# What is made of an event


async def test_everybody_who_wants_an_event_gets_a_job() -> None:
    own, anchor, other = subscription(), subscription(ANCHOR, pool_no=2), subscription(2)
    desk = WriterFixture(own, anchor, other)
    one = event()
    assert await desk.writer.put([one]) == [StoredEvent(one, duplicate=False, jobs=2)]
    assert [(pool, pointer.tenant) for pool, pointer in desk.told] == [(1, 1), (2, ANCHOR)]
    assert {pointer.key for _, pointer in desk.told} == set(desk.table.jobs)


@pytest.mark.parametrize(
    ("wanted", "given", "jobs"),
    [(None, "1.1", 1), ("1.1", "1.1", 1), ("1.*", "1.1", 1), ("2.*", "1.1", 0), ("1.1", None, 0)],
)
async def test_a_binding_may_name_a_version(
    wanted: str | None, given: str | None, jobs: int
) -> None:
    desk = WriterFixture(
        subscription(bindings=(Binding("other"), Binding("order.created", wanted)))
    )
    (stored,) = await desk.writer.put([event(type_version=given)])
    assert stored.jobs == jobs


async def test_a_filter_looks_at_each_event() -> None:
    desk = WriterFixture(subscription(filter="a"), subscription(filter="b"), subscription())
    stored = await desk.writer.put([event(subject=name) for name in ("a", "b", "c")])
    assert [one.jobs for one in stored] == [2, 2, 1]


async def test_a_batch_asks_once_for_each_kind_of_event() -> None:
    desk = WriterFixture(subscription())
    await desk.writer.put([event(), event(2), event(), event(type="x"), event(type_version="1.0")])
    assert sorted(desk.asked) == [
        (1, "order.created"),
        (1, "order.created"),
        (1, "x"),
        (2, "order.created"),
    ]


async def test_pools_are_told_in_the_order_of_the_jobs() -> None:
    first, second = subscription(delay_seconds=5), subscription(sequence=3)
    desk = WriterFixture(first, second)
    await desk.writer.put([event(message_group="g") for _ in range(3)])
    pointers = [pointer for _, pointer in desk.told]
    assert [pointer.position for pointer in pointers] == list(range(6))
    assert [pointer.due for pointer in pointers] == [5.0, 0.0] * 3
    assert pointers[0].group == f"{first.code}:g"


async def test_nothing_to_put_is_nothing_to_do() -> None:
    desk = WriterFixture(subscription())
    assert await desk.writer.put([]) == []
    assert desk.table.flushes == []


# Once


async def test_what_is_known_already_is_answered_with_the_first_and_makes_no_jobs() -> None:
    desk = WriterFixture(subscription())
    first, again, third = (event(deduplication_id="d", subject=s) for s in ("1", "2", "3"))
    assert await desk.writer.put([first]) == [StoredEvent(first, duplicate=False, jobs=1)]
    other = event()
    assert await desk.writer.put([again, other, third]) == [
        StoredEvent(first, duplicate=True, jobs=0),
        StoredEvent(other, duplicate=False, jobs=1),
        StoredEvent(first, duplicate=True, jobs=0),
    ]
    assert len(desk.told) == len(desk.table.jobs) == 2


async def test_an_answer_that_was_lost_makes_nothing_twice() -> None:
    """The rows were committed, the connection broke: asked again, the event is its own first."""
    desk = WriterFixture(subscription(), subscription())
    known = event(deduplication_id="d")
    await desk.writer.put([known])
    desk.table.after = [ConnectionError()]
    new, again = event(), event(deduplication_id="d")
    assert await desk.writer.put([new, again]) == [
        StoredEvent(new, duplicate=False, jobs=2),
        StoredEvent(known, duplicate=True, jobs=0),
    ]
    assert len(desk.table.jobs) == 4
    assert {pointer.key for _, pointer in desk.told} == set(desk.table.jobs)


async def test_what_stood_in_the_way_and_is_forgotten_does_so_no_longer() -> None:
    desk = WriterFixture(subscription())
    await desk.writer.put([event(deduplication_id="d")])
    desk.table.forgetful = True
    again = event(deduplication_id="d")
    assert await desk.writer.put([again]) == [StoredEvent(again, duplicate=False, jobs=1)]
    assert len(desk.told) == 2


async def test_an_event_that_can_neither_be_stored_nor_found_is_given_up() -> None:
    desk = WriterFixture()
    desk.table.once[1, "d"] = EventKey(1, "gone")

    async def nothing(_events: Sequence[Event]) -> dict[EventKey, Event]:
        return {}

    desk.table.known = nothing  # type: ignore[method-assign]
    with pytest.raises(UnavailableError):
        await desk.writer.put([event(deduplication_id="d")])
    # Alone, it is tried once more before it is given up.
    assert len(desk.table.flushes) == 2 * (1 + MAX_ROUNDS)
