"""Feeds that tell replicas which of their watched correlations changed."""

import asyncio
import contextlib
from collections.abc import Callable

ABSENT_AFTER = 60.0


class _Feed:
    __slots__ = ("changed", "keys", "last_heard", "ready")

    def __init__(self, now: float) -> None:
        self.keys: set[bytes] = set()
        self.changed: dict[bytes, None] = {}
        self.ready = asyncio.Event()
        self.last_heard = now


class ChangeFeeds:
    """A feed carries keys only; the log in Postgres contains what happened."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._feeds: dict[str, _Feed] = {}
        self._watchers: dict[bytes, set[str]] = {}

    def __len__(self) -> int:
        return len(self._watchers)

    async def listen(
        self, name: str, watch: list[bytes], unwatch: list[bytes], wait: float
    ) -> list[bytes]:
        """Change what a feed watches, then wait up to `wait` seconds for changes.

        Newly watched keys count as changed, so that earlier events are read too.
        """
        feed = self._feeds.setdefault(name, _Feed(self._monotonic()))
        feed.last_heard = self._monotonic()
        for key in unwatch:
            self._unwatch(name, feed, key)
        for key in watch:
            feed.keys.add(key)
            feed.changed[key] = None
            self._watchers.setdefault(key, set()).add(name)
        if not feed.changed:
            feed.ready.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(feed.ready.wait(), wait)
        changed, feed.changed = list(feed.changed), {}
        feed.last_heard = self._monotonic()
        return changed

    def leave(self, name: str, key: bytes) -> bool:
        """Remove a correlation from this feed; return whether another feed watches it."""
        feed = self._feeds.get(name)
        if feed is not None:
            self._unwatch(name, feed, key)
        return key in self._watchers

    def changed(self, key: bytes) -> None:
        for name in self._watchers.get(key, ()):
            feed = self._feeds[name]
            feed.changed[key] = None
            feed.ready.set()

    def forget_absent(self) -> None:
        horizon = self._monotonic() - ABSENT_AFTER
        for name, feed in list(self._feeds.items()):
            if feed.last_heard < horizon:
                for key in list(feed.keys):
                    self._unwatch(name, feed, key)
                del self._feeds[name]

    def _unwatch(self, name: str, feed: _Feed, key: bytes) -> None:
        feed.keys.discard(key)
        feed.changed.pop(key, None)
        watchers = self._watchers.get(key)
        if watchers is not None:
            watchers.discard(name)
            if not watchers:
                del self._watchers[key]
