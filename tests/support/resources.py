"""The demo's resources, running beside tests that are not asynchronous."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tools.demo.gathers.resource import DemoResources


@contextmanager
def running_resources() -> Iterator[DemoResources]:
    """Play resources in a thread; what they remember may be read, and `behave` be called."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    stopped = asyncio.Event()
    playing: list[DemoResources] = []

    async def play() -> None:
        async with DemoResources() as resources:
            playing.append(resources)
            ready.set()
            await stopped.wait()

    def run() -> None:
        try:
            loop.run_until_complete(play())
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=run, name="demo-resources")
    thread.start()
    try:
        assert ready.wait(30)
        assert playing, "the resources could not be started"
        yield playing[0]
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(stopped.set)
        thread.join(30)
        assert not thread.is_alive()
