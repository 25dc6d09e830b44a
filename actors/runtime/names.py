"""The names of actors, and which of them hosts a correlation."""

import zlib
from functools import lru_cache

from core.shared.address import shard_of
from core.shared.config import Config, Placement

SUPERVISOR = "supervisor"
TIMER = "timer"
MAINTENANCE = "maintenance"
SHARD = "shard-"
INGEST = "kafka-ingest-"
RELAY = "kafka-relay"
POOL = "pool-"
CALLS = "pool-calls-"
DISPATCH = "pool-dispatch-"
DEDICATED = "correlation:"


@lru_cache(maxsize=1024)
def shard_name(index: int) -> str:
    return f"{SHARD}{index}"


def expected_actors(config: Config) -> list[str]:
    """List the actors that must run before requests are served."""
    names = [TIMER]
    if config.placement is not Placement.DEDICATED:
        names = [*(shard_name(index) for index in range(config.shards)), TIMER]
    names += call_pool_names(config)
    if config.kafka is not None:
        names += [*(f"{INGEST}{index}" for index in range(config.kafka.ingest)), RELAY]
    return names


def call_pool_names(config: Config) -> list[str]:
    return [f"{CALLS}{index}" for index in range(config.call_pools)]


def dispatch_pool_name(pool_no: int) -> str:
    """Return the name of a pool's actor. There is one per pool, which alone enforces its rate."""
    return f"{DISPATCH}{pool_no}"


def call_pool_name(tenant: int, resource: str, config: Config) -> str:
    """Return the only call pool that calls this resource, and alone enforces its rate."""
    place = zlib.crc32(f"{tenant}/{resource}".encode()) % config.call_pools
    return f"{CALLS}{place}"


def host_actor_name(key: bytes, config: Config) -> str:
    if config.placement is Placement.DEDICATED:
        return f"{DEDICATED}{key.hex()}"
    return shard_name(shard_of(key, config.shards))
