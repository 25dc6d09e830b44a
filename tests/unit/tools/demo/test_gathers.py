"""The gather demo without a network: what it promises, what it reads, what it shows."""

import random
import time
from datetime import datetime
from typing import Any

import pytest
from rich.console import Console

from cli.shell.errors import InputError
from cli.shell.instance import Instance
from tests.support.command_line import FakeMuster
from tools.demo.gathers.calls import (
    Behaviour,
    Callback,
    ResourceCall,
    behaviour_of,
    direct_behaviour_of,
)
from tools.demo.gathers.command import curl_of, page_of
from tools.demo.gathers.panel import GatherPanel, describe_event
from tools.demo.gathers.resource import make_notes
from tools.demo.gathers.run import PATIENT, foreign_notes, read_outcome
from tools.demo.gathers.script import (
    NAMES,
    SCENARIOS,
    GatherDemoOutcome,
    GatherScenario,
    GatherStrategy,
    custom_scenario,
)
from tools.demo.scenario import ScenarioResult
from tools.demo.screen import results_table

NOW = datetime(2026, 3, 1, 12, 30, 15, 999)  # noqa: DTZ001 - notes have local dates


def scene(*delays: int, timeout: int = 1_000, **more: Any) -> GatherScenario:
    return GatherScenario(
        key="k", title="t", description="s", delays=delays, timeout=timeout, **more
    )


@pytest.mark.parametrize(
    ("delays", "respondents", "errors", "completeness", "notes"),
    [
        ((0, 0, 0), 3, 0, "full", 9),
        ((-1, 0, 0), 2, 0, "partial", 6),
        ((5_000, 0, 0), 2, 1, "partial", 6),
        ((-1, -1, -1), 0, 0, "empty", 0),
        ((5_000, 5_000, 5_000), 0, 3, "empty", 0),
        ((-2, 0, 0), 2, 1, "partial", 6),
    ],
)
def test_the_table_of_results(
    delays: tuple[int, ...], respondents: int, errors: int, completeness: str, notes: int
) -> None:
    ends = scene(*delays).expected
    assert (ends.respondents, ends.errors) == (respondents, errors)
    assert (ends.completeness, ends.notes) == (completeness, notes)


def test_the_timeline_is_the_one_of_the_specification() -> None:
    first = SCENARIOS[0]
    assert (first.delays, first.timeout, first.strategy) == ((1_000, 2_000, 15_000), 10_000, "SSE")
    assert first.expected == GatherDemoOutcome(
        statuses=("ok", "ok", "TIMEOUT"),
        respondents=2,
        errors=1,
        completeness="partial",
        notes=6,
        special=("resource-3 late",),
    )
    assert first.callbacks == 3
    assert str(first.expected) == (
        "partial: ok, ok, TIMEOUT (respondents 2, errors 1, notes 6); resource-3 late"
    )


def test_the_story_has_all_that_was_asked_for() -> None:
    assert len({one.key for one in SCENARIOS}) == len(SCENARIOS)
    seen = {status for one in SCENARIOS for status in one.expected.statuses}
    assert seen == {"ok", "TIMEOUT", "REJECTED", "CONNECTION_CLOSED"}
    assert {one.strategy for one in SCENARIOS} == set(GatherStrategy)
    special = [text for one in SCENARIOS for text in one.expected.special]
    assert special == ["resource-3 late", "resource-1 duplicate"]
    assert any(set(one.expected.statuses) == {"REJECTED"} for one in SCENARIOS)


def test_the_fast_story_is_short_and_keeps_what_no_clock_measures() -> None:
    fast = [one.at_pace(0.2) for one in SCENARIOS]
    assert sum(one.duration_ms for one in fast) < 5_000
    assert fast[0].delays == (200, 400, 3_000)
    assert fast[0].timeout == 2_000
    assert [one.expected for one in fast] == [one.expected for one in SCENARIOS]


