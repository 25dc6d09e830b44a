"""Long work of one caller does not keep the others waiting."""

import asyncio
import threading
import time

import pytest

from services.shared.time_slice import MIN_OFFLOAD_BYTES, STEP, map_yielding, offload_if_large


def slowly(number: int) -> int:
    time.sleep(STEP / 4)
    return 2 * number


async def test_others_have_their_turn_between_the_steps() -> None:
    turns: list[float] = []

    async def other() -> None:
        while True:
            turns.append(time.perf_counter())
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    assert await map_yielding(slowly, range(40)) == [2 * number for number in range(40)]
    task.cancel()
    # Forty pieces of work are ten steps. A machine that is slow makes more of them, never fewer.
    assert len(turns) >= 8


async def test_short_work_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "services.shared.time_slice.STEP", 60.0
    )  # so that it is short on any machine
    turns: list[None] = []

    async def other() -> None:
        turns.append(None)

    task = asyncio.create_task(other())
    assert await map_yielding(str, [1, 2]) == ["1", "2"]
    assert not turns
    await task


@pytest.mark.parametrize(
    ("size", "here"), [(0, True), (MIN_OFFLOAD_BYTES, True), (MIN_OFFLOAD_BYTES + 1, False)]
)
async def test_work_on_many_bytes_is_done_apart(size: int, here: bool) -> None:
    ran_in = await offload_if_large(threading.get_ident, size)
    assert (ran_in == threading.get_ident()) is here
