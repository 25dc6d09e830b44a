"""The account must be able to fail: each flaw is put in by hand and has to be found."""

from dataclasses import replace

import pytest

from tools.chaos.ack_log import Ack
from tools.chaos.reconcile import (
    ENDED,
    CorrelationKey,
    ObservedEvent,
    Reconciliation,
    StoredCorrelation,
    Violation,
    must_end,
    reconcile,
)
from tools.chaos.scenario import RequestChannel, ScenarioShape

PLACE: CorrelationKey = ("e-1", "c-1")
OTHER: CorrelationKey = ("e-2", "c-1")


def ack(channel: RequestChannel, event_id: str = "", verdict: str = "", **more: object) -> Ack:
    values = {"at": 0.0, "execution_id": "e-1", "correlation_id": "c-1", "shape": ScenarioShape.ALL}
    return Ack(channel=channel, event_id=event_id, verdict=verdict, **values | more)  # type: ignore[arg-type]


def line(number: int, event_id: str, kind: str = "received", of: str = "e-1:c-1") -> ObservedEvent:
    return ObservedEvent(number=number, kind=kind, event_id=f"api/s/{event_id}", of=of, id=event_id)


REGISTERED = ack(RequestChannel.REGISTER)
API = ack(RequestChannel.API, "a", "matched")
KAFKA = ack(RequestChannel.KAFKA, "k", "matched")
ACKS = [REGISTERED, API, KAFKA]
KEPT = StoredCorrelation(
    status="completed",
    end_number=3,
    resumed=True,
    counted=("api/s/a", "api/s/k"),
    lines=(line(1, "a"), line(2, "k")),
)
END = ObservedEvent(number=3, kind=ENDED, event_id="", of="e-1:c-1")
BEGIN = ObservedEvent(number=0, kind="registered", event_id="")
SEEN = [BEGIN, line(1, "a"), line(2, "k"), END]


def account(
    acks: list[Ack] = ACKS,
    kept: StoredCorrelation = KEPT,
    seen: list[ObservedEvent] = SEEN,
    floor: int = 1,
) -> Reconciliation:
    return reconcile(acks, {PLACE: kept}, {PLACE: seen}, floor=floor)


def flaws(result: Reconciliation) -> set[Violation]:
    assert result.clean is not bool(result.findings)
    return {finding.violation for finding in result.findings}


def test_what_agrees_is_clean() -> None:
    result = account()
    assert result.clean, result.findings
    assert (result.acknowledged, result.correlations, result.completed) == (3, 1, 1)
    assert result.verdicts == {"matched": 2}


def test_a_run_in_which_nothing_happened_is_not_clean() -> None:
    assert not account(floor=4).clean
    assert not reconcile([], {}, {}, floor=1).clean


@pytest.mark.parametrize(
    "kept",
    [
        StoredCorrelation(),
        replace(KEPT, lines=KEPT.lines[:1], counted=KEPT.counted[:1]),
        replace(KEPT, counted=KEPT.counted[:1], lines=(line(1, "a"), line(2, "k", "duplicate"))),
    ],
    ids=["the whole wait", "an event", "an event that was told it counts"],
)
def test_a_lost_event_is_found(kept: StoredCorrelation) -> None:
    assert Violation.LOST in flaws(account(kept=kept, seen=[]))


@pytest.mark.parametrize("verdict", ["buffered", "duplicate", "late", "rejected"])
def test_an_event_with_any_verdict_must_be_in_the_log_or_in_the_inbox(verdict: str) -> None:
    extra = ack(RequestChannel.API, "x", verdict, reason="execution_mismatch")
    assert flaws(account([*ACKS, extra])) == {Violation.LOST}
    parked = replace(KEPT, parked=(line(0, "x", verdict),))
    assert account([*ACKS, extra], parked).clean
    logged = replace(KEPT, lines=(*KEPT.lines, line(4, "x", verdict)))
    assert account([*ACKS, extra], logged).clean


def test_an_ending_that_the_receiver_saw_twice_is_found() -> None:
    assert flaws(account(seen=[*SEEN, replace(END, number=4)])) == {Violation.TWICE}
    assert flaws(account(seen=[*SEEN, END])) == {Violation.TWICE}


def test_a_line_that_the_receiver_was_shown_again_is_found() -> None:
    assert flaws(account(seen=[BEGIN, SEEN[1], *SEEN[1:]])) == {Violation.TWICE}


