"""While one batch is written, the next gathers."""

import asyncio

from services.shared.group_commit import GroupCommit, KeyedGroupCommit


class Table:
    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.open = asyncio.Event()

    async def write(self, batch: list[int]) -> None:
        self.batches.append(batch.copy())
        await self.open.wait()


async def finished(commit: GroupCommit[int]) -> None:
    if commit._running is not None:
        await commit._running


async def test_what_comes_during_a_write_is_one_batch() -> None:
    table = Table()
    commit = GroupCommit(table.write, 4)
    commit.add(1)
    await asyncio.sleep(0)
    for item in range(2, 8):
        commit.add(item)
    assert len(commit) == 7
    table.open.set()
    await finished(commit)
    assert table.batches == [[1], [2, 3, 4, 5], [6, 7]]
    assert len(commit) == 0


async def test_a_batch_is_bounded_by_what_its_items_cost() -> None:
    table = Table()
    table.open.set()
    commit = GroupCommit(table.write, 10, cost=lambda item: (1, item), max_cost=(3, 100))
    commit.add(60, 50, 50, 1, 1, 1, 500, 1)
    await finished(commit)
    assert table.batches == [[60], [50, 50], [1, 1, 1], [500], [1]]


async def test_a_write_that_fails_does_not_end_it() -> None:
    batches: list[list[int]] = []

    async def write(batch: list[int]) -> None:
        batches.append(batch)
        if len(batches) == 1:
            raise ValueError

    commit = GroupCommit(write, 10)
    commit.add(1)
    await asyncio.gather(finished(commit), return_exceptions=True)
    assert len(commit) == 0
    commit.add(2)
    await finished(commit)
    assert batches == [[1], [2]]


async def test_closing_gives_what_is_left_a_moment() -> None:
    table = Table()
    commit = GroupCommit(table.write, 1)
    commit.add(1, 2)
    asyncio.get_running_loop().call_later(0.01, table.open.set)
    await commit.close(5.0)
    assert table.batches == [[1], [2]]
    table.open.clear()
    commit.add(3)
    await asyncio.sleep(0)
    await commit.close()
    assert commit._running is None


async def test_keys_do_not_wait_for_each_other_and_are_forgotten() -> None:
    open_, written = asyncio.Event(), []

    async def write(key: str, batch: list[int]) -> None:
        written.append((key, batch.copy()))
        if key == "slow":
            await open_.wait()

    commits: KeyedGroupCommit[str, int] = KeyedGroupCommit(write, 10, max_waiting=2)
    commits.add("slow", [1])
    commits.add("quick", [2])
    await asyncio.sleep(0)
    for _ in range(3):
        commits.add("slow", [3, 4])
    assert len(commits) == 1
    open_.set()
    await commits.close(5.0)
    assert written == [("slow", [1]), ("quick", [2]), ("slow", [3, 4])]
    assert len(commits) == 0
