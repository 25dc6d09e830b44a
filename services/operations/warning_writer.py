"""Writes the warnings of one process to Postgres at short intervals."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog

from storage.operations.warnings import NewWarning

log = structlog.get_logger("dispatch")

WRITE_EVERY = 1.0
MAX_WARNINGS = 1_000


def _nothing() -> Iterable[NewWarning]:
    return ()


class WarningWriter:
    """Collects warnings; those of one source are merged."""

    def __init__(
        self,
        write: Callable[[NewWarning], Awaitable[object]],
        more: Callable[[], Iterable[NewWarning]] = _nothing,
    ) -> None:
        self._write = write
        self._more = more
        self._open: dict[tuple[int, str, str], NewWarning] = {}

    def add(self, warning: NewWarning) -> None:
        """Queue a warning."""
        key = (warning.tenant, warning.category, warning.source)
        if key in self._open or len(self._open) < MAX_WARNINGS:
            self._open[key] = warning

    async def run_forever(self) -> None:
        """Write the queued warnings, and those that `more` returns."""
        while True:
            await asyncio.sleep(WRITE_EVERY)
            for warning in self._more():
                self.add(warning)
            noted, self._open = self._open, {}
            for warning in noted.values():
                try:
                    await self._write(warning)
                except Exception as error:  # a lost warning must not end the process
                    log.warning("dispatch.warning_lost", error=type(error).__name__)
