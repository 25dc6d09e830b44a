"""A timeout for the hot path that is cheaper than `asyncio.timeout`."""

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from types import CoroutineType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def with_timeout(seconds: float, work: Awaitable[T]) -> T:
    """Return the result of `work`. `asyncio.timeout` does the same at four times the cost.

    Work that ends without waiting, such as reading most bodies, needs no timer.

    Raises:
        TimeoutError: There was no result within `seconds`.
    """
    if not isinstance(work, CoroutineType):
        return await _bounded(seconds, work)
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    return await _bounded(seconds, _Begun(work, waits_for))


class _Begun(Generic[T]):
    """A coroutine that has run up to its first wait; awaiting it continues from there."""

    __slots__ = ("_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    sent = yield waits_for
                except BaseException as error:
                    waits_for = self._work.throw(error)
                else:
                    waits_for = self._work.send(sent)
        except StopIteration as done:
            value: T = done.value
            return value


async def _bounded(seconds: float, work: Awaitable[T]) -> T:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  this is a coroutine
    before, timed_out = task.cancelling(), False

    def on_timeout() -> None:
        nonlocal timed_out
        timed_out = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, on_timeout)
    try:
        return await work
    except asyncio.CancelledError:
        if timed_out and task.uncancel() <= before:
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
