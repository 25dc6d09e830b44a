"""The account of a run, for people and for scripts. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tools.chaos.exercise import DrillResult
from tools.chaos.fault import ChaosCheck, Disruption, DurationSummary, summarize_durations
from tools.chaos.reconcile import Reconciliation, Violation

_SHOWN = 10
_VIOLATION_NAMES = {
    Violation.LOST: "lost",
    Violation.TWICE: "completed twice",
    Violation.CONTAMINATED: "contaminated",
    Violation.UNFINISHED: "unfinished",
    Violation.WRONG: "ended wrongly",
}


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
        """Whether everything that was promised was kept."""
        result = self.result
        answered = not result.stats.unexpected and not result.stats.bare and not result.given_up
        return result.account.clean and answered and all(check.holds for check in self.checks)

    @property
    def serving_again(self) -> DurationSummary | None:
        """How long callers felt the blows."""
        return summarize_durations(
            [blow.recovered_after for blow in self.disruptions if blow.recovered_after is not None]
        )

    def document(self) -> dict[str, Any]:
        """Return the report as `--json` prints it."""
        result, tally, again = self.result, self.result.stats, self.serving_again
        return {
            "fault": self.fault,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            **reconciliation_document(result.account),
            "clean": self.clean,
            "refused": {str(status): count for status, count in tally.refused.items()},
            "refusedWithoutRetryAfter": tally.bare,
            "broken": tally.broken,
            "impatient": tally.impatient,
            "unexpected": dict(tally.unexpected),
            "givenUp": result.given_up,
            "blows": [_disruption_document(blow) for blow in self.disruptions],
            "servingAgain": again
            and {"p50": round(again.median, 2), "max": round(again.longest, 2)},
            "drainedAfter": round(result.drained_after, 2),
            "checks": [
                {"name": check.name, "holds": check.holds, "seen": check.observed}
                for check in self.checks
            ],
            "ledger": str(result.ledger),
        }


def reconciliation_document(account: Reconciliation) -> dict[str, Any]:
    """Return the counts as `--json` prints them."""
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
    """One line for each thing that was counted, then what was found."""
    table = _table()
    _count_promises(table, account)
    _count_violations(table, account)
    return Group(table, *_findings(account), _verdict("", clean=account.clean))


def report_view(report: ChaosReport) -> RenderableType:
    """Render the reconciliation, the disruptions and the verdict."""
    result, tally, table = report.result, report.result.stats, _table()
    _count_promises(table, result.account)
    _row(table, "watched live", result.account.watched, "streams, read to their end")
    _row(table, "refused", tally.refused.total(), _refusals(report))
    _row(table, "broken off", tally.broken + tally.impatient, "then sent again, with the same ids")
    _count_violations(table, result.account)
    for name, count in tally.unexpected.items():
        _row(table, f"answered {name}", count, "", good=False)
    if result.given_up:
        _row(table, "never answered", result.given_up, "", good=False)
    head = f"{report.fault}, seed {report.seed}, {report.seconds:.0f} s: "
    lines = [*_times(report), *_checks(report), *_findings(result.account)]
    return Group(table, *lines, _verdict(head, clean=report.clean))


def _table() -> Table:
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    return table


def _count_promises(table: Table, account: Reconciliation) -> None:
    enough = account.acknowledged >= account.floor
    _row(table, "acknowledged", account.acknowledged, f"floor {account.floor:,}", good=enough)
    _row(table, "correlations", account.correlations, f"{account.completed:,} completed")


def _count_violations(table: Table, account: Reconciliation) -> None:
    for violation, name in _VIOLATION_NAMES.items():
        _row(table, name, account.count(violation), "", good=not account.count(violation))


def _row(table: Table, name: str, count: int, remark: str, *, good: bool | None = None) -> None:
    style = {None: "", True: "green", False: "bold red"}[good]
    table.add_row(name, Text(f"{count:,}", style=style), Text(remark, style="dim"))


def _refusals(report: ChaosReport) -> str:
    tally = report.result.stats
    kinds = ", ".join(f"{count:,} by {status}" for status, count in sorted(tally.refused.items()))
    if tally.bare:
        return f"{kinds}; {tally.bare} of them without Retry-After"
    return f"{kinds}, all with Retry-After" if kinds else ""


def _times(report: ChaosReport) -> list[RenderableType]:
    again = report.serving_again
    drained = Text(f"drained {report.result.drained_after:.1f} s after the last new correlation")
    if again is None:
        return [drained]
    felt = f"serving again after {again.median:.1f} s (p50), {again.longest:.1f} s (max)"
    return [Text(f"{felt}, {again.count} blows"), drained]


def _checks(report: ChaosReport) -> list[RenderableType]:
    return [
        Text.assemble(
            ("holds  " if check.holds else "broken ", "green" if check.holds else "bold red"),
            f"{check.name}: {check.observed}",
        )
        for check in report.checks
    ]


def _findings(account: Reconciliation) -> list[RenderableType]:
    findings = account.findings
    lines: list[RenderableType] = [Text(str(one), style="red") for one in findings[:_SHOWN]]
    if len(findings) > _SHOWN:
        lines.append(Text(f"… and {len(findings) - _SHOWN} more; --json has them all", style="red"))
    return lines


def _verdict(head: str, *, clean: bool) -> Text:
    return Text.assemble(head, ("clean", "bold green") if clean else ("not clean", "bold red"))


def _disruption_document(blow: Disruption) -> dict[str, Any]:
    after = None if blow.recovered_after is None else round(blow.recovered_after, 2)
    return {"what": blow.what, "at": round(blow.at, 1), "servingAfter": after}
