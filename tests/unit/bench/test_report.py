import copy
import json
from pathlib import Path

import pytest

from bench import report

SEEN = {"median": 4.2, "low": 3.9, "high": 4.4}
ENTRY: report.Entry = {
    "scenario": "aggregate",
    "ours": {"events_per_second": {"median": 12345.6, "low": 12000.0, "high": 13000.0}},
    "peers": {"pgbench": {"clients": 16, "tps": {"median": 0.5, "low": 0.5, "high": 0.5}}},
    "ratios": {"events / pgbench tps": SEEN, "events / bare": SEEN},
    "goals": {"events / pgbench tps": "≥ 5", "events / bare": "≥ 0.5"},
    "command": "python -m bench aggregate",
    "commit": "abc1234",
    "date": "2026-11-16",
    "quick": False,
    "noise": {"foreign": 0.01, "steal": 0.0},
    "machine": {
        "cpu": "Test CPU",
        "cores": 2,
        "memory_gb": 24,
        "system": "Linux 6",
        "python": "3.11.7",
        "ray": "2.60.0",
        "postgres": "18.4",
        "fsync": "on",
        "syncs_per_second": 4321,
    },
}


def changed(**fields: object) -> report.Entry:
    return copy.deepcopy(ENTRY) | fields


def line_with(text: str, words: str) -> str:
    return next(line for line in text.splitlines() if words in line)


def test_a_missed_goal_is_said_plainly() -> None:
    text = report.render({"aggregate": ENTRY})
    missed = "| `aggregate` | events / pgbench tps | **4.2** | 3.9 … 4.4 | ≥ 5 | **missed** |"
    assert missed in text.splitlines()
    assert line_with(text, "events / bare").endswith("| ≥ 0.5 | reached |")


def test_a_figure_comes_with_its_machine_command_commit_and_date() -> None:
    text = report.render({"aggregate": ENTRY})
    assert "2 cores (Test CPU), 24 GB" in text
    assert "PostgreSQL 18.4 with fsync on" in text
    run = "| `aggregate` | `python -m bench aggregate` | abc1234 | 2026-11-16 | 1.0% | 4,321 |"
    assert run in text.splitlines()


def test_a_noisy_or_quick_run_says_so() -> None:
    entry = changed(quick=True, noise={"foreign": 0.04, "steal": 0.02})
    text = report.render({"aggregate": entry})
    assert "6.0% (noisy) |" in text
    counted = changed(noise={"foreign": 0.01, "steal": 0.0, "discarded": 2, "noisy": 1})
    text_counted = report.render({"aggregate": counted})
    assert "| 1.0%, 2 pairs discarded, 1 noisy ones kept |" in text_counted
    assert "`aggregate` (quick)" in text


def test_runs_of_two_machines_are_told_apart() -> None:
    other = changed(scenario="memory", machine=ENTRY["machine"] | {"cores": 8})
    text = report.render({"aggregate": ENTRY, "memory": other})
    assert line_with(text, "2 cores").startswith("- aggregate: ")
    assert line_with(text, "8 cores").startswith("- memory: ")


def test_absolute_figures_are_listed_with_their_range() -> None:
    lines = report.render({"aggregate": ENTRY}).splitlines()
    assert "| `aggregate` | ours · events per second | 12,346 (12,000 … 13,000) |" in lines
    assert "| `aggregate` | pgbench · clients | 16 |" in lines
    assert "| `aggregate` | pgbench · tps | 0.5 |" in lines


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.0872, "0.0872"), (1.857, "1.86"), (99.95, "100"), (12345.6, "12,346")],
)
def test_numbers_have_three_digits(value: float, shown: str) -> None:
    assert report.number(value) == shown


def test_only_what_is_between_the_marks_is_replaced() -> None:
    page = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    once = report.splice(page, "new\n")
    assert once == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"
    assert report.splice(once, "new") == once


def test_a_page_without_marks_is_not_touched() -> None:
    with pytest.raises(ValueError, match="has no"):
        report.splice("nothing here", "new")


def test_a_new_run_replaces_the_last_one_of_its_scenario(tmp_path: Path) -> None:
    path = tmp_path / "performance.json"
    report.record(ENTRY, path)
    report.record(changed(scenario="memory"), path)
    report.record(changed(commit="def5678"), path)
    assert list(report.read(path)) == ["aggregate", "memory"]
    assert report.read(path)["aggregate"]["commit"] == "def5678"
    assert json.loads(path.read_text())


def test_the_plot_shows_how_far_a_goal_is() -> None:
    found = report.headrooms({"aggregate": ENTRY})
    assert [name for name, _ in found] == [
        "aggregate: events / pgbench tps",
        "aggregate: events / bare",
    ]
    assert [value for _, value in found] == pytest.approx([0.84, 8.4])
