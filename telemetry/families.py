"""Builders of Prometheus metric families: a name, a help text, labels, and rows of values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.metrics_core import Metric

from telemetry.actor_metrics import Actor, ActorMetrics, Stat, stats_of

Rows = Iterable[tuple[Sequence[str], float]]
Series = Sequence[tuple[Sequence[str], Mapping[str, Any]]]
"""Label values of actors, with their stats."""


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


def histogram(
    name: str,
    text: str,
    labels: Sequence[str],
    bounds: Sequence[float],
    rows: Iterable[tuple[Sequence[str], Sequence[float], float]],
) -> Metric:
    """Build a histogram of rows that hold label values, a count for each bucket and a sum."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, counts, total in rows:
        family.add_metric(values, cumulative(bounds, counts), total)
    return family


def of_kind(actors: Iterable[Actor], kind: str) -> list[Actor]:
    return [actor for actor in actors if actor.get("kind") == kind]


def actor_families(
    declared: ActorMetrics, actors: Iterable[Actor], tenant: int | None
) -> Iterator[Metric]:
    """Build the declared families of the actors of one kind; none if there are no such actors."""
    labels = declared.labels
    series: Series = [
        (values, stats_of(actor))
        for actor in of_kind(actors, declared.kind)
        if (values := declared.label_values(actor, tenant)) is not None
    ]
    if not series:
        return
    for build, metrics in ((counter, declared.counters), (gauge, declared.gauges)):
        for one in metrics:
            own = [*labels, one.label] if one.label else labels
            yield build(f"muster_{one.name}", one.help, own, _rows(one, series))
    for times in declared.summaries:
        summed = [
            (values, sum(_read(stats, stat) for stat in times.counts), _read(stats, times.total))
            for values, stats in series
        ]
        yield summary(f"muster_{times.name}", times.help, labels, summed)
    for spread in declared.histograms:
        none = [0] * (len(spread.bounds) + 1)
        counted = [
            (values, _read(stats, spread.counts, none), _read(stats, spread.total))
            for values, stats in series
        ]
        yield histogram(f"muster_{spread.name}", spread.help, labels, spread.bounds, counted)


def _rows(metric: Stat, series: Series) -> Iterator[tuple[Sequence[str], float]]:
    for values, stats in series:
        if metric.values:
            for value in metric.values:
                yield (*values, value), _read(stats, f"{metric.stat}{value}")
        elif metric.label:
            for value, number in sorted(_read(stats, metric.stat, {}).items()):
                yield (*values, value), number
        elif not metric.optional or _read(stats, metric.stat, None) is not None:
            yield values, _read(stats, metric.stat)


def _read(stats: Any, path: str, missing: Any = 0) -> Any:
    for part in path.split("."):
        stats = (stats or {}).get(part)
    return missing if stats is None else stats


def cumulative(bounds: Sequence[float], counts: Sequence[float]) -> list[tuple[str, float]]:
    """Convert counts to cumulative buckets, as Prometheus requires."""
    total, buckets = 0.0, []
    for bound, count in zip([*map(str, bounds), "+Inf"], counts, strict=True):
        total += count
        buckets.append((bound, total))
    return buckets
