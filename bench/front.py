"""The product's front door as `muster up` opens it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.actors import SECRET_KEY, START_SECONDS, every_actor_up
from bench.stage import Stage
from bench.wire import Door, told
from cli.operations.up import READINESS_PATH
from core.access.secret_keys import format_key
from host.provision import prepare_database
from host.ray.serving import serve, stop_serving
from serve_app.app import make_app
from settings.settings import Settings
from storage.encryption import cipher

HEALTH_PATH = "/actuator/health"


@asynccontextmanager
async def front_door(stage: Stage, **settings: object) -> AsyncIterator[Door]:
    """Actors and HTTP API on the stage's Ray node, with a key for the first tenant."""
    dsn = await stage.database()
    port = stage.node.options.port
    loaded = Settings.load({"port": port, "secret_key": format_key(SECRET_KEY), **settings})
    config = loaded.to_config(dsn)
    cipher.configure(config)
    provisioned = await prepare_database(dsn, None)
    assert provisioned.new_key is not None
    app = make_app(loaded, config)
    try:
        # Aside, because both block.
        await asyncio.to_thread(serve, stage.node, app, probe=READINESS_PATH)
        door = Door(loaded.port, provisioned.new_key, dsn)
        await _every_part_up(door)
        await every_actor_up(config)
        yield door
    finally:
        await asyncio.to_thread(stop_serving, stage.node)
        await stage.drop(dsn)


async def _every_part_up(door: Door) -> None:
    """Wait for the actors that serve no requests, too: starting takes CPU from the first arm."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            health = await told(door.port, door.request("GET", HEALTH_PATH))
            if all(part["status"] == "UP" for part in health["components"].values()):
                return
            await asyncio.sleep(0.2)
