"""A report is clean only if everything is: account, answers and checks."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tools.chaos.exercise import DrillResult
from tools.chaos.fault import ChaosCheck, Disruption
from tools.chaos.load import CallerStats
from tools.chaos.reconcile import Finding, Reconciliation, Violation
from tools.chaos.report import ChaosReport, reconciliation_view, report_view

ACCOUNT = Reconciliation(
    acknowledged=1_200, correlations=300, completed=280, watched=20, floor=100, verdicts={}
)
RESULT = DrillResult(
    account=ACCOUNT, stats=CallerStats(), drained_after=1.25, given_up=0, ack_log=Path("book.jsonl")
)
REPORT = ChaosReport(
    fault="kills",
    seed=7,
    seconds=61.0,
    result=RESULT,
    disruptions=[
        Disruption("killed one", 1.0, 0.5),
        Disruption("killed two", 2.0, 2.5),
        Disruption("told", 3.0),
    ],
    checks=[ChaosCheck("memory is bounded", True, "+3 MB")],
)
LOST = Finding(Violation.LOST, ("e", "c"), "x is gone")


def shown(report: ChaosReport) -> str:
    console = Console(width=120, no_color=True)
    with console.capture() as capture:
        console.print(report_view(report))
    return capture.get()


def test_a_clean_report_says_so_with_its_figures() -> None:
    assert REPORT.clean
    text = shown(REPORT)
    assert "1,200" in text
    assert "serving again after 1.5 s (p50), 2.5 s (max), 2 disruptions" in text
    assert "drained 1.2 s" in text
    assert "holds  memory is bounded: +3 MB" in text
    assert text.rstrip().endswith("kills, seed 7, 61 s: clean")


@pytest.mark.parametrize(
    "spoilt",
    [
        replace(RESULT, account=replace(ACCOUNT, findings=[LOST])),
        replace(RESULT, account=replace(ACCOUNT, acknowledged=99)),
        replace(RESULT, stats=CallerStats(unexpected=Counter({"500 internal": 1}))),
        replace(RESULT, stats=CallerStats(bare=1)),
        replace(RESULT, given_up=1),
    ],
    ids=["a finding", "too little", "an unexpected answer", "no Retry-After", "no answer"],
)
def test_anything_spoils_it(spoilt: DrillResult) -> None:
    report = replace(REPORT, result=spoilt)
    assert not report.clean
    assert report.document()["clean"] is False
    assert shown(report).rstrip().endswith("not clean")


def test_a_check_that_does_not_hold_spoils_it() -> None:
    report = replace(REPORT, checks=[ChaosCheck("memory is bounded", False, "+3 GB")])
    assert not report.clean
    assert "broken memory is bounded: +3 GB" in shown(report)


def test_what_was_found_is_told_but_not_all_of_it() -> None:
    account = replace(ACCOUNT, findings=[LOST] * 12)
    console = Console(width=120, no_color=True)
    with console.capture() as capture:
        console.print(reconciliation_view(account))
    text = capture.get()
    assert text.count("lost: e:c: x is gone") == 10
    assert "and 2 more" in text


def test_the_document_has_every_figure() -> None:
    document = REPORT.document()
    assert document["flaws"] == dict.fromkeys(
        ["lost", "twice", "contaminated", "unfinished", "wrong"], 0
    )
    assert document["servingAgain"] == {"p50": 1.5, "max": 2.5}
    assert document["blows"][2] == {"what": "told", "at": 3.0, "servingAfter": None}
    assert document["ledger"] == "book.jsonl"


def test_nothing_felt_has_no_durations() -> None:
    report = replace(REPORT, disruptions=[Disruption("nobody felt it", 3.0)])
    assert report.document()["servingAgain"] is None
    assert "serving again" not in shown(report)
