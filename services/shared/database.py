"""Queries of one replica: bounded in time, and patient while Postgres is away for a moment."""

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
    """The pool with a limit: neither a queue before it nor an outage holds a request for ever."""

    def __init__(self, pool: Pool, timeout_seconds: float) -> None:
        self._pool = pool
        self._timeout = timeout_seconds

    async def query(
        self, query: Callable[Concatenate[Pool, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run what may run twice: again and again until Postgres answers or the time is over.

        Raises:
            TimeoutError: It did not answer in time.
        """
        attempt = 0
        async with asyncio.timeout(self._timeout) as limit:
            while True:
                try:
                    return await query(self._pool, *args, **kwargs)
                except SchemaMismatchError:
                    raise  # takes longer than anybody waits
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
        """Run what must not run twice."""
        async with asyncio.timeout(self._timeout):
            return await query(self._pool, *args, **kwargs)

    def bind(
        self, query: Callable[Concatenate[Pool, P], Awaitable[T]]
    ) -> Callable[P, Awaitable[T]]:
        """`ask` with the query chosen."""

        async def asks(*args: P.args, **kwargs: P.kwargs) -> T:
            return await self.query(query, *args, **kwargs)

        return asks
