"""Starts all actors, restarts those that do not answer, and reports their state."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import ray
import structlog

from actors.runtime.actor import Actor
from actors.runtime.directory import ANSWER_WITHIN, Directory, find, list_actor_names
from actors.runtime.names import (
    DEDICATED,
    DISPATCH,
    INGEST,
    MAINTENANCE,
    POOL,
    RELAY,
    SHARD,
    dispatch_pool_name,
    expected_actors,
)
from core.dispatch.job import ANCHOR
from core.shared.config import Config
from core.shared.errors import UnavailableError
from core.shared.stalls import stall_of
from services.shared.process import BackgroundTasks
from services.shared.retry import skip_during_outage
from storage.dispatch import pools
from storage.operations import warnings
from storage.operations.warnings import NewWarning, Severity
from storage.postgres.pool import Pool, PoolOptions, open_pool

log = structlog.get_logger("supervisor")

CHECK_EVERY = 1.0
# Restarting a process that is only slow makes things worse, so it must miss this many checks.
SILENT_CHECKS = 6


class StallWatch:
    """Remembers stalled actors, so that each stall and its end are reported once."""

    def __init__(self, warn: Callable[[NewWarning], Awaitable[object]]) -> None:
        self._warn = warn
        self._stalled: set[str] = set()
        self._tasks = BackgroundTasks()

    def check(self, reports: Iterable[Mapping[str, Any]]) -> None:
        stalls = {str(report["name"]): stall_of(report) for report in reports}
        for name, stall in stalls.items():
            if stall is not None and name not in self._stalled:
                log.error("supervisor.actor_stalled", actor=name, stall=stall)
                self._warn_of(name, stall)
            elif stall is None and name in self._stalled:
                log.info("supervisor.actor_recovered", actor=name)
        self._stalled = {name for name, stall in stalls.items() if stall is not None}

    def _warn_of(self, name: str, stall: str) -> None:
        """Write the warning in a task, because Postgres may be what stalls the actor."""
        message = f"{name} makes no progress: {stall}"
        warning = NewWarning(ANCHOR, "STALLED", Severity.CRITICAL, name, message)
        self._tasks.start(self._write(warning))

    async def _write(self, warning: NewWarning) -> None:
        try:
            await self._warn(warning)
        except Exception as error:  # the stall is also in the log and in health
            log.warning("supervisor.warning_lost", error=type(error).__name__)


class SupervisorActor(Actor[None]):
    """Owns the list of actors; a restart loses no state."""

    kind = "supervisor"

    def __init__(self, name: str, config: Config) -> None:
        super().__init__(name, config)
        self._directory = Directory(config)
        self._reports: dict[str, dict[str, Any]] = {}
        self._silent: dict[str, int] = {}
        self._restarts: dict[str, int] = {}
        self._pids: dict[str, int] = {}
        self._checked = asyncio.Event()
        self._dedicated: list[str] = []
        self._reading: Pool | None = None
        # None until Postgres was read: until then no dispatch pool counts as surplus.
        self._dispatch: list[str] | None = None
        self._stalls = StallWatch(self._warn)

    async def adopt(self, config: Config) -> bool:
        """Return True once every actor runs with this configuration and has answered.

        Return False if this supervisor was created with another configuration; it has then stopped
        its actors. The caller replaces it, so that a restart by Ray uses the new configuration.
        """
        if config != self._config:
            log.info("supervisor.config_changed")
            await asyncio.to_thread(self._kill, [*self._expected(), MAINTENANCE])
            return False
        self._begin()
        while not all(self._is_up(name) for name in self._expected()):
            self._checked.clear()
            await self._checked.wait()
        return True

    async def report(self) -> dict[str, Any]:
        """Describe every actor, as of the last check; the first report starts the checks."""
        self._begin()
        names = self._expected()
        if MAINTENANCE in self._silent:  # it has been checked at least once
            names.append(MAINTENANCE)
        own = {**self._describe(), "alive": True}
        rows = [self._row(name) for name in [*names, *self._dedicated]]
        return {"placement": self._config.placement.value, "actors": [own, *rows]}

    async def _start(self) -> None:
        self._every(CHECK_EVERY, self._check)

    def _expected(self) -> list[str]:
        return [*expected_actors(self._config), *(self._dispatch or ())]

    def _is_up(self, name: str) -> bool:
        return name in self._reports and not self._silent.get(name, 0)

    def _row(self, name: str) -> dict[str, Any]:
        report = self._reports.get(name, {"name": name, "kind": name.rstrip("0123456789-")})
        return {
            **report,
            "alive": self._is_up(name),
            "restarts": self._restarts.get(name, 0),
        }

    async def _warn(self, warning: NewWarning) -> None:
        if self._reading is not None:
            async with asyncio.timeout(ANSWER_WITHIN):
                await warnings.warn(self._reading, warning)

    async def _count_pools(self) -> None:
        """Read which dispatch pools exist; keep the known ones while Postgres is away."""
        if self._reading is None:
            options = PoolOptions(dsn=self._config.dsn, name=self._name, max_size=1)
            self._reading = await open_pool(options)
        with skip_during_outage(self._name):
            async with asyncio.timeout(ANSWER_WITHIN):
                rows = await pools.all_open(self._reading)
            self._dispatch = [dispatch_pool_name(row.pool_no) for row in rows]

    async def _check(self) -> None:
        await self._count_pools()
        names = self._expected()
        if all(self._is_up(name) for name in names):
            names.append(MAINTENANCE)  # last, because no request needs it
        await asyncio.gather(*(self._check_one(name) for name in names))
        self._checked.set()
        self._stalls.check(self._reports.values())
        names = await asyncio.to_thread(list_actor_names, self._config.namespace)
        kinds = (SHARD, INGEST, RELAY, POOL)
        surplus = [n for n in names if n.startswith(kinds) and n not in self._expected()]
        if self._dispatch is None:
            surplus = [name for name in surplus if not name.startswith(DISPATCH)]
        # Shards above the configured number only slow the others down.
        await asyncio.to_thread(self._kill, surplus)
        await self._check_dedicated([name for name in names if name.startswith(DEDICATED)])

    async def _check_dedicated(self, names: list[str]) -> None:
        """Check dedicated actors without starting or stopping them."""
        for name in set(self._dedicated) - set(names):
            self._reports.pop(name, None)
        self._dedicated = names
        await asyncio.gather(*(self._read_report(name) for name in names))

    async def _read_report(self, name: str) -> None:
        with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
            handle = await asyncio.to_thread(find, name, self._config.namespace)
            if handle is not None:
                report = await asyncio.wait_for(handle.report.remote(), ANSWER_WITHIN)
                self._reports[name] = report

    async def _check_one(self, name: str) -> None:
        try:
            report = await self._directory.call(name, "report")
        except UnavailableError as error:
            self._silent[name] = self._silent.get(name, 0) + 1
            log.warning("supervisor.no_answer", actor=name, error=type(error.__cause__).__name__)
            if self._silent[name] >= SILENT_CHECKS:
                await asyncio.to_thread(self._restart, name)
            return
        if self._pids.get(name, report["pid"]) != report["pid"]:
            self._restarts[name] = self._restarts.get(name, 0) + 1
            log.warning("supervisor.restarted", actor=name, pid=report["pid"])
        self._pids[name] = report["pid"]
        self._reports[name] = report
        self._silent[name] = 0

    def _restart(self, name: str) -> None:
        handle = find(name, self._config.namespace)
        if handle is not None:
            ray.kill(handle, no_restart=False)
        self._silent[name] = 1

    def _kill(self, names: list[str]) -> None:
        for name in names:
            handle = find(name, self._config.namespace)
            if handle is not None:
                ray.kill(handle, no_restart=True)
            self._reports.pop(name, None)
