import pytest

from core.shared.errors import InvalidError
from core.waits.spec import DEFAULT_IDS, IdFields
from services.waits.intake import ID_FIELDS_TTL, MAX_ID_FIELDS, IdFieldRegistry


class Table:
    def __init__(self) -> None:
        self.now = 0.0
        self.rows: list[IdFields] = []
        self.readings = 0

    async def read(self, tenant: int) -> list[IdFields]:
        self.readings += 1
        return list(self.rows)

    async def create(self, tenant: int, fields: IdFields) -> None:
        self.rows.append(fields)

    def profiles(self) -> IdFieldRegistry:
        return IdFieldRegistry(self.read, self.create, lambda: self.now)


ORDER = IdFields("order.id", "run")


async def test_new_names_are_stored_and_known_at_once() -> None:
    table = Table()
    profiles = table.profiles()
    assert await profiles.known(1) == []
    await profiles.remember(1, [DEFAULT_IDS, ORDER])
    assert await profiles.known(1) == [ORDER]


async def test_names_that_are_known_cost_nothing() -> None:
    table = Table()
    profiles = table.profiles()
    await profiles.remember(1, [DEFAULT_IDS])
    assert table.readings == 0
    await profiles.remember(1, [ORDER])
    await profiles.known(1)
    before = table.readings
    await profiles.remember(1, [ORDER])
    assert (table.readings, table.rows) == (before, [ORDER])


async def test_names_of_another_replica_are_found_by_asking_again() -> None:
    table = Table()
    profiles = table.profiles()
    assert await profiles.known(1) == []
    table.rows.append(ORDER)
    assert await profiles.known(1) == []
    assert await profiles.current(1) == [ORDER]
    assert await profiles.known(1) == [ORDER]


async def test_names_of_another_replica_are_found_in_time() -> None:
    table = Table()
    profiles = table.profiles()
    await profiles.known(1)
    table.rows.append(ORDER)
    table.now = ID_FIELDS_TTL
    assert await profiles.known(1) == [ORDER]


async def test_there_is_an_end_to_new_names() -> None:
    table = Table()
    table.rows = [IdFields(f"f{i}") for i in range(MAX_ID_FIELDS)]
    profiles = table.profiles()
    await profiles.remember(1, table.rows)
    with pytest.raises(InvalidError, match=str(MAX_ID_FIELDS)):
        await profiles.remember(1, [ORDER])
    assert len(table.rows) == MAX_ID_FIELDS
