"""What a fault is, what it works with, and what it leaves for the account."""

import random
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from cli.shell.client import Client
from tools.chaos.exercise import Drill


@dataclass(frozen=True, slots=True)
class Disruption:
    """One thing that was broken, and how long callers felt it."""

    what: str
    at: float
    recovered_after: float | None = None


@dataclass(frozen=True, slots=True)
class ChaosCheck:
    """Something beside the account that has to hold."""

    name: str
    holds: bool
    observed: str


@dataclass(frozen=True, slots=True)
class LocalInstance:
    """A running instance of this machine: only such a one may be broken."""

    url: str
    key: str = field(repr=False)
    dsn: str = field(repr=False)
    data_dir: Path
    run_dir: Path
    embedded: bool
    """Whether its PostgreSQL is one of ours, so that it may be stopped."""


@dataclass(slots=True, kw_only=True)
class FaultRun:
    """A fault at work on an instance under load."""

    local: LocalInstance
    drill: Drill
    client: Client
    rng: random.Random
    times: int
    seconds: float
    say: Callable[[str], None] = lambda _: None
    progress: float | None = None
    """How much of the fault is done, where that can be told."""
    disruptions: list[Disruption] = field(default_factory=list)
    checks: list[ChaosCheck] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        """Seconds since the fault began."""
        return time.monotonic() - self._began

    def note(self, blow: Disruption) -> None:
        """Keep a blow and say it."""
        self.disruptions.append(blow)
        felt = (
            ""
            if blow.recovered_after is None
            else f", serving again after {blow.recovered_after:.1f} s"
        )
        self.say(f"{blow.what}{felt}")

    def check(self, name: str, holds: bool, observed: str) -> None:
        """Keep something that has to hold."""
        self.checks.append(ChaosCheck(name, holds, observed))


InjectFault: TypeAlias = Callable[[FaultRun], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault by name. `times` and `seconds` are what it does unless told otherwise."""

    name: str
    summary: str
    inject: InjectFault
    times: int = 1
    seconds: float = 20.0
    needs_embedded: bool = False


@dataclass(frozen=True, slots=True)
class DurationSummary:
    """Many durations in three numbers."""

    count: int
    median: float
    longest: float


def summarize_durations(values: list[float]) -> DurationSummary | None:
    """How long things took; None if nothing did."""
    return DurationSummary(len(values), statistics.median(values), max(values)) if values else None