def test_a_gap_or_a_missing_end_in_the_stream_is_found() -> None:
    assert flaws(account(seen=[BEGIN, SEEN[1], END])) == {Violation.LOST}
    assert flaws(account(seen=SEEN[:-1])) == {Violation.LOST}


def test_two_things_in_one_place_of_the_log_are_found() -> None:
    two = replace(KEPT, lines=(*KEPT.lines, line(2, "x", "late")))
    assert flaws(account(kept=two)) == {Violation.TWICE}
    over_the_end = replace(KEPT, lines=(*KEPT.lines, line(3, "x", "late")))
    assert flaws(account(kept=over_the_end)) == {Violation.TWICE}


def test_an_event_that_counts_twice_is_found() -> None:
    again = replace(KEPT, counted=("api/s/a", "api/s/a"))
    assert Violation.TWICE in flaws(account(kept=again))
    third = replace(KEPT, lines=(*KEPT.lines, line(4, "x")))
    assert flaws(account(kept=third)) == {Violation.TWICE}


@pytest.mark.parametrize(
    "foreign", [line(4, "x", "late", of="e-2:c-1"), replace(line(4, "x", "late"), id="y")]
)
def test_the_data_of_another_is_found_wherever_it_is(foreign: ObservedEvent) -> None:
    in_log = replace(KEPT, lines=(*KEPT.lines, foreign))
    assert flaws(account(kept=in_log)) == {Violation.CONTAMINATED}
    in_inbox = replace(KEPT, parked=(foreign,))
    assert flaws(account(kept=in_inbox)) == {Violation.CONTAMINATED}
    assert flaws(account(seen=[*SEEN, foreign])) == {Violation.CONTAMINATED}


def test_the_result_of_another_is_found() -> None:
    assert flaws(account(seen=[*SEEN[:-1], replace(END, of="e-2:c-1")])) == {Violation.CONTAMINATED}


def test_a_wait_that_has_all_and_goes_on_waiting_is_found() -> None:
    waiting = replace(KEPT, status="waiting", end_number=None, resumed=False)
    assert flaws(account(kept=waiting, seen=SEEN[:-1])) == {Violation.UNFINISHED}
    half = replace(waiting, lines=KEPT.lines[:1], counted=KEPT.counted[:1])
    assert account(ACKS[:2], half, SEEN[:2]).clean


def test_a_wrong_ending_and_a_resume_that_is_none_are_found() -> None:
    assert flaws(account(kept=replace(KEPT, status="timeout"))) == {Violation.WRONG}
    assert flaws(account(kept=replace(KEPT, resumed=False))) == {Violation.WRONG}


def test_an_impossible_verdict_is_found() -> None:
    refused = ack(RequestChannel.API, "x", "rejected", reason="filtered_out")
    kept = replace(KEPT, parked=(line(0, "x", "rejected"),))
    assert flaws(account([*ACKS, refused], kept)) == {Violation.WRONG}


def test_correlations_are_judged_one_by_one() -> None:
    good = [replace(one, execution_id="e-2") for one in ACKS]
    lines = tuple(replace(one, of="e-2:c-1") for one in KEPT.lines)
    result = reconcile([*ACKS, *good], {OTHER: replace(KEPT, lines=lines)}, {}, floor=1)
    assert {finding.correlation_key for finding in result.findings} == {PLACE}
    assert result.count(Violation.LOST) == 3


@pytest.mark.parametrize(
    ("shape", "channels", "ends"),
    [
        (ScenarioShape.ALL, {RequestChannel.REGISTER, RequestChannel.API}, False),
        (
            ScenarioShape.ALL,
            {RequestChannel.REGISTER, RequestChannel.API, RequestChannel.KAFKA},
            True,
        ),
        (ScenarioShape.ANY, {RequestChannel.API, RequestChannel.KAFKA}, False),
        (ScenarioShape.ANY, {RequestChannel.REGISTER, RequestChannel.KAFKA}, True),
        (ScenarioShape.UNANSWERED, {RequestChannel.REGISTER}, True),
        (ScenarioShape.ORPHAN, {RequestChannel.API, RequestChannel.KAFKA}, False),
    ],
)
def test_what_must_end_follows_from_what_was_acknowledged(
    shape: ScenarioShape, channels: set[RequestChannel], ends: bool
) -> None:
    assert must_end([ack(channel, shape=shape) for channel in channels]) is ends
