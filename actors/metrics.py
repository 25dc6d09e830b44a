"""The metrics of all actors, which every replica publishes."""

from actors.dispatch.counters import DISPATCH_METRICS
from actors.gathers.call_pool import CALL_METRICS
from actors.kafka.counters import INGEST_METRICS, RELAY_METRICS
from actors.maintenance.counters import MAINTENANCE_METRICS
from actors.waits.counters import SHARD_METRICS
from actors.waits.gather_counters import GATHER_METRICS

ACTOR_METRICS = (
    SHARD_METRICS,
    GATHER_METRICS,
    CALL_METRICS,
    INGEST_METRICS,
    RELAY_METRICS,
    DISPATCH_METRICS,
    MAINTENANCE_METRICS,
)