def test_how_long_a_scene_takes() -> None:
    assert scene(-1, -2, -11).duration_ms == 0
    assert scene(100, 5_000, -1).duration_ms == 5_000, "the late callback belongs to it"
    assert scene(100, -10, -12).duration_ms == 1_000
    assert scene(100, 5_000, 0, strategy=GatherStrategy.EVERYONE).duration_ms == 1_000


def test_a_caller_that_waits_for_everyone_hears_of_no_callback() -> None:
    both = scene(0, 5_000, -2, strategy=GatherStrategy.EVERYONE)
    assert both.callbacks == 0
    assert both.expected.statuses == ("ok", "TIMEOUT", "REJECTED")
    assert both.expected.special == ()


@pytest.mark.parametrize(
    ("delay", "behaviour", "direct"),
    [
        (0, Behaviour.ANSWER, Behaviour.ANSWER),
        (-1, Behaviour.REJECT, Behaviour.REJECT),
        (-2, Behaviour.ERROR, Behaviour.REJECT),
        (-10, Behaviour.HANG, Behaviour.HANG),
        (-11, Behaviour.CLOSE, Behaviour.CLOSE),
    ],
)
def test_a_delay_says_what_to_do(delay: int, behaviour: Behaviour, direct: Behaviour) -> None:
    assert behaviour_of(delay) is behaviour
    assert direct_behaviour_of(delay) is direct


def test_a_gather_of_one_s_own() -> None:
    own = custom_scenario("100,-1", 1_000, 1.0)
    assert (own.delays, own.timeout) == ((100, -1, 0), 1_000)
    assert custom_scenario(None, None, 0.2).delays == (200, 400, 3_000)


@pytest.mark.parametrize(
    ("delays", "timeout", "told"),
    [
        ("soon", None, "are not delays"),
        ("1,2,3,4", None, "3 resources, but 4 delays"),
        ("60001", None, "at most 60000"),
        ("900", 1_000, "could end either way"),
    ],
)
def test_a_gather_that_cannot_be_played(delays: str, timeout: int | None, told: str) -> None:
    with pytest.raises(InputError, match=told):
        custom_scenario(delays, timeout, 1.0)


def test_notes_are_of_one_resource_and_one_patient_within_a_year() -> None:
    notes = make_notes("resource-1", PATIENT, random.Random(7), NOW)
    assert notes == make_notes("resource-1", PATIENT, random.Random(7), NOW)
    assert len({note["id"] for note in notes}) == 3
    assert foreign_notes("resource-1", notes) == []
    assert len(foreign_notes("resource-2", notes)) == 3
    for note in notes:
        assert list(note) == ["id", "date", "caregiverId", "patientId", "doctorId", "note"]
        assert (NOW - datetime.fromisoformat(note["date"])).days <= 365


def callback(resource: str, verdict: str, status: int | None = 200) -> Callback:
    return Callback(
        resource=resource,
        correlation_id="c",
        body={},
        sent_at=time.monotonic(),
        status=status,
        reply={"verdict": verdict} if status else {"detail": "refused"},
    )


ANSWERS: dict[str, dict[str, Any]] = {
    "resource-1": {"status": "ok", "notes": [1, 2, 3]},
    "resource-2": {"status": "ok", "notes": [1, 2, 3]},
    "resource-3": {"status": "TIMEOUT", "notes": None},
}
SUMMARY = {"respondents": 2, "errors": 1, "completeness": "partial"}
CALLBACKS = [callback(name, "late" if name == "resource-3" else "matched") for name in NAMES]


def test_an_outcome_is_read_from_what_client_and_resources_saw() -> None:
    assert read_outcome(ANSWERS, SUMMARY, CALLBACKS) == SCENARIOS[0].expected
    lacking = {name: ANSWERS[name] for name in NAMES[:2]}
    assert read_outcome(lacking, SUMMARY, CALLBACKS).statuses[2] == "missing"
    unanswered = read_outcome(ANSWERS, SUMMARY, [callback("resource-3", "late", None)])
    assert unanswered.special == ("resource-3 error",)


