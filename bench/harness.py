"""Ours and its peers in one run, interleaved, compared by ratio; absolute figures mean nothing."""

import statistics
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table

from bench.goals import Goal
from bench.noise import Quiet

Arm: TypeAlias = Callable[[], Awaitable["Measure"]]
err = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Measure:
    """One run of one arm: how much of what, in which time, at which CPU cost."""

    amount: int
    seconds: float
    cpu_seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Per second."""
        return self.amount / self.seconds

    @property
    def cpu_microseconds(self) -> float:
        """CPU for each of them."""
        return self.cpu_seconds / self.amount * 1e6


@dataclass
class Result:
    """What a scenario found; the last line of its output."""

    scenario: str
    ours: dict[str, Any] = field(default_factory=dict)
    peers: dict[str, Any] = field(default_factory=dict)
    ratios: dict[str, Any] = field(default_factory=dict)
    goals: dict[str, str] = field(default_factory=dict)


async def duel(ours: Arm, peer: Arm, pairs: int) -> list[tuple[Measure, Measure]]:
    """Run both in the order ABBA, `pairs` times each, so that a slow minute hits both."""
    found = await interleave({"ours": ours, "peer": peer}, pairs)
    return list(zip(found["ours"], found["peer"], strict=True))


async def interleave(arms: Mapping[str, Arm], rounds: int) -> dict[str, list[Measure]]:
    """Run all arms in every round, forth and back by turns, so that a slow minute hits all.

    A round in which neighbours took part is run again.
    """
    found: dict[str, list[Measure]] = {name: [] for name in arms}
    quiet, number = Quiet(rounds), 0
    while number < rounds:
        quiet.begin()
        measures = {
            name: await arms[name]() for name in list(arms)[:: 1 if number % 2 == 0 else -1]
        }
        rates = ", ".join(f"{name} {measures[name].rate:,.0f}" for name in arms)
        counts = quiet.counts()
        what = f"{number + 1}/{rounds}" if counts else "discarded, others were at work"
        err.print(f"  round {what}: {rates} a second")
        if counts:
            number += 1
            for name, measure in measures.items():
                found[name].append(measure)
    return found


def ratios_of(ours: list[Measure], peer: list[Measure]) -> dict[str, float]:
    """Rate by rate, round by round."""
    return spread([mine.rate / other.rate for mine, other in zip(ours, peer, strict=True)])


def spread(values: list[float]) -> dict[str, float]:
    """Median and range."""
    return {
        "median": round(statistics.median(values), 3),
        "low": round(min(values), 3),
        "high": round(max(values), 3),
    }


def table_of(result: Result) -> Table:
    """The ratios and their goals, for people."""
    table = Table(title=result.scenario, title_justify="left")
    for column in ("ratio", "median", "range", "goal", ""):
        table.add_column(column)
    for name, ratio in result.ratios.items():
        low, high = ratio["low"], ratio["high"]
        goal = result.goals.get(name, "")
        missed = goal and not Goal.read(goal).met_by(ratio["median"])
        range_ = f"{low:.2f} … {high:.2f}"
        table.add_row(name, f"{ratio['median']:.2f}", range_, goal, "missed" if missed else "")
    return table
