"""A process makes ids while it holds a number that Postgres leased to it."""

import asyncio

import pytest

from core.shared.errors import UnavailableError
from services.shared import ids as module
from services.shared.ids import IdGenerator
from storage.postgres.id_numbers import LEASE_SECONDS


class Postgres:
    """Leases numbers when it is there; tells when it was asked."""

    def __init__(self, *, there: bool) -> None:
        self.there = there
        self.asked = asyncio.Event()
        self.lent: list[int] = []
        self.lost = False
        self.released: list[int] = []

    async def take(self) -> int | None:
        self._answer()
        self.lent.append(len(self.lent))
        self.lost = False
        return self.lent[-1]

    async def renew(self, number: int) -> bool:
        self._answer()
        return not self.lost and number == self.lent[-1]

    async def release(self, number: int) -> None:
        self._answer()
        self.released.append(number)

    def _answer(self) -> None:
        self.asked.set()
        if not self.there:
            raise ConnectionRefusedError

    async def is_asked(self) -> None:
        self.asked.clear()
        await asyncio.wait_for(self.asked.wait(), 5)
        await asyncio.sleep(0)


class Clock:
    """Time that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def ids_of(postgres: Postgres, clock: Clock | None = None) -> IdGenerator:
    return IdGenerator(postgres, lambda: 1_800_000_000.0, clock or Clock())


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_FIRST", 0.001)
    monkeypatch.setattr(module, "RETRY_LAST", 0.001)
    monkeypatch.setattr(module, "RENEW_EVERY", 0.001)


async def test_ids_are_there_after_the_start() -> None:
    ids = ids_of(Postgres(there=True))
    await ids.start()
    assert ids() < ids()
    await ids.close()


async def test_while_postgres_is_away_there_are_none_and_then_there_are() -> None:
    postgres = Postgres(there=False)
    ids = ids_of(postgres)
    await ids.start()
    for _ in range(3):
        await postgres.is_asked()
        with pytest.raises(UnavailableError):
            ids()
    postgres.there = True
    await postgres.is_asked()
    assert ids()
    await ids.close()


async def test_closing_ends_the_trying_and_the_lease() -> None:
    postgres = Postgres(there=True)
    ids = ids_of(postgres)
    await ids.start()
    await ids.close()
    assert postgres.released == [0]
    postgres.asked.clear()
    await asyncio.sleep(0.01)
    assert not postgres.asked.is_set()
    with pytest.raises(UnavailableError):
        ids()


async def test_one_that_slept_through_its_lease_makes_none_until_it_is_renewed() -> None:
    """Its number may be another's by then."""
    postgres, clock = Postgres(there=True), Clock()
    ids = ids_of(postgres, clock)
    await ids.start()
    postgres.there = False
    clock.now += LEASE_SECONDS + 1
    with pytest.raises(UnavailableError):
        ids()
    postgres.there = True
    await postgres.is_asked()
    assert ids()
    assert postgres.lent == [0]
    await ids.close()


async def test_who_lost_its_number_takes_another() -> None:
    """As after a restore, which forgot to whom it was lent."""
    postgres = Postgres(there=True)
    ids = ids_of(postgres)
    await ids.start()
    first = ids()
    postgres.lost = True
    while len(postgres.lent) < 2:
        await postgres.is_asked()
    assert ids()[:8] == first[:8]
    assert ids() != first
    assert postgres.lent == [0, 1]
    await ids.close()
