"""Rounds forth and back; one in which neighbours took part is run again, within bounds."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from bench import noise
from bench.harness import Measure, duel, interleave
from bench.noise import Noise


class Neighbours:
    """What others took of the machine, lap by lap."""

    def __init__(self, *shares: float) -> None:
        self._shares = list(shares)
        self.discarded = self.noisy = 0
        self._is_end = False

    def lap(self) -> float:
        self._is_end = not self._is_end
        return 0.0 if self._is_end else self._shares.pop(0)


@contextmanager
def beside(neighbours: Neighbours) -> Iterator[None]:
    token = noise.current.set(cast("Noise", neighbours))
    try:
        yield
    finally:
        noise.current.reset(token)


def arms(order: list[str]) -> dict[str, Any]:
    def arm(name: str) -> Any:
        async def run() -> Measure:
            order.append(name)
            return Measure(len(order), 1.0)

        return run

    return {name: arm(name) for name in "ab"}


async def test_arms_take_turns_forth_and_back() -> None:
    order: list[str] = []
    found = await interleave(arms(order), 3)
    assert "".join(order) == "abbaab"
    assert [[one.amount for one in seen] for seen in found.values()] == [[1, 4, 5], [2, 3, 6]]
    assert [(mine.amount, other.amount) for mine, other in await duel(*arms([]).values(), 2)] == [
        (1, 2),
        (4, 3),
    ]


async def test_a_noisy_round_is_run_again_in_its_order() -> None:
    order: list[str] = []
    neighbours = Neighbours(0.01, 0.2, 0.05)
    with beside(neighbours):
        found = await interleave(arms(order), 2)
    assert "".join(order) == "abbaba"
    assert [one.amount for one in found["a"]] == [1, 6]
    assert (neighbours.discarded, neighbours.noisy) == (1, 0)


async def test_where_it_is_never_quiet_what_there_is_counts_and_is_told() -> None:
    neighbours = Neighbours(*[0.5] * 6)
    with beside(neighbours):
        found = await interleave(arms([]), 4)
    assert len(found["a"]) == 4
    assert (neighbours.discarded, neighbours.noisy) == (2, 4)