def result(played: GatherScenario, seen: GatherDemoOutcome | None, *faults: str) -> ScenarioResult:
    return ScenarioResult(scenario=played, actual=seen, seconds=1.0, faults=faults)


def test_a_gather_is_right_only_if_all_of_it_is() -> None:
    first = SCENARIOS[0]
    assert result(first, first.expected).ok
    assert not result(first, read_outcome(ANSWERS, SUMMARY, [])).ok, "the late one is missing"
    failed = result(first, first.expected, "resource-1 came twice")
    assert not failed.ok
    assert failed.document()["seen"].endswith("; resource-1 came twice")
    silent = result(first, None, "not at its end after 25 s")
    assert silent.document()["seen"] == "not at its end after 25 s"


def shown(view: object) -> str:
    console = Console(width=100, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(view)
    return capture.get()


def test_the_summary_has_a_line_for_each_scene() -> None:
    table = shown(results_table([result(one, one.expected) for one in SCENARIOS]))
    assert table.count("the same") == len(SCENARIOS)


def test_the_timeline_tells_what_came_and_what_was_late() -> None:
    view = GatherPanel(SCENARIOS[0], "1/6")
    view.start_clock()
    for name in NAMES:
        view.note_call(ResourceCall(resource=name, direct=False, body={}, headers={}))
    for name in NAMES[:2]:
        view.note_event("callback", {"source": name, **ANSWERS[name]})
        view.note_callback(callback(name, "matched"))
    view.note_event("timeout", {"source": "resource-3", **ANSWERS["resource-3"]})
    view.note_event("summary", SUMMARY)
    view.note_callback(callback("resource-3", "late"))
    view.end(as_expected=True)
    page = shown(view)
    for line in (
        "Muster has called all resources in parallel",
        "→ SSE event: callback (resource-1, 3 notes)",
        "→ SSE event: timeout (resource-3)",
        "→ SSE event: summary (respondents=2, errors=1, partial)",
        "resource-3 POSTs its callback (late)",
        "→ 200 acknowledged, recorded as late",
        "respondents 2  errors 1  received 3 of 3",
    ):
        assert line in page, page


def test_words_for_events() -> None:
    rejected = {"source": "resource-1", "status": "REJECTED"}
    assert describe_event("rejected", rejected) == "rejected (resource-1)"
    closed = {"source": "resource-3", "status": "CONNECTION_CLOSED", "detail": "it closed"}
    assert describe_event("error", closed) == "error CONNECTION_CLOSED (resource-3: it closed)"


def test_the_key_is_where_a_browser_does_not_send_it() -> None:
    local = Instance("http://127.0.0.1:8000", "mk_a_b")
    assert page_of(local) == "http://127.0.0.1:8000/gather#key=mk_a_b"
    assert page_of(Instance(local.url)) == "http://127.0.0.1:8000/gather"
    assert "'Authorization: Bearer mk_a_b'" in curl_of(local)
    assert "Authorization" not in curl_of(Instance(local.url))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--delays", "soon"], "are not delays"),
        (["--delays", "900", "--timeout", "1000"], "could end either way"),
        (["--timeout", "27001"], "27000"),
    ],
)
def test_what_cannot_be_played_is_said_before_anything_is_sent(
    words: list[str], told: str, muster: FakeMuster
) -> None:
    run = muster.run("demo", "gather", *words)
    assert run.exit_code == 2
    assert told in run.stderr
    assert not muster.requests


def test_the_demo_alone_is_that_of_waits(muster: FakeMuster) -> None:
    assert "demo waits [OPTIONS]" in muster.run("demo", "--fast", "--unknown").stderr
    assert "No such command 'nonsense'" in muster.run("demo", "nonsense").stderr
    page = muster.run("demo", "--help").stdout
    assert "waits" in page
    assert "gather" in page
