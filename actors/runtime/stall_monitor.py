"""Logs and warns when the work of an actor makes no progress."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import structlog

from core.dispatch.job import ANCHOR
from core.shared.stalls import stall_of
from storage.operations.warnings import NewWarning, Severity

log = structlog.get_logger("supervisor")

CATEGORY = "STALLED"


class StallWatch:
    """Remembers stalled actors, so that each stall and its end are reported once."""

    def __init__(self, warn: Callable[[NewWarning], Awaitable[object]]) -> None:
        self._warn = warn
        self._stalled: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, reports: Iterable[Mapping[str, Any]]) -> None:
        """Compare the latest reports with the previous ones."""
        stalls = {str(report["name"]): stall_of(report) for report in reports}
        for name, stall in stalls.items():
            if stall is not None and name not in self._stalled:
                log.error("supervisor.actor_stalled", actor=name, stall=stall)
                self._tell(name, stall)
            elif stall is None and name in self._stalled:
                log.info("supervisor.actor_goes_on", actor=name)
        self._stalled = {name for name, stall in stalls.items() if stall is not None}

    def _tell(self, name: str, stall: str) -> None:
        """Write the warning in a task, because Postgres may be what stalls the actor."""
        warning = NewWarning(
            tenant=ANCHOR,
            category=CATEGORY,
            severity=Severity.CRITICAL,
            source=name,
            message=f"{name} does not get on: {stall}",
        )
        task = asyncio.create_task(self._write(warning))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, warning: NewWarning) -> None:
        try:
            await self._warn(warning)
        except Exception as error:  # the stall is also in the log and in health
            log.warning("supervisor.warning_lost", error=type(error).__name__)
