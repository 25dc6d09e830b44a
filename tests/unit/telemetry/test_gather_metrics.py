"""What is counted of gathers, and who is told of which."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from actors.gathers.call_pool import CALL_METRICS
from actors.waits.gather_counters import GATHER_METRICS
from telemetry.families import actor_families
from telemetry.gather_metrics import (
    GatherMetrics,
    gather_families,
    gathers_processed,
    resources_up,
)

FRAME = b"id: 1\nevent: callback\ndata: {}\n\n"
REPLICA = {"replica": "r-1"}


class Replica:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = GatherMetrics(self.registry, "r-1")

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, REPLICA | labels)


async def chunks(*frames: bytes) -> AsyncGenerator[bytes]:
    for frame in frames:
        yield frame


async def test_a_stream_that_was_read_to_its_end_is_no_disconnect() -> None:
    replica = Replica()
    seen: list[bytes] = []
    async for chunk in replica.metrics.stream(chunks(b"retry: 1000\n\n", FRAME, FRAME * 2)):
        assert replica.value("muster_sse_active_connections") == 1
        assert replica.metrics.streams == 1
        seen.append(chunk)
    assert seen == [b"retry: 1000\n\n", FRAME, FRAME * 2]
    assert replica.value("muster_sse_active_connections") == 0
    assert replica.value("muster_sse_connection_seconds_count") == 1
    assert replica.value("muster_sse_disconnects_total") == 0


async def test_events_are_counted_and_neither_beats_nor_data_that_looks_like_one() -> None:
    replica = Replica()
    odd = b'id: 2\nevent: callback\ndata: {"a":\ndata: event: x}\n\n'
    frames = (b"retry: 1000\n\n", FRAME, b": beat\n\n", odd)
    async for _ in replica.metrics.stream(chunks(*frames)):
        pass
    assert replica.value("muster_sse_events_per_connection_sum") == 2


async def test_a_client_that_goes_away_is_a_disconnect_and_its_source_is_closed() -> None:
    replica = Replica()
    closed: list[bool] = []

    async def source() -> AsyncGenerator[bytes]:
        try:
            yield FRAME
            yield FRAME
        finally:
            closed.append(True)

    stream = replica.metrics.stream(source())
    await anext(stream)
    await stream.aclose()
    assert closed == [True]
    assert replica.metrics.streams == 0
    assert replica.value("muster_sse_active_connections") == 0
    assert replica.value("muster_sse_disconnects_total") == 1
    assert replica.value("muster_sse_events_per_connection_sum") == 1


def test_requests_are_measured_whether_they_succeed_or_not() -> None:
    replica = Replica()
    with replica.metrics.request("stream"):
        pass
    with pytest.raises(ValueError, match="no"), replica.metrics.request("wait"):
        raise ValueError("no")
    for strategy in ("stream", "wait"):
        assert replica.value("muster_gather_request_seconds_count", strategy=strategy) == 1


# What the actors counted.


def lane(tenant: int, name: str, **calls: int) -> dict[str, Any]:
    ok = calls.get("ok", 0) > calls.get("ERROR", 0) if calls else None
    return {
        "tenant": tenant,
        "name": name,
        "calls": calls,
        "seconds": 0.5 * sum(calls.values()),
        "under_way": 0,
        "waiting": 0,
        "up": ok,
    }


def answered(tenant: int, name: str, **counts: float) -> dict[str, Any]:
    return {"tenant": tenant, "name": name, **counts}


ACTORS: list[dict[str, Any]] = [
    {
        "name": "shard-0",
        "kind": "shard",
        "stats": {
            "gathers": {
                "ended": {"full": 2, "cancelled": 1},
                "late": 3,
                "resources": [
                    answered(1, "one", ok=2, CONNECTION_CLOSED=1, seconds=1.5),
                    answered(2, "one", ok=7, seconds=9.0),
                ],
            }
        },
    },
    {
        "name": "shard-1",
        "kind": "shard",
        "stats": {
            "gathers": {
                "ended": {"full": 1},
                "late": 0,
                "resources": [answered(1, "one", ok=1, seconds=0.5)],
            }
        },
    },
    {"name": "shard-2", "kind": "shard", "stats": None},
    {
        "name": "pool-calls-0",
        "kind": "pool",
        "stats": {
            "under_way": 4,
            "resources": [
                lane(1, "one", ok=3, ERROR=1),
                lane(1, "broken", ERROR=2),
                lane(1, "unused"),
                lane(2, "theirs", ok=1),
            ],
        },
    },
    {"name": "pool-calls-1", "kind": "pool"},
]


def samples(families: list[Metric]) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_tenant_is_told_of_its_own_resources_only() -> None:
    found = samples(list(gather_families(ACTORS, 1)))
    assert found["muster_gather_outcomes_total", "one", "ok"] == 3
    assert found["muster_gather_outcomes_total", "one", "CONNECTION_CLOSED"] == 1
    assert found["muster_gather_outcomes_total", "one", "TIMEOUT"] == 0
    assert found["muster_gather_answer_seconds_sum", "one"] == 2.0
    assert found["muster_gather_answer_seconds_count", "one"] == 3
    assert found["muster_calls_total", "one", "ok"] == 3
    assert found["muster_call_seconds_count", "one"] == 4
    assert found["muster_resource_up", "one"] == 1
    assert found["muster_resource_up", "broken"] == 0
    assert ("muster_resource_up", "unused") not in found
    assert not any("theirs" in key for key in found)


def test_all_tenants_are_told_how_gathers_ended() -> None:
    for tenant in (1, 2, None):
        declared = (GATHER_METRICS, CALL_METRICS)
        found = samples([f for one in declared for f in actor_families(one, ACTORS, tenant)])
        assert found["muster_gathers_ended_total", "shard-0", "full"] == 2
        assert found["muster_gathers_ended_total", "shard-1", "full"] == 1
        assert found["muster_gather_late_callbacks_total", "shard-0"] == 3
        assert found["muster_calls_under_way", "pool-calls-0"] == 4
        assert found["muster_calls_under_way", "pool-calls-1"] == 0
    nobody = samples(list(gather_families(ACTORS, None)))
    assert not any(name == "muster_calls_total" for name, *_ in nobody)


def test_resources_are_up_by_name_for_their_tenant_and_in_number_for_all() -> None:
    assert resources_up(ACTORS, 1) == {"one": True, "broken": False}
    assert resources_up(ACTORS, 2) == {"theirs": True}
    assert sorted(resources_up(ACTORS, None).values()) == [False, True, True]
    assert gathers_processed(ACTORS) == 4
