"""The product's actors as benchmarks use them: a gateway of their own, gone after the arm."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import ray

from actors.client import ActorClient
from actors.runtime.directory import Directory, find, list_actor_names
from actors.runtime.names import MAINTENANCE, SUPERVISOR
from core.shared.config import Config

SECRET_KEY = b"what benchmarks encrypt under..."
START_SECONDS = 60.0


@asynccontextmanager
async def actors(dsn: str, **settings: Any) -> AsyncIterator[ActorClient]:
    """Bring the actors up in a namespace of their own; end them after."""
    config = Config(
        dsn=dsn,
        namespace=f"bench-{os.urandom(3).hex()}",
        secret_keys=(SECRET_KEY,),
        **settings,
    )
    gateway = await ActorClient.open(config)
    try:
        await every_actor_up(config)
        yield gateway
    finally:
        await gateway.close()
        # The supervisor first: it would bring the others back.
        names = list_actor_names(config.namespace)
        for name in sorted(names, key=lambda name: name != "supervisor"):
            handle = find(name, config.namespace)
            if handle is not None:
                ray.kill(handle, no_restart=True)


async def every_actor_up(config: Config) -> None:
    """Wait for the actor that starts last and serves no request: starting takes CPU from an arm."""
    directory = Directory(config)
    async with asyncio.timeout(START_SECONDS):
        while True:
            report = await directory.call(SUPERVISOR, "report")
            if any(row["name"] == MAINTENANCE and row["alive"] for row in report["actors"]):
                return
            await asyncio.sleep(0.2)
