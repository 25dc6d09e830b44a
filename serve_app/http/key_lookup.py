"""Lookup of API keys that a replica has not cached: many keys share one query.

A caller can send any number of invalid keys. They are cached apart from valid keys, so that they
cannot push valid keys out of the cache.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from core.shared.errors import OverloadedError

UNKNOWN_TTL = 1.0
"""Seconds for which an unknown key is not looked up again."""
MAX_UNKNOWN_KEYS = 10_000
MAX_WAITING_LOOKUPS = 2_000
LOOKUP_BATCH_SIZE = 500

FindLive = Callable[[list[str]], Awaitable[set[str]]]


class KeyLookup:
    """Finds out whether a prefix belongs to a live key."""

    def __init__(
        self, find_live: FindLive, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._find_live = find_live
        self._monotonic = monotonic
        self._unknown: dict[str, float] = {}
        self._waiting: dict[str, asyncio.Future[bool]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def exists(self, prefix: str) -> bool:
        """Return whether there is a live key with this prefix.

        Raises:
            OverloadedError: Too many unknown keys are being looked up.
        """
        if self._unknown.get(prefix, 0.0) > self._monotonic():
            return False
        waiting = self._waiting.get(prefix)
        if waiting is None:
            if len(self._waiting) >= MAX_WAITING_LOOKUPS:
                raise OverloadedError("too many unknown API keys are being looked up")
            waiting = self._waiting[prefix] = asyncio.get_running_loop().create_future()
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        # One caller's cancellation must not cancel the lookup of the others.
        return await asyncio.shield(waiting)

    def forget(self, prefix: str) -> None:
        """Drop what is cached about a prefix, because its key may exist now."""
        self._unknown.pop(prefix, None)

    async def _ask(self) -> None:
        try:
            while self._waiting:
                prefixes = list(self._waiting)[:LOOKUP_BATCH_SIZE]
                try:
                    live = await self._find_live(prefixes)
                except Exception as error:
                    self._fail(prefixes, error)
                else:
                    self._answer(prefixes, live)
        finally:
            self._asking = None

    def _answer(self, prefixes: list[str], live: set[str]) -> None:
        until = self._monotonic() + UNKNOWN_TTL
        for prefix in prefixes:
            if prefix not in live:
                self._unknown.pop(prefix, None)
                self._unknown[prefix] = until
            self._waiting.pop(prefix).set_result(prefix in live)
        while len(self._unknown) > MAX_UNKNOWN_KEYS:
            del self._unknown[next(iter(self._unknown))]

    def _fail(self, prefixes: list[str], error: Exception) -> None:
        for prefix in prefixes:
            waiting = self._waiting.pop(prefix)
            waiting.set_exception(error)
            waiting.exception()  # marks it as retrieved: all callers may have left
