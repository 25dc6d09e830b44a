"""The demo undoes what it did, also when it is told to stop."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def cancel_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the current task as Ctrl-C does: through every `finally`."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is None:
        raise RuntimeError("there is no task to end")
    told: list[signal.Signals] = []

    def end() -> None:
        told.append(signal.SIGTERM)
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    except asyncio.CancelledError:
        if not told:
            raise
        raise typer.Exit(128 + told[0]) from None
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def wait_for_stop() -> None:
    """Wait for Ctrl-C or SIGTERM."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = signal.getsignal(signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stopped.set)
    try:
        await stopped.wait()
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGINT, before)
