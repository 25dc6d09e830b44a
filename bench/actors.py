"""The product's actors as benchmarks use them: a gateway of their own, gone after the arm."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import ray

from actors.client import ActorClient
from actors.runtime.directory import find, list_actor_names
from bench.front import SECRET_KEY
from core.shared.config import Config


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
        yield gateway
    finally:
        await gateway.close()
        # The supervisor first: it would bring the others back.
        names = list_actor_names(config.namespace)
        for name in sorted(names, key=lambda name: name != "supervisor"):
            handle = find(name, config.namespace)
            if handle is not None:
                ray.kill(handle, no_restart=True)
