"""Warnings, on a real Postgres."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from storage.access import keys
from storage.operations import warnings
from storage.operations.warnings import NewWarning, Severity, WarningFilter, WarningRow
from storage.postgres.pool import Pool, PoolOptions, open_pool


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test", plan_each_time=True))
    yield opened
    await opened.close()


@pytest.fixture
async def tenant(pool: Pool) -> int:
    return await keys.create_tenant(pool, "acme")


@pytest.fixture
async def other(pool: Pool) -> int:
    return await keys.create_tenant(pool, "other")


def new(tenant: int, **fields: Any) -> NewWarning:
    usual: dict[str, Any] = {
        "category": "QUEUE_BACKLOG",
        "severity": Severity.WARNING,
        "source": "default",
        "message": "much to do",
    }
    return NewWarning(tenant=tenant, **usual | fields)


async def listed(pool: Pool, tenant: int, **chosen: Any) -> list[WarningRow]:
    return await warnings.page(pool, tenant, WarningFilter(**chosen), None, 100)


async def age(pool: Pool, warning_id: int, hours: float) -> None:
    await pool.execute(
        "update dispatch_warnings set last_at = now() - $2 * interval '1 hour'"
        " where warning_id = $1",
        warning_id,
        hours,
    )


async def test_the_same_again_is_the_same_warning(pool: Pool, tenant: int, other: int) -> None:
    first = await warnings.warn(pool, new(tenant))
    again = new(tenant, severity=Severity.ERROR, message="more\x00" + "!" * 3_000)
    assert await warnings.warn(pool, again) == first
    assert await warnings.warn(pool, new(other)) != first
    assert await warnings.warn(pool, new(tenant, source="another")) != first
    (warned,) = [one for one in await listed(pool, tenant) if one.warning_id == first]
    assert (warned.count, warned.severity) == (2, Severity.ERROR)
    assert warned.message.startswith("more\ufffd!")
    assert len(warned.message) == warnings.MAX_MESSAGE_CHARS
    assert warned.first_at <= warned.last_at


async def test_one_that_was_seen_comes_again_as_a_new_one(
    pool: Pool, tenant: int, other: int
) -> None:
    first = await warnings.warn(pool, new(tenant))
    assert await warnings.acknowledge(pool, other, first, "them") is None
    seen = await warnings.acknowledge(pool, tenant, first, "me")
    assert seen is not None
    assert seen.acknowledged_by == "me"
    again = await warnings.acknowledge(pool, tenant, first, "you")
    assert again == seen
    second = await warnings.warn(pool, new(tenant))
    assert [one.warning_id for one in await listed(pool, tenant)] == [second, first]
    assert [one.warning_id for one in await listed(pool, tenant, is_open=True)] == [second]


async def test_listings_are_by_severity_and_in_pages(pool: Pool, tenant: int, other: int) -> None:
    made = [
        await warnings.warn(pool, new(tenant, severity=severity, source=severity.value))
        for severity in Severity
    ]
    await warnings.warn(pool, new(other))
    found = [one.warning_id for one in await listed(pool, tenant)]
    assert found == made[::-1]
    (critical,) = await listed(pool, tenant, severity=Severity.CRITICAL)
    assert critical.warning_id == made[-1]
    page = await warnings.page(pool, tenant, WarningFilter(), made[2], 1)
    assert [one.warning_id for one in page] == [made[1]]


async def test_only_what_is_fresh_open_and_matters_counts(
    pool: Pool, tenant: int, other: int
) -> None:
    old, seen, _ = [await warnings.warn(pool, new(tenant, source=name)) for name in ("a", "b", "c")]
    await warnings.warn(pool, new(tenant, severity=Severity.INFO, source="d"))
    await warnings.warn(pool, new(other))
    await age(pool, old, 1)
    await warnings.acknowledge(pool, tenant, seen, "me")
    assert await warnings.count_recent(pool, tenant, 1_800) == {tenant: 1}
    assert await warnings.count_recent(pool, None, 1_800) == {tenant: 1, other: 1}


async def test_they_are_dropped_forgotten_and_put_aside(
    pool: Pool, tenant: int, other: int
) -> None:
    old, older, fresh = [
        await warnings.warn(pool, new(tenant, source=name)) for name in ("a", "b", "c")
    ]
    theirs = await warnings.warn(pool, new(other))
    await age(pool, old, 9)
    await age(pool, older, 30)
    await age(pool, theirs, 30)
    assert await warnings.acknowledge_old(pool, 8 * 3_600) == 3
    assert [one.warning_id for one in await listed(pool, tenant, is_open=True)] == [fresh]
    assert await warnings.drop(pool, tenant, 24 * 3_600) == 1
    assert [one.warning_id for one in await listed(pool, tenant)] == [fresh, old]
    assert await warnings.forget(pool, 24 * 3_600) == 1
    assert await listed(pool, other) == []
    assert await warnings.drop(pool, tenant) == 2
