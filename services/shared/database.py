"""Queries with a time limit, repeated while Postgres is away for a moment."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

from services.shared.retry import Pauses, retrying
from storage.postgres.error_class import is_server_error
from storage.postgres.pool import Pool
from storage.postgres.schema_check import SchemaMismatchError

P = ParamSpec("P")
T = TypeVar("T")

Query: TypeAlias = Callable[Concatenate[Pool, P], Awaitable[T]]
TenantQuery: TypeAlias = Callable[Concatenate[Pool, int, P], Awaitable[T]]
_PAUSES = Pauses(cap=0.5)


class Database:
    """A connection pool with a time limit for waiting and outages together."""

    def __init__(self, pool: Pool, timeout_seconds: float) -> None:
        self._pool = pool
        self._timeout = timeout_seconds

    async def query(self, query: Query[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query that may run twice, and repeat it until Postgres answers.

        Raises:
            TimeoutError: Postgres did not answer in time.
        """
        async with asyncio.timeout(self._timeout) as limit:

            def give_up_if_vain(error: Exception, _: float) -> None:
                # A migration takes longer than any caller waits.
                is_lasting = isinstance(error, SchemaMismatchError) or not is_server_error(error)
                if is_lasting or limit.expired():
                    raise error

            work = partial(query, self._pool, *args, **kwargs)
            return await retrying(work, failed=give_up_if_vain, pauses=_PAUSES)

    async def query_once(self, query: Query[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query that must not run twice."""
        async with asyncio.timeout(self._timeout):
            return await query(self._pool, *args, **kwargs)

    def bind(self, query: Query[P, T]) -> Callable[P, Awaitable[T]]:
        return partial(self.query, query)
