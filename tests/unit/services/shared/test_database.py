from typing import Any, cast

import asyncpg
import pytest
from asyncpg.exceptions._base import DataError as ClientDataError

from services.shared.database import Database
from storage.postgres.pool import Pool

POOL = cast("Pool", object())


class Postgres:
    """Fails as often as it is told to, then answers."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.asked = 0

    async def query(self, pool: Pool, value: int) -> int:
        assert pool is POOL
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        return value


async def test_a_short_outage_is_waited_out() -> None:
    postgres = Postgres(ConnectionRefusedError(), asyncpg.CannotConnectNowError("starting"))
    assert await Database(POOL, timeout_seconds=5).query(postgres.query, 7) == 7
    assert postgres.asked == 3


async def test_a_long_outage_ends_the_wait_in_time() -> None:
    postgres = Postgres(*[ConnectionRefusedError() for _ in range(1000)])
    with pytest.raises(TimeoutError):
        await Database(POOL, timeout_seconds=0.1).query(postgres.query, 7)
    assert postgres.asked > 1


@pytest.mark.parametrize(
    "error", [asyncpg.CharacterNotInRepertoireError("0x00"), ClientDataError("int too big")]
)
async def test_a_mistake_is_not_repeated(error: Exception) -> None:
    postgres = Postgres(error)
    with pytest.raises(type(error)):
        await Database(POOL, timeout_seconds=5).query(postgres.query, 7)
    assert postgres.asked == 1


async def test_a_server_that_is_not_the_right_one_now_is_waited_for() -> None:
    postgres = Postgres(
        asyncpg.ReadOnlySQLTransactionError("a standby"), asyncpg.UndefinedTableError("renamed")
    )
    assert await Database(POOL, timeout_seconds=5).query(postgres.query, 7) == 7


async def test_what_must_not_run_twice_runs_once() -> None:
    postgres = Postgres(ConnectionResetError())
    with pytest.raises(ConnectionResetError):
        await Database(POOL, timeout_seconds=5).query_once(postgres.query, 7)
    assert postgres.asked == 1


async def test_a_query_can_be_chosen_beforehand() -> None:
    ask: Any = Database(POOL, timeout_seconds=5).bind(Postgres(ConnectionRefusedError()).query)
    assert await ask(7) == 7
