import asyncio

import pytest

from serve_app.http.json_io import with_timeout


async def _soon() -> int:
    await asyncio.sleep(0)
    return 7


async def test_what_comes_in_time_is_handed_on() -> None:
    assert await with_timeout(5.0, _soon()) == 7


async def test_what_need_not_wait_is_done_without_a_timer() -> None:
    async def at_once() -> int:
        return 7

    assert await with_timeout(0.0, at_once()) == 7
    await asyncio.sleep(0.01)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_work_goes_on_after_each_of_its_waits() -> None:
    event = asyncio.Event()

    async def several() -> list[str]:
        steps = ["begun"]
        await asyncio.sleep(0)
        with pytest.raises(ValueError, match="inside"):
            await _fails()
        await event.wait()
        return [*steps, "done"]

    async def _fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("inside")

    asyncio.get_running_loop().call_later(0.01, event.set)
    assert await with_timeout(5.0, several()) == ["begun", "done"]


async def test_work_that_waited_is_given_up_in_time() -> None:
    seen: list[str] = []

    async def never() -> None:
        await asyncio.sleep(0)
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned up")

    with pytest.raises(TimeoutError):
        await with_timeout(0.01, never())
    assert seen == ["cleaned up"]


async def test_what_does_not_come_in_time_is_given_up() -> None:
    never = asyncio.get_running_loop().create_future()
    with pytest.raises(TimeoutError):
        await with_timeout(0.01, never)
    assert never.cancelled()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_an_error_is_the_works_own() -> None:
    async def broken() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await with_timeout(5.0, broken())


async def test_somebody_elses_cancellation_stays_one() -> None:
    task = asyncio.create_task(with_timeout(5.0, asyncio.Event().wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_somebody_elses_cancellation_at_the_same_moment_stays_one() -> None:
    gate = asyncio.Event()

    async def slow_to_end() -> None:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            task.cancel()  # before the first one is through
            raise

    task = asyncio.create_task(with_timeout(0.01, slow_to_end()))
    with pytest.raises(asyncio.CancelledError):
        await task
