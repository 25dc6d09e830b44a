"""The town that the stories of one file share."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from host.postgres.embedded import EmbeddedServer
from storage.postgres.pool import PoolOptions, open_pool
from tests.support.pool_at_work import receiving_hooks
from tests.support.postgres import database_dsn, drop_database, execute
from tests.support.town import Town


@pytest.fixture(scope="module")
async def town(postgres_server: EmbeddedServer, template_database: str) -> AsyncIterator[Town]:
    name = f"test_{uuid.uuid4().hex}"
    await execute(postgres_server.dsn, f"create database {name} template {template_database}")
    dsn = database_dsn(postgres_server, name)
    database = await open_pool(PoolOptions(dsn=dsn, name="test", max_size=10))
    async with receiving_hooks() as hooks:
        town = Town(dsn, database, hooks)
        yield town
        for task in town.playing.values():
            task.cancel()
        await asyncio.gather(*town.playing.values(), return_exceptions=True)
    await database.close()
    await drop_database(postgres_server, name)
