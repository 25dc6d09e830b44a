"""The town that the stories of one file share."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from host.postgres.embedded import EmbeddedServer
from storage.postgres.pool import PoolOptions, open_pool
from tests.support.pool_at_work import webhook_receiver
from tests.support.postgres import create_database, drop_database
from tests.support.scenario_runner import ScenarioRunner


@pytest.fixture(scope="module")
async def runner(
    postgres_server: EmbeddedServer, template_database: str
) -> AsyncIterator[ScenarioRunner]:
    name = f"test_{uuid.uuid4().hex}"
    dsn = await create_database(postgres_server, name, template_database)
    database = await open_pool(PoolOptions(dsn=dsn, name="test", max_size=10))
    async with webhook_receiver() as hooks:
        runner = ScenarioRunner(dsn, database, hooks)
        yield runner
        for task in runner.playing.values():
            task.cancel()
        await asyncio.gather(*runner.playing.values(), return_exceptions=True)
    await database.close()
    await drop_database(postgres_server, name)
