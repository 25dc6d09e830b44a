"""A look at the shards while they work: their processes and what they hold."""

import asyncio
import time
from typing import Any

from actors.client import ActorClient
from actors.runtime.directory import find, list_actor_names


async def shards_of(gateway: ActorClient) -> list[dict[str, Any]]:
    """What each shard itself says now: where it runs and what it counted."""
    namespace = gateway.config.namespace
    names = [name for name in list_actor_names(namespace) if name.startswith("shard-")]
    handles = [find(name, namespace) for name in sorted(names)]
    return [await handle.report.remote() for handle in handles if handle is not None]


async def hot_in(gateway: ActorClient) -> int:
    """How many correlations are in memory."""
    return sum(shard["stats"]["hot"] for shard in await shards_of(gateway))


async def until_hot(gateway: ActorClient, most: int, within: float = 60.0) -> None:
    """Wait until no more than `most` correlations are in memory."""
    deadline = time.monotonic() + within
    while (hot := await hot_in(gateway)) > most:
        assert time.monotonic() < deadline, f"{hot} are still in memory"
        await asyncio.sleep(0.2)
