"""Background tasks end with their owner, and what fails is not lost."""

import asyncio
from collections.abc import Iterator

import pytest

from tools.load.tasks import TaskSet, background, poll


async def fail(error: Exception) -> None:
    raise error


async def test_what_runs_in_the_background_ends_with_the_block() -> None:
    async with background(asyncio.Event().wait(), asyncio.Event().wait()) as tasks:
        await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
    assert all(task.cancelled() for task in tasks)


async def test_a_mistake_in_the_background_is_raised_and_a_broken_connection_is_not() -> None:
    async with background(fail(ConnectionResetError())):
        await asyncio.sleep(0)
    with pytest.raises(KeyError):
        async with background(fail(KeyError("x"))):
            await asyncio.sleep(0)


async def test_tasks_are_waited_for_and_those_that_take_too_long_are_counted() -> None:
    tasks = TaskSet()
    tasks.start(asyncio.sleep(0))
    hanging = tasks.start(asyncio.Event().wait())
    assert len(tasks) == 2
    assert await tasks.finish(within=0.01) == 1
    assert hanging.cancelled()
    assert len(tasks) == 0
    assert await tasks.finish() == 0


async def test_a_task_that_failed_earlier_is_raised_at_the_end() -> None:
    tasks = TaskSet()
    tasks.start(fail(ValueError("mistake")))
    await asyncio.sleep(0)
    with pytest.raises(ExceptionGroup) as raised:
        await tasks.finish()
    assert [str(error) for error in raised.value.exceptions] == ["mistake"]


async def test_polling_ends_with_the_first_thing_found() -> None:
    answers: Iterator[int | None] = iter([None, 0, 3, 4])

    async def read() -> int | None:
        return next(answers)

    assert await poll(read, every=0) == 3
