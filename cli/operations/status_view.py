"""The status report as Rich tables."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.shell.durations import format_duration
from cli.shell.rates import Rates, Sample, numeric_stats, total_rates

_COLUMNS = ("actor", "state", "pid", "restarts", "uptime")
_NUMBERS = ("hot", "backlog", "events/s", "flushes/s")


def status_view(url: str, sample: Sample, rates: Mapping[str, Rates]) -> RenderableType:
    """Totals above, one line per actor below."""
    return Group(_totals(url, sample, total_rates(rates)), Text(""), _actors(sample, rates))


def _totals(url: str, sample: Sample, rate: Rates) -> RenderableType:
    actors = sample.actors()
    alive = sum(bool(actor.get("alive")) for actor in actors)
    table = Table.grid(padding=(0, 3))
    for title, value in (
        ("instance", Text(url)),
        ("actors", Text(f"{alive} of {len(actors)}", "green" if alive == len(actors) else "red")),
        ("hot correlations", _count(_sum(sample, "hot"))),
        ("backlog", _count(_sum(sample, "pending"))),
        ("registered", Text(f"{rate.registered:,.1f} a second")),
        ("events", Text(f"{rate.events:,.1f} a second")),
        ("ended", Text(f"{rate.ended:,.1f} a second")),
        ("flushes", Text(f"{rate.flushes:,.1f} a second{_rows_each(rate)}")),
    ):
        table.add_row(Text(title, style="dim"), value)
    return table


def _actors(sample: Sample, rates: Mapping[str, Rates]) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim")
    nodes = {actor.get("node") for actor in sample.actors()}
    for title in (*_COLUMNS, *(("node",) if len(nodes) > 1 else ())):
        table.add_column(title, overflow="fold")
    for title in _NUMBERS:
        table.add_column(title, justify="right")
    for actor in sample.actors():
        where = [Text(str(actor.get("node") or ""))] if len(nodes) > 1 else []
        load = _load(actor, rates.get(str(actor.get("name"))))
        table.add_row(*_identity(actor), *where, *load)
    return table


def _identity(actor: Mapping[str, Any]) -> list[RenderableType]:
    uptime = actor.get("uptime")
    state = Text("up", style="green") if actor.get("alive") else Text("down", style="bold red")
    return [
        Text(str(actor.get("name"))),
        state,
        str(actor.get("pid") or ""),
        str(actor.get("restarts") or 0),
        format_duration(uptime) if isinstance(uptime, int | float) else "",
    ]


def _load(actor: Mapping[str, Any], rate: Rates | None) -> list[RenderableType]:
    stats = numeric_stats(actor)
    counts: list[RenderableType] = [
        _count(stats[name]) if name in stats else "" for name in ("hot", "pending")
    ]
    if rate is None or "flushes" not in stats:
        return [*counts, "", ""]
    return [*counts, f"{rate.events:,.1f}", f"{rate.flushes:,.1f}"]


def _sum(sample: Sample, name: str) -> float:
    """The report's own total where it has one, else the sum over the actors."""
    totals = sample.report.get("totals") or {}
    if isinstance(totals.get(name), int | float):
        return float(totals[name])
    return sum(numeric_stats(actor).get(name, 0) for actor in sample.actors())


def _rows_each(rate: Rates) -> str:
    return f", {rate.rows / rate.flushes:.1f} rows each" if rate.flushes else ""


def _count(number: float) -> Text:
    return Text(f"{number:,.0f}")
