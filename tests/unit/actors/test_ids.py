"""A process makes ids as soon as Postgres has given it a number."""

import asyncio

import pytest

from actors import ids as module
from actors.ids import Ids
from core.errors import UnavailableError
from core.tsid import IdMaker


class Postgres:
    """Answers when it is there; tells when it was asked."""

    def __init__(self, *, there: bool) -> None:
        self.there = there
        self.asked = asyncio.Event()

    async def open_maker(self) -> IdMaker:
        self.asked.set()
        if not self.there:
            raise ConnectionRefusedError
        return IdMaker(1, lambda: 1_800_000_000.0)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_FIRST", 0.001)
    monkeypatch.setattr(module, "RETRY_LAST", 0.001)


async def test_ids_are_there_after_the_start() -> None:
    ids = Ids(Postgres(there=True).open_maker)
    await ids.start()
    assert ids() < ids()
    await ids.close()


async def test_while_postgres_is_away_there_are_none_and_then_there_are() -> None:
    postgres = Postgres(there=False)
    ids = Ids(postgres.open_maker)
    await ids.start()
    for _ in range(3):
        postgres.asked.clear()
        await asyncio.wait_for(postgres.asked.wait(), 5)
        with pytest.raises(UnavailableError):
            ids()
    postgres.there = True
    postgres.asked.clear()
    await asyncio.wait_for(postgres.asked.wait(), 5)
    await asyncio.sleep(0)
    assert ids()
    await ids.close()


async def test_closing_ends_the_trying() -> None:
    postgres = Postgres(there=False)
    ids = Ids(postgres.open_maker)
    await ids.start()
    await ids.close()
    postgres.asked.clear()
    await asyncio.sleep(0.01)
    assert not postgres.asked.is_set()
