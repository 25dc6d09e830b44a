"""When work that does not get on counts as stalled."""

import pytest

from core.shared.stalls import STALLED_AFTER, UNMEASURED, stall_of, stalled_work


def test_work_that_gets_on_is_not_stalled() -> None:
    assert stalled_work({"flush": 0.0, "load": STALLED_AFTER}) == {}


def test_work_that_stands_still_is() -> None:
    assert stalled_work({"flush": 21.0, "load": 1.0}) == {"flush": 21.0}


def test_rounds_over_whole_tables_may_take_long() -> None:
    assert stalled_work({"forget": 600.0}) == {}
    assert stalled_work({"forget": 1_000.0}) == {"forget": 1_000.0}


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({"stalled": {}}, None),
        ({"stalled": {"flush": 3.0}}, None),
        ({"stalled": {"flush": 33.3}}, "flush stalled for 33 s"),
        (
            {"stalled": {"claim": 21.0, "write": 40.0}},
            "claim stalled for 21 s, write stalled for 40 s",
        ),
        ({}, UNMEASURED),
    ],
)
def test_a_report_says_in_words_what_stands_still(report: dict[str, object], words: str) -> None:
    assert stall_of(report) == words
