"""The status report as tables."""

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from cli.operations.rates import Rates, Sample, numeric_stats, total_rates
from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.durations import format_duration
from cli.shell.output import columns, pairs_table, sections, table


def status_view(url: str, sample: Sample, rates: Mapping[str, Rates]) -> RenderableType:
    """Show totals above, one line per actor below."""
    return sections(_totals(url, sample, total_rates(rates)), _actors(sample, rates))


def _totals(url: str, sample: Sample, rate: Rates) -> RenderableType:
    actors = sample.actors()
    alive = sum(bool(actor.get("alive")) for actor in actors)
    rows_each = f", {rate.rows / rate.flushes:.1f} rows each" if rate.flushes else ""
    return pairs_table(
        [
            ("instance", Text(url)),
            (
                "actors",
                Text(f"{alive} of {len(actors)}", "green" if alive == len(actors) else "red"),
            ),
            ("hot correlations", f"{_sum(sample, 'hot'):,.0f}"),
            ("backlog", f"{_sum(sample, 'pending'):,.0f}"),
            ("registered", f"{rate.registered:,.1f} per second"),
            ("events", f"{rate.events:,.1f} per second"),
            ("ended", f"{rate.ended:,.1f} per second"),
            ("flushes", f"{rate.flushes:,.1f} per second{rows_each}"),
        ]
    )


def _actors(sample: Sample, rates: Mapping[str, Rates]) -> RenderableType:
    actors = sample.actors()
    is_cluster = len({actor.get("node") for actor in actors}) > 1

    def stat(name: str) -> fmt.RightAligned:
        def render(actor: Document) -> str:
            value = numeric_stats(actor).get(name)
            return "" if value is None else f"{value:,.0f}"

        return fmt.RightAligned(render)

    def rate(name: str) -> fmt.RightAligned:
        def render(actor: Document) -> str:
            found = rates.get(str(actor.get("name")))
            is_counting = found is not None and "flushes" in numeric_stats(actor)
            return f"{getattr(found, name):,.1f}" if is_counting else ""

        return fmt.RightAligned(render)

    shown = columns(
        ("actor", "name"),
        ("state", "alive", _state),
        ("pid", "pid"),
        ("restarts", "restarts", lambda count: fmt.text(count or 0)),
        ("uptime", "uptime", _uptime),
        *([("node", "node")] if is_cluster else []),
        ("hot", stat("hot")),
        ("backlog", stat("pending")),
        ("events/s", rate("events")),
        ("flushes/s", rate("flushes")),
    )
    return table(shown, actors)


def _state(is_alive: Any) -> Text:
    return Text("up", style="green") if is_alive else Text("down", style="bold red")


def _uptime(uptime: Any) -> str:
    return format_duration(uptime) if isinstance(uptime, int | float) else ""


def _sum(sample: Sample, name: str) -> float:
    """Return the report's own total where it has one, else the sum over the actors."""
    totals = sample.report.get("totals") or {}
    if isinstance(totals.get(name), int | float):
        return float(totals[name])
    return sum(numeric_stats(actor).get(name, 0) for actor in sample.actors())
