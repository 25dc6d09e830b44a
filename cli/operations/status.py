"""`muster status`: how the instance is doing."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from rich.console import RenderableType
from rich.status import Status
from rich.text import Text

from cli.shell import formats as fmt
from cli.shell.client import Client, Document
from cli.shell.context import CommandContext, err, single_command
from cli.shell.output import columns, pairs, sections, table
from cli.shell.watching import WatchOptions, show_or_watch

VERDICTS = ("matched", "buffered", "duplicate", "late", "rejected")
ENDINGS = ("ended_completed", "ended_timeout", "ended_failed", "ended_cancelled")
_MAX_SAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What one actor, or all of them, did per second between two reports."""

    registered: float = 0.0
    events: float = 0.0
    ended: float = 0.0
    flushes: float = 0.0
    rows: float = 0.0


def rates_by_actor(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Rates]:
    """Compute rates by actor name, from two status reports.

    A report repeats the last report of each actor, so time is measured by the actor's clock. An
    actor without a new report, or one that was started in between, has no rate yet; an actor that
    counts nothing never has one.
    """
    earlier = {str(actor.get("name")): actor for actor in before.get("actors") or ()}
    result: dict[str, Rates] = {}
    for actor in after.get("actors") or ():
        name = str(actor.get("name"))
        old = earlier.get(name)
        if old is None or "flushes" not in numeric_stats(actor):
            continue
        seconds = _uptime(actor) - _uptime(old)
        if seconds > 0:
            result[name] = _rates(numeric_stats(old), numeric_stats(actor), seconds)
    return result


def total_rates(rates: Mapping[str, Rates]) -> Rates:
    names = [field.name for field in fields(Rates)]
    return Rates(**{name: sum(getattr(rate, name) for rate in rates.values()) for name in names})


def _uptime(actor: Mapping[str, Any]) -> float:
    uptime = actor.get("uptime")
    return float(uptime) if isinstance(uptime, int | float) else 0.0


def numeric_stats(actor: Mapping[str, Any]) -> dict[str, float]:
    stats = actor.get("stats") or {}
    return {name: value for name, value in stats.items() if isinstance(value, int | float)}


def _rates(old: Mapping[str, float], new: Mapping[str, float], seconds: float) -> Rates:
    def per_second(*names: str) -> float:
        before, after = (sum(stats.get(name, 0) for name in names) for stats in (old, new))
        return max(0.0, after - before) / seconds

    return Rates(
        registered=per_second("registered"),
        events=per_second(*VERDICTS),
        ended=per_second(*ENDINGS),
        flushes=per_second("flushes"),
        rows=per_second("flush_rows"),
    )


StatusState = tuple[Document, Mapping[str, Rates]]


class StatusReader:
    """Reads the status, with the rates since the report before."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._before: Document | None = None

    async def read(self) -> StatusState:
        report = await self._client.get("/api/status")
        rates = rates_by_actor(self._before or report, report)
        if rates or self._before is None:
            self._before = report
        return report, rates

    async def read_with_rates(self, every: float) -> StatusState:
        """Read until the actors have reported twice, if they report at all."""
        state = await self.read()
        for _ in range(_MAX_SAMPLES):
            await asyncio.sleep(every)
            state = await self.read()
            if state[1]:
                break
        return state


@single_command("muster status --watch")
async def status(shell: CommandContext, options: WatchOptions) -> None:
    """Show actors, hot correlations, flush rate and backlog.

    Rates are measured between two polls. With --watch and --json each poll is one line.
    """
    async with shell.connect() as client:
        reader = StatusReader(client)

        async def read_once() -> StatusState:
            with Status("Measuring …", console=err):
                return await reader.read_with_rates(options.every)

        await show_or_watch(
            shell,
            options,
            reader.read if options.watch else read_once,
            lambda state: status_view(client.instance.url, *state),
            _document,
        )


def _document(state: StatusState) -> dict[str, object]:
    report, rates = state
    by_actor = {name: asdict(rate) for name, rate in rates.items()}
    return {**report, "rates": {"total": asdict(total_rates(rates)), "actors": by_actor}}


def status_view(url: str, report: Document, rates: Mapping[str, Rates]) -> RenderableType:
    """Show totals above, one line per actor below."""
    actors = report.get("actors") or ()
    is_cluster = len({actor.get("node") for actor in actors}) > 1
    total = asdict(total_rates(rates))
    rows_each = f", {total['rows'] / total['flushes']:.1f} rows each" if total["flushes"] else ""

    def rate(name: str) -> fmt.Format:
        return lambda _: f"{total[name]:,.1f} per second"

    totals = columns(
        ("instance", lambda _: url),
        ("actors", "actors", _alive),
        ("hot correlations", lambda report: f"{_sum(report, 'hot'):,.0f}"),
        ("backlog", lambda report: f"{_sum(report, 'pending'):,.0f}"),
        ("registered", rate("registered")),
        ("events", rate("events")),
        ("ended", rate("ended")),
        ("flushes", lambda _: f"{total['flushes']:,.1f} per second{rows_each}"),
    )
    by_actor = columns(
        ("actor", "name"),
        ("state", "alive", fmt.up_or_down),
        "pid",
        ("restarts", "restarts", lambda count: fmt.text(count or 0)),
        ("uptime", "uptime", fmt.length),
        *(["node"] if is_cluster else []),
        ("hot", _stat("hot")),
        ("backlog", _stat("pending")),
        ("events/s", _rate("events", rates)),
        ("flushes/s", _rate("flushes", rates)),
    )
    return sections(pairs(totals, report), table(by_actor, actors))


def _alive(actors: Any) -> Text:
    alive, all_actors = sum(bool(actor.get("alive")) for actor in actors or ()), len(actors or ())
    return Text(f"{alive} of {all_actors}", "green" if alive == all_actors else "red")


def _stat(name: str) -> fmt.RightAligned:
    def render(actor: Document) -> str:
        value = numeric_stats(actor).get(name)
        return "" if value is None else f"{value:,.0f}"

    return fmt.RightAligned(render)


def _rate(name: str, rates: Mapping[str, Rates]) -> fmt.RightAligned:
    def render(actor: Document) -> str:
        found = rates.get(str(actor.get("name")))
        return "" if found is None else f"{getattr(found, name):,.1f}"

    return fmt.RightAligned(render)


def _sum(report: Document, name: str) -> float:
    """Return the report's own total where it has one, else the sum over the actors."""
    total = (report.get("totals") or {}).get(name)
    if isinstance(total, int | float):
        return float(total)
    return sum(numeric_stats(actor).get(name, 0) for actor in report.get("actors") or ())
