"""Queries with a time limit, repeated while Postgres is away for a moment."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from core.shared.backoff import backoff
from storage.postgres.error_class import SERVER_ERRORS, is_server_error
from storage.postgres.pool import Pool
from storage.postgres.schema_check import SchemaMismatchError

P = ParamSpec("P")
T = TypeVar("T")


class Database:
    """A connection pool with a time limit for waiting and outages together."""

    def __init__(self, pool: Pool, timeout_seconds: float) -> None:
        self._pool = pool
        self._timeout = timeout_seconds

    async def query(
        self, query: Callable[Concatenate[Pool, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a query that may run twice, and repeat it until Postgres answers.

        Raises:
            TimeoutError: Postgres did not answer in time.
        """
        attempt = 0
        async with asyncio.timeout(self._timeout) as limit:
            while True:
                try:
                    return await query(self._pool, *args, **kwargs)
                except SchemaMismatchError:
                    raise  # a migration takes longer than any caller waits
                except SERVER_ERRORS as error:
                    if limit.expired() or not is_server_error(error):
                        raise
                await asyncio.sleep(
                    backoff(attempt, base=0.05, cap=0.5, jitter=random.random())  # noqa: S311
                )
                attempt += 1

    async def query_once(
        self, query: Callable[Concatenate[Pool, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a query that must not run twice."""
        async with asyncio.timeout(self._timeout):
            return await query(self._pool, *args, **kwargs)

    def bind(
        self, query: Callable[Concatenate[Pool, P], Awaitable[T]]
    ) -> Callable[P, Awaitable[T]]:
        """Return a function that runs this query by `Database.query`."""

        async def asks(*args: P.args, **kwargs: P.kwargs) -> T:
            return await self.query(query, *args, **kwargs)

        return asks
