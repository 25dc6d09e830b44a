"""Changes of definitions: however many a tenant sends, others get connections."""

import asyncio
from typing import Any

import pytest

from core.shared.errors import OverloadedError
from services.records import definition_changes
from services.records.definition_changes import MAX_AT_ONCE, DefinitionChanges


class HeldDatabase:
    """Runs changes until they are let go."""

    def __init__(self) -> None:
        self.running: list[int] = []
        self.let_go = asyncio.Event()

    async def query_once(self, _: Any, tenant: int) -> int:
        self.running.append(tenant)
        await self.let_go.wait()
        return tenant


async def no_change(*_: Any) -> int:
    raise AssertionError("the database runs changes")


@pytest.fixture
def database() -> HeldDatabase:
    return HeldDatabase()


def sent(changes: DefinitionChanges, *tenants: int) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(changes.run(no_change, tenant)) for tenant in tenants]


async def test_a_tenant_changes_one_definition_at_a_time(database: HeldDatabase) -> None:
    changes = DefinitionChanges(database, 5.0)  # type: ignore[arg-type]
    tasks = sent(changes, *[1] * 10, 2, 3)
    await asyncio.sleep(0)
    assert sorted(database.running) == [1, 2, 3]
    database.let_go.set()
    assert await asyncio.gather(*tasks) == [1] * 10 + [2, 3]


async def test_all_tenants_together_leave_connections_to_other_requests(
    database: HeldDatabase,
) -> None:
    changes = DefinitionChanges(database, 5.0)  # type: ignore[arg-type]
    tasks = sent(changes, *range(10))
    await asyncio.sleep(0)
    assert len(database.running) == MAX_AT_ONCE
    database.let_go.set()
    assert await asyncio.gather(*tasks) == list(range(10))


async def test_a_tenant_that_waits_too_much_is_refused(
    database: HeldDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition_changes, "MAX_WAITING_CHANGES", 2)
    changes = DefinitionChanges(database, 5.0)  # type: ignore[arg-type]
    tasks = sent(changes, 1, 1, 1)
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError):
        await changes.run(no_change, 1)
    database.let_go.set()
    assert await asyncio.gather(*tasks) == [1, 1, 1]


async def test_a_change_that_does_not_get_its_turn_ends(database: HeldDatabase) -> None:
    changes = DefinitionChanges(database, 0.05)  # type: ignore[arg-type]
    (first,) = sent(changes, 1)
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await changes.run(no_change, 1)
    database.let_go.set()
    assert await first == 1
