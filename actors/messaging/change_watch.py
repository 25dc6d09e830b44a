"""Watches correlations: one feed per actor and process, distributed to the watchers here."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import structlog
from ray.exceptions import RayError

from actors.runtime.directory import Directory
from actors.runtime.names import host_actor_name
from core.shared.address import Address
from core.shared.config import Config
from core.shared.errors import TransientError
from services.shared.process import BackgroundTasks

log = structlog.get_logger("watch")

LISTEN_FOR = 20.0


class ChangeWatch:
    """One watcher of one correlation."""

    def __init__(self) -> None:
        # Set at first, because changes before the watch began have to be read as well.
        self._event = asyncio.Event()
        self._event.set()

    def wake(self) -> None:
        self._event.set()

    async def changed(self, timeout: float) -> bool:
        """Wait for a change since the last call; return False if there was none in time."""
        try:
            # Not wait_for: in Python 3.11 it can swallow a cancellation.
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class _Feed:
    """The watches of this process on one actor, and the loop that listens for them."""

    def __init__(self) -> None:
        self.watches: dict[bytes, set[ChangeWatch]] = {}
        self.added: set[bytes] = set()
        self.removed: set[bytes] = set()
        self.task: asyncio.Task[None] | None = None

    def wake(self, key: bytes) -> None:
        for watch in self.watches.get(key, ()):
            watch.wake()


class ChangeWatches:
    """All watches of this process."""

    def __init__(self, config: Config, directory: Directory, feed: str) -> None:
        self._config = config
        self._directory = directory
        self._name = feed
        self._feeds: dict[str, _Feed] = {}
        self._adding = BackgroundTasks()

    @contextlib.asynccontextmanager
    async def watch(self, address: Address) -> AsyncIterator[ChangeWatch]:
        key = address.key
        target = host_actor_name(key, self._config)
        feed = self._feeds.setdefault(target, _Feed())
        watch = ChangeWatch()
        feed.watches.setdefault(key, set()).add(watch)
        feed.added.add(key)
        feed.removed.discard(key)
        self._restart(target, feed)
        try:
            yield watch
        finally:
            watches = feed.watches[key]
            watches.discard(watch)
            if not watches:
                del feed.watches[key]
                feed.added.discard(key)
                feed.removed.add(key)

    def renew(self, address: Address) -> None:
        """Watch a correlation again, if it is watched: its actor may have forgotten it."""
        target = host_actor_name(address.key, self._config)
        feed = self._feeds.get(target)
        if feed is not None and address.key in feed.watches:
            feed.added.add(address.key)
            self._restart(target, feed)

    async def close(self) -> None:
        for feed in self._feeds.values():
            if feed.task is not None:
                feed.task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await feed.task

    def _restart(self, target: str, feed: _Feed) -> None:
        """Send a new key to the actor now, not when the running call returns."""
        if feed.task is None or feed.task.done():
            feed.task = asyncio.create_task(self._listen(target, feed))
        else:
            self._adding.start(self._add(target, feed))

    async def _add(self, target: str, feed: _Feed) -> None:
        """Make a short call beside the long one; the actor then wakes the long one."""
        with contextlib.suppress(RayError, TransientError, ValueError):
            await self._call(target, feed, wait=0.0)

    async def _listen(self, target: str, feed: _Feed) -> None:
        while feed.watches or feed.removed:
            try:
                await self._call(target, feed, wait=LISTEN_FOR if feed.watches else 0.0)
            except (RayError, TransientError, ValueError) as error:
                # The actor has restarted and lost its feeds: watch all keys again and wake all
                # watchers.
                log.warning("watch.feed_lost", target=target, error=type(error).__name__)
                self._directory.forget(target)
                feed.added |= set(feed.watches)
                feed.removed.clear()
                await asyncio.sleep(0.2)
        self._feeds.pop(target, None)

    async def _call(self, target: str, feed: _Feed, wait: float) -> None:
        added, feed.added = feed.added, set()
        removed, feed.removed = feed.removed, set()
        try:
            handle = await self._directory.handle(target)
            changed = await handle.listen.remote(self._name, list(added), list(removed), wait)
        except BaseException:
            feed.added |= added & set(feed.watches)
            feed.removed |= removed
            raise
        for key in changed:
            feed.wake(key)
