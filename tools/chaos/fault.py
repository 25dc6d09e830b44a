"""What a fault is, what it works with, and what it leaves for the report."""

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from cli.shell.client import Client
from tools.chaos.exercise import ChaosTarget, Drill


@dataclass(frozen=True, slots=True)
class Disruption:
    """One thing that was broken, and how long callers felt it."""

    what: str
    at: float
    recovered_after: float | None = None


@dataclass(frozen=True, slots=True)
class ChaosCheck:
    """Something beside the reconciliation that has to hold."""

    name: str
    holds: bool
    observed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalInstance(ChaosTarget):
    """A running instance of this machine: only such a one may be broken."""

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
    """How much of the fault is done, where that is known."""
    disruptions: list[Disruption] = field(default_factory=list)
    checks: list[ChaosCheck] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def note(
        self, what: str, at: float | None = None, recovered_after: float | None = None
    ) -> None:
        """Keep a disruption and say it; `at` is a value of `elapsed`."""
        at = self.elapsed if at is None else at
        self.disruptions.append(Disruption(what, at, recovered_after))
        felt = "" if recovered_after is None else f", serving again after {recovered_after:.1f} s"
        self.say(f"{what}{felt}")

    def check(self, name: str, holds: bool, observed: str) -> None:
        self.checks.append(ChaosCheck(name, holds, observed))


InjectFault: TypeAlias = Callable[[FaultRun], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault by name; `times` and `seconds` are its defaults."""

    name: str
    summary: str
    inject: InjectFault
    times: int = 1
    seconds: float = 20.0
    needs_embedded: bool = False


def fault(name: str, summary: str, **defaults: Any) -> Callable[[InjectFault], Fault]:
    """Make the decorated function a fault."""
    return lambda inject: Fault(name, summary, inject, **defaults)
