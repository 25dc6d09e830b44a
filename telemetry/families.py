"""Builders of Prometheus metric families: a name, a help text, labels, and rows of values."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric

Actor = Mapping[str, Any]
"""An actor as the supervisor reports it."""
Rows = Iterable[tuple[Sequence[str], float]]
StatTable = Iterable[tuple[str, str, str]]
"""Rows of metric name, help text and the key in an actor's stats."""
Build = Callable[[str, str, Sequence[str], Rows], Metric]


def counter(name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def gauge(name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def summary(
    name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], int, float]]
) -> Metric:
    """Build a summary of rows that hold label values, a count and a sum."""
    family = SummaryMetricFamily(name, text, labels=labels)
    for values, count, total in rows:
        family.add_metric(values, count, total)
    return family


def stats_of(actor: Actor) -> Mapping[str, Any]:
    return actor.get("stats") or {}


def name_of(actor: Actor) -> str:
    return str(actor.get("name", ""))


def of_kind(actors: Iterable[Actor], kind: str) -> list[Actor]:
    return [actor for actor in actors if actor.get("kind") == kind]


def from_stats(
    build: Build, table: StatTable, label: str, actors: Sequence[Actor]
) -> Iterator[Metric]:
    """Build one family for each row of the table, with one value for each actor."""
    for name, text, stat in table:
        yield build(
            name, text, [label], [([name_of(one)], stats_of(one).get(stat, 0)) for one in actors]
        )
