"""Rates from two samples of the same counters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VERDICTS = ("matched", "buffered", "duplicate", "late", "rejected")
ENDINGS = ("ended_completed", "ended_timeout", "ended_failed", "ended_cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What one actor, or all of them, did per second between two samples."""

    registered: float = 0.0
    events: float = 0.0
    ended: float = 0.0
    flushes: float = 0.0
    rows: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The status document at one moment."""

    report: Mapping[str, Any]

    def actors(self) -> list[Mapping[str, Any]]:
        return list(self.report.get("actors") or ())


def rates_by_actor(before: Sample, after: Sample) -> dict[str, Rates]:
    """Compute rates by actor name.

    The status repeats the last report of each actor, so time is measured by the actor's clock. An
    actor without a new report, or one that was started in between, has no rate yet; an actor that
    counts nothing never has one.
    """
    earlier = {str(actor.get("name")): actor for actor in before.actors()}
    result: dict[str, Rates] = {}
    for actor in after.actors():
        name = str(actor.get("name"))
        old = earlier.get(name)
        if old is None or "flushes" not in numeric_stats(actor):
            continue
        seconds = _uptime(actor) - _uptime(old)
        if seconds > 0:
            result[name] = _rates(numeric_stats(old), numeric_stats(actor), seconds)
    return result


def total_rates(rates: Mapping[str, Rates]) -> Rates:
    names = ("registered", "events", "ended", "flushes", "rows")
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
