"""The report of a run, for people and for scripts. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tools.chaos.exercise import DrillResult
from tools.chaos.fault import ChaosCheck, Disruption
from tools.chaos.reconcile import Reconciliation, Violation

_SHOWN = 10
_VIOLATION_NAMES = {
    Violation.LOST: "lost",
    Violation.TWICE: "completed twice",
    Violation.CONTAMINATED: "contaminated",
    Violation.UNFINISHED: "unfinished",
    Violation.WRONG: "ended wrongly",
}
_STYLES = {None: "", True: "green", False: "bold red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosReport:
    """One fault, run to its end."""

    fault: str
    seed: int
    seconds: float
    result: DrillResult
    disruptions: Sequence[Disruption]
    checks: Sequence[ChaosCheck]

    @property
    def clean(self) -> bool:
        result = self.result
        answered = not result.stats.unexpected and not result.stats.bare and not result.given_up
        return result.account.clean and answered and all(check.holds for check in self.checks)

    @property
    def recoveries(self) -> list[float]:
        """How many seconds callers felt each disruption."""
        after = [one.recovered_after for one in self.disruptions]
        return [seconds for seconds in after if seconds is not None]

    def document(self) -> dict[str, Any]:
        """Return the report as `--json` prints it."""
        result, stats, after = self.result, self.result.stats, self.recoveries
        return {
            "fault": self.fault,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            **reconciliation_document(result.account),
            "clean": self.clean,
            "refused": {str(status): count for status, count in stats.refused.items()},
            "refusedWithoutRetryAfter": stats.bare,
            "broken": stats.broken,
            "impatient": stats.impatient,
            "unexpected": dict(stats.unexpected),
            "givenUp": result.given_up,
            "blows": [
                {
                    "what": one.what,
                    "at": round(one.at, 1),
                    "servingAfter": one.recovered_after and round(one.recovered_after, 2),
                }
                for one in self.disruptions
            ],
            "servingAgain": {"p50": round(statistics.median(after), 2), "max": round(max(after), 2)}
            if after
            else None,
            "drainedAfter": round(result.drained_after, 2),
            "checks": [
                {"name": check.name, "holds": check.holds, "seen": check.observed}
                for check in self.checks
            ],
            "ledger": str(result.ack_log),
        }


def reconciliation_document(account: Reconciliation) -> dict[str, Any]:
    return {
        "clean": account.clean,
        "acknowledged": account.acknowledged,
        "floor": account.floor,
        "correlations": account.correlations,
        "completed": account.completed,
        "watched": account.watched,
        "verdicts": dict(account.verdicts),
        "flaws": {violation.value: account.count(violation) for violation in Violation},
        "findings": [str(finding) for finding in account.findings],
    }


def reconciliation_view(account: Reconciliation) -> RenderableType:
    """Render the counts and the findings of a reconciliation alone."""
    table = _CountTable()
    table.add_acks(account)
    table.add_violations(account)
    return Group(table.grid, *_findings(account), _verdict("", clean=account.clean))


def report_view(report: ChaosReport) -> RenderableType:
    """Render the reconciliation, the disruptions and the verdict."""
    result, stats, table = report.result, report.result.stats, _CountTable()
    table.add_acks(result.account)
    table.add("watched live", result.account.watched, "streams, read to their end")
    table.add("refused", stats.refused.total(), _refusals(report))
    table.add("broken off", stats.broken + stats.impatient, "then sent again, with the same ids")
    table.add_violations(result.account)
    for name, count in stats.unexpected.items():
        table.add(f"answered {name}", count, good=False)
    if result.given_up:
        table.add("never answered", result.given_up, good=False)
    lines = [*_durations(report), *map(_check_line, report.checks), *_findings(result.account)]
    head = f"{report.fault}, seed {report.seed}, {report.seconds:.0f} s: "
    return Group(table.grid, *lines, _verdict(head, clean=report.clean))


class _CountTable:
    """A row for each thing that was counted."""

    def __init__(self) -> None:
        self.grid = Table.grid(padding=(0, 3))
        self.grid.add_column(style="dim")
        self.grid.add_column(justify="right")
        self.grid.add_column(overflow="fold")

    def add(self, name: str, count: int, remark: str = "", *, good: bool | None = None) -> None:
        number = Text(f"{count:,}", style=_STYLES[good])
        self.grid.add_row(name, number, Text(remark, style="dim"))

    def add_acks(self, account: Reconciliation) -> None:
        enough = account.acknowledged >= account.floor
        self.add("acknowledged", account.acknowledged, f"floor {account.floor:,}", good=enough)
        self.add("correlations", account.correlations, f"{account.completed:,} completed")

    def add_violations(self, account: Reconciliation) -> None:
        for violation, name in _VIOLATION_NAMES.items():
            self.add(name, account.count(violation), good=not account.count(violation))


def _refusals(report: ChaosReport) -> str:
    stats = report.result.stats
    kinds = ", ".join(f"{count:,} by {status}" for status, count in sorted(stats.refused.items()))
    if stats.bare:
        return f"{kinds}; {stats.bare} of them without Retry-After"
    return f"{kinds}, all with Retry-After" if kinds else ""


def _durations(report: ChaosReport) -> list[RenderableType]:
    after = report.recoveries
    drained = Text(f"drained {report.result.drained_after:.1f} s after the last new correlation")
    if not after:
        return [drained]
    felt = f"{statistics.median(after):.1f} s (p50), {max(after):.1f} s (max)"
    times = "1 disruption" if len(after) == 1 else f"{len(after)} disruptions"
    return [Text(f"serving again after {felt}, {times}"), drained]


def _check_line(check: ChaosCheck) -> RenderableType:
    verdict = ("holds  ", "green") if check.holds else ("broken ", "bold red")
    return Text.assemble(verdict, f"{check.name}: {check.observed}")


def _findings(account: Reconciliation) -> list[RenderableType]:
    findings = account.findings
    lines: list[RenderableType] = [Text(str(one), style="red") for one in findings[:_SHOWN]]
    if len(findings) > _SHOWN:
        lines.append(Text(f"… and {len(findings) - _SHOWN} more; --json has them all", style="red"))
    return lines


def _verdict(head: str, *, clean: bool) -> Text:
    return Text.assemble(head, ("clean", "bold green") if clean else ("not clean", "bold red"))
