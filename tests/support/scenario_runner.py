"""Stories of dispatch pools, played side by side because most of them are about waiting.

Each has a tenant, a pool and a path of the receiver of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable

from storage.postgres.pool import Pool
from tests.support.pool_at_work import PoolTenant, WebhookReceiver

Scenario = Callable[["ScenarioRunner"], Awaitable[None]]
AT_ONCE = 8


class Scenarios(dict[str, Scenario]):
    """The stories of one file, by name: a decorator adds them."""

    def __call__(self, play: Scenario) -> Scenario:
        self[play.__name__] = play
        return play


class ScenarioRunner:
    """A database and a receiver that all stories share."""

    def __init__(self, dsn: str, database: Pool, hooks: WebhookReceiver) -> None:
        self.dsn, self.database, self.hooks = dsn, database, hooks
        self.playing: dict[str, asyncio.Task[None]] = {}

    def play(self, stories: Scenarios) -> dict[str, asyncio.Task[None]]:
        """Begin all of them, a few at a time."""
        if not self.playing:
            places = asyncio.Semaphore(AT_ONCE)

            async def play(tell: Scenario) -> None:
                async with places:
                    await tell(self)

            self.playing = {name: asyncio.create_task(play(tell)) for name, tell in stories.items()}
        return self.playing

    async def open_tenant(self, name: str, **terms: object) -> PoolTenant:
        return await PoolTenant.open(self.dsn, self.database, self.hooks, name, **terms)
