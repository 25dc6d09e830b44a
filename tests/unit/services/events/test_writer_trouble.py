"""Writes that fail, callers who leave, pools that are away: nobody else is harmed by them."""

import asyncio

import asyncpg
import pytest
from msgspec.structs import replace

from core.shared.errors import InvalidError, UnavailableError
from services.events.writer import StoredEvent
from storage.events.events import EventKey
from tests.support.happenings import event, subscription
from tests.unit.services.events.writer_fixtures import WriterFixture


async def test_a_flush_that_failed_is_tried_again() -> None:
    desk = WriterFixture(subscription())
    desk.table.before = [ConnectionError(), ConnectionError()]
    one = event()
    assert await desk.writer.put([one]) == [StoredEvent(one, duplicate=False, jobs=1)]
    assert desk.table.flushes == [1, 1, 1]


async def test_it_is_not_tried_for_longer_than_somebody_waits() -> None:
    desk = WriterFixture(patience=0.5, max_pause=0.01)
    desk.table.before = [ConnectionError() for _ in range(1_000)]
    with pytest.raises(UnavailableError, match="not stored in time"):
        await desk.writer.put([event()])
    desk.table.before = []
    await desk.writer.put([event()])
    assert len(desk.table.events) == 1


async def test_who_left_before_it_was_begun_has_put_nothing() -> None:
    desk = WriterFixture()
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
    desk = WriterFixture(subscription())
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
    desk = WriterFixture(subscription())
    desk.table.refuses = lambda one: one.subject == "bad"
    desk.table.open.clear()
    names = ["a", "b", "bad", "c"]
    puts = [asyncio.create_task(desk.writer.put([event(subject=name)])) for name in names]
    await desk.table.begun.wait()
    desk.table.open.set()
    answers = await asyncio.gather(*puts, return_exceptions=True)
    assert [isinstance(one, InvalidError) for one in answers] == [False, False, True, False]
    assert [one.subject for one in desk.table.events.values()] == ["a", "b", "c"]


async def test_one_bad_event_is_found_by_halves() -> None:
    desk = WriterFixture()
    desk.table.refuses = lambda one: one.subject == "bad"
    desk.table.open.clear()
    names = [*"a" * 699, "bad", *"a" * 324]
    puts = [asyncio.create_task(desk.writer.put([event()])) for _ in range(1)]
    await desk.table.begun.wait()
    puts += [asyncio.create_task(desk.writer.put([event(subject=name)])) for name in names]
    await asyncio.sleep(0)
    desk.table.open.set()
    answers = await asyncio.gather(*puts, return_exceptions=True)
    assert sum(isinstance(one, InvalidError) for one in answers) == 1
    assert len(desk.table.events) == 1_024
    # The first alone; 1 024 and its halves down to one; the bad one once more.
    assert len(desk.table.flushes) == 1 + (1 + 2 * 10) + 1


async def test_a_server_that_takes_nothing_refuses_nobody() -> None:
    desk = WriterFixture(max_pause=0.0)
    desk.table.before = [asyncpg.NotNullViolationError("new_column") for _ in range(3)]
    desk.table.takes_nothing = asyncpg.NotNullViolationError("new_column")
    assert len(await desk.writer.put([event()])) == 1


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.ReadOnlySQLTransactionError("a standby"),
        asyncpg.UndefinedColumnError("renamed"),
        asyncpg.InvalidPasswordError("rotated"),
        asyncpg.QueryCanceledError("statement timeout"),
    ],
)
async def test_trouble_of_the_server_is_waited_out(error: Exception) -> None:
    desk = WriterFixture(max_pause=0.0)
    desk.table.before = [error] * 4
    if isinstance(error, asyncpg.QueryCanceledError):
        desk.table.takes_nothing = error
    assert len(await desk.writer.put([event()])) == 1


async def test_pools_that_cannot_be_told_delay_nobody() -> None:
    desk = WriterFixture(subscription())
    desk.hand_over_fails = True
    assert (await desk.writer.put([event()]))[0].jobs == 1
    desk.hand_over_fails = False
    await desk.writer.put([event()])
    assert len(desk.told) == 1


async def test_whoever_waits_is_told_of_the_end() -> None:
    desk = WriterFixture(flush_rows=1)
    desk.table.open.clear()
    puts = [asyncio.create_task(desk.writer.put([event()])) for _ in range(3)]
    await desk.table.begun.wait()
    await desk.writer.close()
    answers = await asyncio.gather(*puts, return_exceptions=True)
    assert [type(one) for one in answers] == [UnavailableError] * 3
    assert desk.table.closed


async def test_a_writer_that_did_nothing_can_be_closed() -> None:
    desk = WriterFixture()
    await desk.writer.close()
    assert desk.table.closed


async def test_an_id_that_is_anothers_is_given_up_and_the_event_is_stored() -> None:
    """Two processes may make one id, as after a restore: nobody is told of the other's event."""
    desk = WriterFixture(subscription())
    theirs = event(data=b"theirs")
    await desk.writer.put([theirs])
    ours = replace(theirs, data=b"ours", deduplication_id=None)
    (stored,) = await desk.writer.put([ours])
    assert not stored.duplicate
    assert stored.event.event_id != theirs.event_id
    assert stored.event.data == b"ours"
    assert stored.jobs == 1
    assert {one.data for one in desk.table.events.values()} == {b"theirs", b"ours"}
    assert len(desk.table.jobs) == 2


async def test_an_event_whose_answer_was_lost_keeps_its_id_though_postgres_rounds_its_time() -> (
    None
):
    desk = WriterFixture(subscription())
    one = event(time=1_800_000_000.123_456_7)
    desk.table.events[EventKey(one.tenant, one.event_id)] = replace(one, time=1_800_000_000.123_457)
    desk.table.once[one.tenant, one.deduplication_id or one.event_id] = EventKey(
        one.tenant, one.event_id
    )
    assert await desk.writer.put([one]) == [StoredEvent(one, duplicate=False, jobs=1)]
    assert len(desk.table.events) == 1
