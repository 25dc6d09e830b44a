"""Whether the machine was ours alone: what neighbours and the hypervisor took meanwhile."""

import threading
import time
from contextvars import ContextVar
from types import TracebackType

import psutil

from bench.stage import Stage, cpu_of

EVERY = 2.0
TOO_MUCH = 0.05


class Noise:
    """Watches for as long as the block lasts. A figure from a noisy run is no figure."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._seen: dict[psutil.Process, float] = {}
        self._foreign = 0.0
        self._began = self._seconds = self._steal = 0.0
        self._looking = threading.Lock()
        self._lap = (0.0, 0.0)
        self.discarded = 0
        self.noisy = 0

    def __enter__(self) -> "Noise":
        self._began, self._steal = time.monotonic(), _steal()
        self._look()
        self._foreign = 0.0  # what they had used before
        self._thread.start()
        self._set = current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        current.reset(self._set)
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
            "discarded": self.discarded,
            "noisy": self.noisy,
        }

    def lap(self) -> float:
        """Of all the machine's CPU time since the last lap, what others and the hypervisor took."""
        self._look()
        taken, now = self._foreign + _steal(), time.monotonic()
        (before, since), self._lap = self._lap, (taken, now)
        return (taken - before) / max(0.001, now - since) / (psutil.cpu_count() or 1)

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            self._look()

    def _look(self) -> None:
        with self._looking:
            ours = set(self._stage.family())
            others = [process for process in psutil.process_iter() if process not in ours]
            now = {process: cpu_of(process) for process in others}
            self._foreign += sum(max(0.0, cpu - self._seen.get(p, 0.0)) for p, cpu in now.items())
            self._seen = now


def _steal() -> float:
    return float(getattr(psutil.cpu_times(), "steal", 0.0))


# Whoever compares asks this one whether the last pair counts; None where nobody watches.
current: ContextVar[Noise | None] = ContextVar("noise", default=None)


class Quiet:
    """Judges pair by pair. A noisy one is run again, but not more often than half of all."""

    def __init__(self, pairs: int) -> None:
        self._noise = current.get()
        self._left = pairs // 2

    def begin(self) -> None:
        """A pair begins."""
        if self._noise is not None:
            self._noise.lap()

    def counts(self) -> bool:
        """Whether the pair that has just ended does."""
        if self._noise is None:
            return True
        share = self._noise.lap()
        if share <= TOO_MUCH:
            return True
        if self._left == 0:
            self._noise.noisy += 1
            return True
        self._left -= 1
        self._noise.discarded += 1
        return False
