"""Postgres is read-only, foreign, locked, frozen or half gone: 503 meanwhile, then on it goes.

None of it is the fault of an event: nobody is told that his is bad, no Kafka record is given up,
and nothing has to be killed for the product to serve again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.chaos.far_database import (
    END_SESSIONS,
    FarProduct,
    Fault,
    endured,
    shifted_clock,
)

SECONDS = 4.0


@contextlib.asynccontextmanager
async def demoted(far: FarProduct) -> AsyncIterator[None]:
    """The address leads to a standby for a while, as a name does in the middle of a failover.

    Connections to it are healthy, and stay: they can only not be written to.
    """
    proxy, pair = far.pair.proxy, far.pair
    proxy.lead_to("127.0.0.1", pair.replica.port)
    proxy.reset()
    try:
        yield
        await asyncio.sleep(SECONDS)
    finally:
        proxy.lead_to("127.0.0.1", pair.primary.port)


@contextlib.asynccontextmanager
async def read_only(far: FarProduct) -> AsyncIterator[None]:
    """Sessions can only read; those that began so stay so."""
    await far.admin("alter role muster set default_transaction_read_only = on", END_SESSIONS)
    try:
        yield
        await asyncio.sleep(SECONDS)
    finally:
        await far.admin("alter role muster reset default_transaction_read_only")


@contextlib.asynccontextmanager
async def foreign_schema(far: FarProduct) -> AsyncIterator[None]:
    """A column, then a table has another name, as in the middle of somebody's migration."""
    await far.admin("alter table wait_state_events rename column payload to payload_then")
    try:
        yield
        await asyncio.sleep(SECONDS / 2)
    finally:
        await far.admin("alter table wait_state_events rename column payload_then to payload")
    await far.admin("alter table execution_wait_states rename to waits_then")
    try:
        await asyncio.sleep(SECONDS / 2)
    finally:
        await far.admin("alter table waits_then rename to execution_wait_states")


@contextlib.asynccontextmanager
async def wrong_password(far: FarProduct) -> AsyncIterator[None]:
    """The password is another, then the role may not log in at all."""
    password = urlsplit(far.pair.dsn).password
    await far.admin("alter role muster password 'another'", END_SESSIONS)
    try:
        yield
        await asyncio.sleep(SECONDS / 2)
        await far.admin(f"alter role muster nologin password '{password}'")
        await asyncio.sleep(SECONDS / 2)
    finally:
        await far.admin(f"alter role muster login password '{password}'")


@contextlib.asynccontextmanager
async def frozen_path(far: FarProduct) -> AsyncIterator[None]:
    """Connections are accepted and nothing passes."""
    far.pair.proxy.stall()
    try:
        yield
        await asyncio.sleep(SECONDS)
    finally:
        far.pair.proxy.mend()


@contextlib.asynccontextmanager
async def one_way(far: FarProduct) -> AsyncIterator[None]:
    """Requests arrive and are carried out; no reply comes back."""
    far.pair.proxy.cut_replies()
    try:
        yield
        await asyncio.sleep(SECONDS)
    finally:
        far.pair.proxy.mend()


@contextlib.asynccontextmanager
async def lost_connections(far: FarProduct) -> AsyncIterator[None]:
    """Whatever was connected is connected to nothing; who connects anew is served."""
    far.pair.proxy.abandon()
    yield


@contextlib.asynccontextmanager
async def slow_path(far: FarProduct) -> AsyncIterator[None]:
    """Every piece of data takes 100 ms longer, each way."""
    far.pair.proxy.delay(0.1)
    try:
        yield
        await asyncio.sleep(SECONDS)
    finally:
        far.pair.proxy.mend()


@contextlib.asynccontextmanager
async def resets(far: FarProduct) -> AsyncIterator[None]:
    """Connections break off again and again."""
    yield
    for _ in range(int(SECONDS / 0.25)):
        far.pair.proxy.reset()
        await asyncio.sleep(0.25)


@contextlib.asynccontextmanager
async def ahead(far: FarProduct) -> AsyncIterator[None]:
    """Ten minutes, and back."""
    async with _shifted(far, 10):
        yield


@contextlib.asynccontextmanager
async def behind(far: FarProduct) -> AsyncIterator[None]:
    """Ten minutes, and back."""
    async with _shifted(far, -10):
        yield


@contextlib.asynccontextmanager
async def _shifted(far: FarProduct, minutes: int) -> AsyncIterator[None]:
    async with shifted_clock(far, minutes):
        conn = await asyncpg.connect(far.pair.direct)
        try:
            apart = await conn.fetchval("select extract(epoch from now() - pg_catalog.now())")
        finally:
            await conn.close()
        assert round(apart) == minutes * 60, "the clock is not another"
        yield
        await asyncio.sleep(SECONDS)


def _named(faults: tuple[Fault, ...]) -> str:
    return "-".join(fault.__name__ for fault in faults)


@pytest.mark.parametrize(
    "faults",
    [
        (demoted, read_only),
        (foreign_schema, wrong_password),
        (frozen_path, one_way, resets),
        pytest.param((slow_path,), marks=pytest.mark.long),
    ],
    ids=_named,
)
async def test_no_event_is_blamed_for_trouble_of_the_database(
    faults: tuple[Fault, ...], far: FarProduct, tmp_path: Path
) -> None:
    (await endured(far, faults, tmp_path)).assert_clean()


@pytest.mark.long
async def test_connections_that_lead_nowhere_are_given_up(far: FarProduct, tmp_path: Path) -> None:
    """Nothing tells that they are dead but time: each is as long as a statement may take."""
    told = await endured(far, [lost_connections], tmp_path)
    result = told.drill.result
    assert result.account.clean, [str(finding) for finding in result.account.findings[:10]]
    assert (told.buried, told.restarted) == (0, [])


async def test_another_clock_loses_nothing(far: FarProduct, tmp_path: Path) -> None:
    """As after a failover to a machine whose clock goes wrong, and back.

    A deadline is a time of the database's clock, so one that was set before may come at another
    moment: waits that only wait for theirs are let end before. Those that come right after have
    deadlines by the clock that is true then.
    """
    (await endured(far, [ahead, behind], tmp_path)).assert_clean()
