"""Metrics of actors, declared beside the code that counts them; the registry publishes them.

An actor reports its numbers as `stats`, and a metric names those that it is made of, with dots
where one lies within another. Names are published with `muster_` in front. Declaring a metric
needs no Prometheus, which no actor imports.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Actor = Mapping[str, Any]
"""An actor as the supervisor reports it."""


@dataclass(frozen=True, slots=True)
class Stat:
    """A counter or gauge: one series for each actor, and for each value of `label`.

    With `values`, each has a stat of its own, named `stat` and the value; without them, the stat
    is a mapping of values to numbers. An actor without an `optional` stat has no series.
    """

    name: str
    help: str
    stat: str
    label: str = ""
    values: tuple[str, ...] = ()
    optional: bool = False

    @property
    def stats(self) -> list[str]:
        return [f"{self.stat}{value}" for value in self.values] or [self.stat]


@dataclass(frozen=True, slots=True)
class SummaryStat:
    """A number of observations, which several stats may count, and their sum."""

    name: str
    help: str
    counts: tuple[str, ...]
    total: str


@dataclass(frozen=True, slots=True)
class HistogramStat:
    """Observations by upper bound: a list with one count for each, and one for those above all."""

    name: str
    help: str
    bounds: tuple[float, ...]
    counts: str
    total: str


def stats_of(actor: Actor) -> Mapping[str, Any]:
    return actor.get("stats") or {}


def name_of(actor: Actor) -> str:
    return str(actor.get("name", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorMetrics:
    """All metrics of one kind of actor; `label_values` is None for what a tenant may not see."""

    kind: str
    labels: tuple[str, ...]
    label_values: Callable[[Actor, int | None], Sequence[str] | None] = lambda actor, _tenant: (
        name_of(actor),
    )
    counters: tuple[Stat, ...] = ()
    gauges: tuple[Stat, ...] = ()
    summaries: tuple[SummaryStat, ...] = ()
    histograms: tuple[HistogramStat, ...] = ()
