"""A watcher is woken, gives up in time, and can be stopped at any moment."""

import asyncio

import pytest

from actors.messaging.change_watch import ChangeWatch


async def test_what_happened_before_the_watch_counts_as_a_change() -> None:
    watch = ChangeWatch()
    assert await watch.changed(timeout=60)
    assert not await watch.changed(timeout=0)


async def test_a_wake_is_not_lost_between_two_looks() -> None:
    watch = ChangeWatch()
    await watch.changed(timeout=60)
    watch.wake()
    assert await watch.changed(timeout=0.01)


async def test_one_that_is_stopped_while_it_is_woken_stops() -> None:
    """Whoever stops it waits for its end; a cancellation that goes unheard would hold both up."""
    watch = ChangeWatch()
    await watch.changed(timeout=60)
    watching = asyncio.create_task(watch.changed(timeout=60))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    watch.wake()
    assert watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
