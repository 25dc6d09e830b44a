"""What one replica counts of gathers: how long requests took, and what went out on streams."""

import contextlib
import time
from collections.abc import AsyncGenerator, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REQUEST_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 27.0, 30.0)
EVENT_BOUNDS = (0, 1, 2, 3, 4, 6, 10, 20, 50, 100)


class GatherMetrics:
    """Counters of one replica."""

    def __init__(self, registry: CollectorRegistry, replica: str) -> None:
        labels = ("replica",)
        self._requests = Histogram(
            "muster_gather_request_seconds",
            "Time to answer a gather: at once for stream, with everything for wait.",
            ("replica", "strategy"),
            buckets=REQUEST_BOUNDS,
            registry=registry,
        )
        self._active = Gauge(
            "muster_sse_active_connections",
            "Gather streams that are open.",
            labels,
            registry=registry,
        ).labels(replica)
        self._seconds = Histogram(
            "muster_sse_connection_seconds",
            "How long gather streams were open.",
            labels,
            buckets=REQUEST_BOUNDS,
            registry=registry,
        ).labels(replica)
        self._events = Histogram(
            "muster_sse_events_per_connection",
            "Events sent on a gather stream.",
            labels,
            buckets=EVENT_BOUNDS,
            registry=registry,
        ).labels(replica)
        self._disconnects = Counter(
            "muster_sse_disconnects",
            "Gather streams whose client went away before the end.",
            labels,
            registry=registry,
        ).labels(replica)
        self._replica = replica
        self.streams = 0

    @contextlib.contextmanager
    def request(self, strategy: str) -> Iterator[None]:
        """Measure one request."""
        began = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - began
            self._requests.labels(self._replica, strategy).observe(seconds)

    async def stream(self, frames: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """The same frames, counted."""
        began, events, is_whole = time.perf_counter(), 0, False
        self.streams += 1
        self._active.inc()
        try:
            async with contextlib.aclosing(frames):
                async for frame in frames:
                    events += frame.count(b"\nevent: ")
                    yield frame
            is_whole = True
        finally:
            self.streams -= 1
            self._active.dec()
            self._seconds.observe(time.perf_counter() - began)
            self._events.observe(events)
            if not is_whole:
                self._disconnects.inc()
