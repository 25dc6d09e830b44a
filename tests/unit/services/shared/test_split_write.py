"""A group of items that is written: one bad item, a slow server, a server that takes nothing."""

import math
from dataclasses import dataclass, field

import asyncpg
import pytest

from services.shared.split_write import SplitWrite

BAD = asyncpg.CharacterNotInRepertoireError('invalid byte sequence for encoding "UTF8": 0x00')
SLOW = asyncpg.QueryCanceledError("canceling statement due to statement timeout")
READ_ONLY = asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT")


@dataclass
class Table:
    """Takes items, but for some; or none at all for a while."""

    bad: dict[int, Exception] = field(default_factory=dict)
    most: int = 10**9
    troubles: list[Exception] = field(default_factory=list)
    takes_nothing: list[Exception] = field(default_factory=list)
    unwanted: set[int] = field(default_factory=set)
    writes: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    refused: list[tuple[int, Exception]] = field(default_factory=list)
    pauses: list[int] = field(default_factory=list)
    probes: int = 0

    async def write(self, items: list[int]) -> int:
        self.writes.append(len(items))
        if self.troubles:
            raise self.troubles.pop(0)
        if len(items) > self.most:
            raise SLOW
        for item in items:
            if item in self.bad:
                raise self.bad[item]
        return len(items)

    async def settle(self, items: list[int], written: int) -> None:
        assert written == len(items)
        self.stored += items

    async def refuse(self, item: int, error: Exception) -> None:
        self.refused.append((item, error))

    async def probe(self) -> None:
        self.probes += 1
        if self.takes_nothing:
            raise self.takes_nothing.pop(0)

    async def pause(self, attempt: int, error: Exception) -> None:
        self.pauses.append(attempt)

    async def run(self, items: list[int]) -> None:
        await SplitWrite(
            write=self.write,
            settle=self.settle,
            refuse=self.refuse,
            probe=self.probe,
            pause=self.pause,
            is_wanted=lambda item: item not in self.unwanted,
        ).run(items)


async def test_all_at_once_if_nothing_is_wrong() -> None:
    table = Table()
    await table.run([1, 2, 3])
    assert (table.writes, table.stored, table.probes) == ([3], [1, 2, 3], 0)


@pytest.mark.parametrize("place", [0, 777, 1_999])
async def test_one_bad_row_among_two_thousand_costs_two_writes_for_each_halving(
    place: int,
) -> None:
    table = Table(bad={place: BAD})
    await table.run(list(range(2_000)))
    assert table.refused == [(place, BAD)]
    assert sorted(table.stored) == [item for item in range(2_000) if item != place]
    assert len(table.writes) <= 2 * math.ceil(math.log2(2_000)) + 2
    assert table.pauses == []


async def test_what_is_too_much_for_one_statement_is_halved_never_repeated() -> None:
    table = Table(most=100)
    await table.run(list(range(1_000)))
    assert table.stored == list(range(1_000))
    assert (table.refused, table.pauses) == ([], [])
    assert table.writes[:4] == [1_000, 500, 250, 125]


async def test_one_that_is_too_slow_by_itself_is_refused_once_the_others_are_taken() -> None:
    table = Table(bad={3: SLOW})
    await table.run(list(range(8)))
    assert table.refused == [(3, SLOW)]
    assert sorted(table.stored) == [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.parametrize("error", [BAD, SLOW])
async def test_a_single_item_is_refused_only_if_the_server_takes_others(error: Exception) -> None:
    table = Table(bad={1: error}, takes_nothing=[READ_ONLY, BAD, SLOW])
    await table.run([1])
    assert table.refused == [(1, error)]
    assert (table.probes, table.pauses) == (4, [0, 1, 2])


async def test_trouble_of_the_server_is_waited_out_with_the_group_as_it_is() -> None:
    table = Table(troubles=[READ_ONLY, ConnectionResetError(), READ_ONLY])
    await table.run(list(range(50)))
    assert table.writes == [50] * 4
    assert (table.pauses, table.refused) == ([0, 1, 2], [])


async def test_trouble_in_the_middle_of_a_search_blames_nobody_else() -> None:
    table = Table(bad={0: BAD}, troubles=[BAD, READ_ONLY, READ_ONLY])
    await table.run([0, 1, 2, 3])
    assert (table.refused, sorted(table.stored)) == ([(0, BAD)], [1, 2, 3])


async def test_what_nobody_waits_for_any_more_is_left() -> None:
    table = Table(unwanted={1, 2})
    await table.run([1, 2])
    assert table.writes == []
