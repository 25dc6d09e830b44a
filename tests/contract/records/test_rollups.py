"""Summaries on a real Postgres: what the details of a record have together."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from core.records.field import RollupFunction, RollupSummary
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.records import rollups

MINE, LINES, SLOT = 1, 7, 1


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


async def store(pool: Pool, *details: dict[str, Any], **place: Any) -> None:
    """Details of order o1 in the second column, unless said otherwise."""
    row = {"tenant": MINE, "collection": LINES, "master": "o1", "column": 2, **place}
    for number, data in enumerate(details):
        await pool.execute(
            "insert into records (tenant_id, collection_no, record_id, version, data,"
            f" indexed_{row['column']}, created_at, updated_at, deleted_at)"
            " values ($1, $2, $3, 1, $4, $5, now(), now(), $6)",
            row["tenant"], row["collection"], f"{row}-{number}",
            msgspec.json.encode(data).decode(), row["master"],
            await pool.fetchval("select now()") if row.get("deleted") else None,
        )  # fmt: skip


async def sum_up(pool: Pool, function: str, field: str | None = None, slot: int = SLOT) -> Any:
    rollup = RollupSummary(
        collection="lines",
        relationship="order_id",
        function=RollupFunction(function),
        field=field,
    )
    return await rollups.sum_up(pool, MINE, LINES, slot, rollup, "o1")


async def test_details_are_summed_up(pool: Pool) -> None:
    details = [{"n": 1, "at": "2026-01-31"}, {"n": 2.5, "at": "2025-12-01"}, {"other": 1}]
    await store(pool, *details, {"n": None, "at": "not"}, {"n": "text"})
    await store(pool, {"n": 100}, deleted=True)
    await store(pool, {"n": 100}, master="o2")
    await store(pool, {"n": 100}, tenant=2)
    await store(pool, {"n": 100}, collection=8)
    await store(pool, {"n": 100}, column=1)
    assert await sum_up(pool, "COUNT") == 5
    assert await sum_up(pool, "SUM", "n") == 3.5
    assert await sum_up(pool, "AVG", "n") == 1.75
    assert (await sum_up(pool, "MIN", "n"), await sum_up(pool, "MAX", "n")) == (1, 2.5)
    assert await sum_up(pool, "MIN", "at") == "2025-12-01"
    assert await sum_up(pool, "MAX", "at") == "not"
    assert await sum_up(pool, "COUNT", slot=0) == 1
    assert await sum_up(pool, "COUNT", slot=2) == 0


async def test_whole_numbers_stay_whole(pool: Pool) -> None:
    await store(pool, {"n": 2**53}, {"n": 1})
    assert await sum_up(pool, "SUM", "n") == 2**53 + 1


async def test_nothing_has_no_sum(pool: Pool) -> None:
    assert await sum_up(pool, "COUNT") == 0
    for function in ("SUM", "AVG", "MIN", "MAX"):
        assert await sum_up(pool, function, "n") is None


async def test_too_many_details_have_no_value(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    await store(pool, {"n": 1}, {"n": 2}, {"n": 3})
    monkeypatch.setattr(rollups, "MAX_DETAILS", 3)
    assert await sum_up(pool, "SUM", "n") == 6
    monkeypatch.setattr(rollups, "MAX_DETAILS", 2)
    assert await sum_up(pool, "SUM", "n") is None
    assert await sum_up(pool, "COUNT") is None
