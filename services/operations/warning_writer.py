"""Writes the warnings of one process to Postgres at short intervals."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import structlog

from storage.operations.warnings import NewWarning

log = structlog.get_logger("dispatch")

WRITE_EVERY = 1.0
MAX_WARNINGS = 1_000


@dataclass(eq=False, repr=False)
class WarningWriter:
    """Collects warnings; those of one source are merged."""

    _write: Callable[[NewWarning], Awaitable[object]]
    _more: Callable[[], Iterable[NewWarning]] = tuple
    _open: dict[tuple[int, str, str], NewWarning] = field(default_factory=dict)

    def add(self, warning: NewWarning) -> None:
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
