"""Metrics of gathers: requests and streams of one replica, and calls to resources.

Series that name a resource cover the asking tenant.
"""

import contextlib
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric

from telemetry.actor_metrics import Actor, stats_of
from telemetry.families import counter, gauge, of_kind, summary

REQUEST_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 27.0, 30.0)
EVENT_BOUNDS = (0, 1, 2, 3, 4, 6, 10, 20, 50, 100)

_ANSWERS = ("ok", "REJECTED")
_STATES = (*_ANSWERS, "TIMEOUT", "CONNECTION_CLOSED", "ERROR")
_ByResource = Mapping[str, Sequence[Mapping[str, Any]]]


class GatherMetrics:
    """Requests and streams of gathers, counted by one replica."""

    def __init__(self, registry: CollectorRegistry, replica: str) -> None:
        self._requests = Histogram(
            "muster_gather_request_seconds",
            "Time to answer a gather: at once for stream, with everything for wait.",
            ("replica", "strategy"),
            buckets=REQUEST_BOUNDS,
            registry=registry,
        )
        own: dict[str, Any] = {"labelnames": ("replica",), "registry": registry}
        text = "Gather streams that are open."
        self._active = Gauge("muster_sse_active_connections", text, **own).labels(replica)
        text = "How long gather streams were open."
        seconds = Histogram("muster_sse_connection_seconds", text, buckets=REQUEST_BOUNDS, **own)
        self._seconds = seconds.labels(replica)
        text = "Events sent on a gather stream."
        events = Histogram("muster_sse_events_per_connection", text, buckets=EVENT_BOUNDS, **own)
        self._events = events.labels(replica)
        text = "Gather streams whose client went away before the end."
        self._disconnects = Counter("muster_sse_disconnects", text, **own).labels(replica)
        self._replica = replica
        self.streams = 0

    @contextlib.contextmanager
    def request(self, strategy: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - began
            self._requests.labels(self._replica, strategy).observe(seconds)

    async def stream(self, frames: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
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


def gather_families(actors: Sequence[Actor], tenant: int | None) -> Iterator[Metric]:
    shards, pools = of_kind(actors, "shard"), of_kind(actors, "pool")
    yield from _answers(_rows(shards, tenant, ("gathers", "resources")))
    yield from _calls(_rows(pools, tenant, ("resources",)))


def resources_up(actors: Sequence[Actor], tenant: int | None) -> dict[str, bool]:
    """Return which resources answered their latest calls; None means those of all tenants."""
    found: dict[str, bool] = {}
    for actor in of_kind(actors, "pool"):
        for row in stats_of(actor).get("resources", ()):
            if row.get("up") is not None and tenant in {None, row["tenant"]}:
                name = row["name"] if tenant is not None else f"{row['tenant']}/{row['name']}"
                found[name] = row["up"]
    return found


def gathers_processed(actors: Sequence[Actor]) -> int:
    """Count the gathers that have ended since the shards started."""
    ended = (stats_of(actor).get("gathers", {}).get("ended", {}) for actor in actors)
    return sum(sum(counts.values()) for counts in ended)


def _answers(resources: _ByResource) -> Iterator[Metric]:
    counts = {
        name: {state: sum(int(row.get(state, 0)) for row in rows) for state in _STATES}
        for name, rows in sorted(resources.items())
    }
    yield counter(
        "muster_gather_outcomes",
        "How resources answered, by callback or directly, or how they failed to.",
        ["resource", "state"],
        [([name, state], count) for name, by in counts.items() for state, count in by.items()],
    )
    yield summary(
        "muster_gather_answer_seconds",
        "Time from the request to a resource's answer (ok or REJECTED), by callback or directly.",
        ["resource"],
        [
            (
                [name],
                sum(by[state] for state in _ANSWERS),
                sum(row.get("seconds", 0.0) for row in resources[name]),
            )
            for name, by in counts.items()
        ],
    )


def _calls(resources: _ByResource) -> Iterator[Metric]:
    calls = {
        name: {
            state: sum(row["calls"].get(state, 0) for row in rows)
            for state in sorted({state for row in rows for state in row["calls"]})
        }
        for name, rows in sorted(resources.items())
    }
    yield counter(
        "muster_calls",
        "Calls to resources by how they went.",
        ["resource", "state"],
        [([name, state], count) for name, by in calls.items() for state, count in by.items()],
    )
    yield summary(
        "muster_call_seconds",
        "Time a resource took to answer a call.",
        ["resource"],
        [
            ([name], sum(by.values()), sum(row["seconds"] for row in resources[name]))
            for name, by in calls.items()
        ],
    )
    known = {
        name: [row["up"] for row in resources[name] if row["up"] is not None] for name in calls
    }
    yield gauge(
        "muster_resource_up",
        "1 if most of the latest calls were answered.",
        ["resource"],
        [([name], int(all(ups))) for name, ups in known.items() if ups],
    )


def _rows(
    actors: Sequence[Actor], tenant: int | None, path: tuple[str, ...]
) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for actor in actors:
        rows: Any = stats_of(actor)
        for part in path:
            rows = rows.get(part, {})
        for row in rows or ():
            if row["tenant"] == tenant:
                found.setdefault(row["name"], []).append(row)
    return found
