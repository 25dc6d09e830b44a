"""Whether the machine was ours alone: what neighbours and the hypervisor took meanwhile."""

import threading
import time
from types import TracebackType

import psutil

from bench.stage import Stage, cpu_of

EVERY = 2.0


class Noise:
    """Watches for as long as the block lasts. A figure from a noisy run is no figure."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._seen: dict[psutil.Process, float] = {}
        self._foreign = 0.0
        self._began = self._seconds = self._steal = 0.0

    def __enter__(self) -> "Noise":
        self._began, self._steal = time.monotonic(), _steal()
        self._look()
        self._foreign = 0.0  # what they had used before
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._look()
        self._seconds = time.monotonic() - self._began
        self._steal = _steal() - self._steal

    def shares(self) -> dict[str, float]:
        """Of all the machine's CPU time."""
        capacity = self._seconds * (psutil.cpu_count() or 1)
        return {
            "foreign": round(self._foreign / capacity, 3),
            "steal": round(self._steal / capacity, 3),
        }

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            self._look()

    def _look(self) -> None:
        ours = set(self._stage.family())
        now = {process: cpu_of(process) for process in psutil.process_iter() if process not in ours}
        self._foreign += sum(max(0.0, cpu - self._seen.get(p, 0.0)) for p, cpu in now.items())
        self._seen = now


def _steal() -> float:
    return float(getattr(psutil.cpu_times(), "steal", 0.0))
