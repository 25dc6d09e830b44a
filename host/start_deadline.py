"""How long to wait for a start: as long as it makes progress, because a busy machine is slow."""

import time
from collections.abc import Callable
from pathlib import Path

from host.paths import InstancePaths
from host.processes import find_processes_in, process_name

MAX_SECONDS_WITHOUT_PROGRESS = 90.0
MAX_SECONDS = 600.0
CHECK_INTERVAL = 1.0


class StartDeadline:
    """Passes when nothing has changed for a while, or when the whole start takes too long."""

    def __init__(
        self,
        sign: Callable[[], object],
        *,
        quiet: float = MAX_SECONDS_WITHOUT_PROGRESS,
        most: float = MAX_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sign = sign
        self._quiet = quiet
        self._most = most
        self._clock = clock
        self._began = self._changed = self._looked = clock()
        self._seen = sign()

    @property
    def waited(self) -> float:
        return self._clock() - self._began

    def has_passed(self) -> bool:
        """Return True if it is time to give up; checks for progress once a second."""
        now = self._clock()
        if now - self._looked >= min(CHECK_INTERVAL, self._quiet):
            self._looked = now
            if (sign := self._sign()) != self._seen:
                self._seen, self._changed = sign, now
        return now - self._changed > self._quiet or now - self._began > self._most


def progress_marks(places: InstancePaths) -> object:
    """Return what changes while an instance starts: its processes and the size of their logs.

    The logs of Ray's own programs are left out: they grow even when nothing happens.
    """
    processes = frozenset(
        (process.pid, process_name(process)) for process in find_processes_in(places.run_dir)
    )
    logs = places.ray / "session_latest" / "logs"
    said = [
        *places.data_dir.glob("*.log"),
        *places.kafka.glob("*.log"),
        *logs.glob("worker-*"),
        *(logs / "serve").glob("*.log"),
    ]
    return processes, sum(map(_size, said)), _size(places.instance)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
