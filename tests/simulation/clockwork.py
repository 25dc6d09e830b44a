"""An event loop whose time is simulated: waiting costs nothing, and every run is the same."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Time(selectors.BaseSelector):
    """A selector without files: selecting only lets time pass."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everything waits for something that never comes")
        self.now += max(0.0, timeout)
        return []

    def register(self, *_: Any, **__: Any) -> selectors.SelectorKey:
        raise NotImplementedError("the simulation has no files")

    def unregister(self, *_: Any) -> selectors.SelectorKey:
        raise NotImplementedError("the simulation has no files")

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return {}


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, time: _Time) -> None:
        self._time = time
        super().__init__(time)

    def time(self) -> float:
        return self._time.now

    def _make_self_pipe(self) -> None:
        """Nobody calls from another thread."""

    def _close_self_pipe(self) -> None:
        """There is none."""


def simulate(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in simulated time."""
    loop = _Loop(_Time())
    try:
        return loop.run_until_complete(main)
    finally:
        # All at once: one that went on while another ends would add to a story that is over.
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.close()
