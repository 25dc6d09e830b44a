"""Turns of a correlation whose events Muster itself asks for."""

import pytest

from core.waits.messages import OfferReply, Reason, RegisterReply, StatusReply, Verdict
from core.waits.spec import ExpectedEvent, Source, Strategy, WaitSpec
from core.waits.strategy import Outcome, Status
from core.waits.transitions import apply, verdict_if_only_logged
from tests.unit.core.waits.builders import (
    START,
    SingleCorrelation,
    abandon,
    accept,
    cancel,
    expire,
    offer,
    register,
    verdict_and_reason,
)

GATHER = WaitSpec(
    events=tuple(
        ExpectedEvent(name=n, source=Source.API, label=n) for n in ("one", "two", "three")
    ),
    strategy=Strategy.SETTLED,
    timeout=10.0,
    gather=True,
)
ASKED = b'{"asks":[{"name":"one"}]}'


def gathering() -> SingleCorrelation:
    world = SingleCorrelation()
    world.say(register(GATHER, asked=ASKED), START)
    return world


def test_what_was_asked_is_the_first_line_of_the_log() -> None:
    world = gathering()
    (line,) = world.log.values()
    assert (line.seq, line.kind, line.event, line.at) == (1, "asked", None, START)
    assert (line.payload, line.source) == (ASKED, None)
    wait = world.waiting_or_ended
    assert (wait.log_length, wait.version) == (1, 1)
    reply = world.say(offer("e-1", label="two"), START + 1)
    assert isinstance(reply, OfferReply)
    assert reply.seq == 2


def test_what_was_asked_comes_before_what_was_early() -> None:
    world = SingleCorrelation()
    world.say(offer("e-1", label="two"), START - 1)
    world.say(register(GATHER, asked=ASKED), START)
    assert [(line.seq, line.kind) for line in world.log.values()] == [(1, "asked"), (2, "received")]
    assert (world.waiting_or_ended.log_length, world.waiting_or_ended.version) == (2, 1)


def test_asking_for_nothing_ends_after_the_first_line() -> None:
    decision = apply(None, register(WaitSpec(events=()), asked=ASKED), START)
    assert decision.wait is not None
    assert decision.wait.ending is not None
    assert (decision.wait.ending.seq, decision.wait.log_length) == (2, 2)
    assert [entry.seq for entry in decision.entries] == [1]


def test_a_registration_that_is_retried_asks_once() -> None:
    world = gathering()
    before = world.wait
    reply = world.say(register(GATHER, asked=ASKED), START + 1)
    assert isinstance(reply, RegisterReply)
    assert reply.created
    assert (world.wait, len(world.log)) == (before, 1)


def test_a_promise_is_kept_with_its_time_and_changes_nothing_else() -> None:
    world = gathering()
    before = world.waiting_or_ended
    reply = world.say(accept("two"), START + 1)
    assert reply == StatusReply(status=Status.WAITING, changed=True)
    wait = world.waiting_or_ended
    assert [mark.at for mark in wait.marks] == [0.0, START + 1, 0.0]
    assert wait.outcomes == before.outcomes
    assert (wait.version, wait.log_length) == (2, 1)
    assert wait.due_at == before.due_at
    world.restart()
    assert world.wait == wait


@pytest.mark.parametrize("turn_id", ["accept-1", "accept-2"])
def test_a_promise_counts_once(turn_id: str) -> None:
    world = gathering()
    world.say(accept("two"), START + 1)
    before = world.wait
    again = world.say(accept("two", turn_id), START + 2)
    assert again == StatusReply(status=Status.WAITING, changed=False)
    assert world.wait == before


def test_a_promise_of_what_is_not_expected_is_ignored() -> None:
    world = gathering()
    before = world.wait
    reply = world.say(accept("nobody"), START + 1)
    assert reply == StatusReply(status=Status.WAITING, changed=False)
    assert world.wait == before


@pytest.mark.parametrize("outcome", [Outcome.RECEIVED, Outcome.FAILED, Outcome.REJECTED])
def test_a_promise_that_the_answer_has_overtaken_is_ignored(outcome: Outcome) -> None:
    world = gathering()
    world.say(offer("e-1", label="one", outcome=outcome), START + 1)
    before = world.wait
    assert world.say(accept("one"), START + 2) == StatusReply(status=Status.WAITING, changed=False)
    assert world.wait == before


def test_a_promise_after_the_end_is_ignored() -> None:
    world = gathering()
    world.say(cancel(), START + 1)
    before = world.wait
    assert world.say(accept("one"), START + 2) == StatusReply(
        status=Status.CANCELLED, changed=False
    )
    assert world.wait == before


def test_what_was_promised_still_has_to_come() -> None:
    world = gathering()
    world.say(accept("one"), START + 1)
    reply = world.say(offer("e-1", label="one", payload=b"1"), START + 2)
    assert verdict_and_reason(reply) == (Verdict.MATCHED, Reason.EXPECTED)
    world.say(accept("two"), START + 3)
    world.say(expire(START + 10), START + 10)
    wait = world.waiting_or_ended
    assert wait.outcomes == {"one": "received", "two": "timed_out", "three": "timed_out"}
    assert [line.kind for line in world.log.values()] == [
        "asked",
        "received",
        "timed_out",
        "timed_out",
    ]


def test_any_answer_settles_and_the_last_one_ends_it() -> None:
    world = gathering()
    kinds = {"one": Outcome.REJECTED, "two": Outcome.FAILED, "three": Outcome.TIMED_OUT}
    for name, outcome in kinds.items():
        assert world.waiting_or_ended.status is Status.WAITING
        world.say(offer(f"e-{name}", label=name, outcome=outcome), START + 1)
    wait = world.waiting_or_ended
    assert wait.status is Status.COMPLETED
    assert wait.ending is not None
    assert (wait.ending.partial, wait.ending.timed_out) == (True, True)
    assert wait.ending.missing == ("one", "two", "three")
    assert [line.kind for line in world.log.values()] == [
        "asked",
        "rejected",
        "failed",
        "timed_out",
    ]


def test_an_answer_that_says_it_was_too_late_is_a_timeout_with_its_data() -> None:
    """A call that took too long is told by whoever made it; the deadline is not reached yet."""
    world = gathering()
    reply = world.say(
        offer("call/one", label="one", payload=b'{"x":1}', outcome=Outcome.TIMED_OUT), START + 1
    )
    assert verdict_and_reason(reply) == (Verdict.MATCHED, Reason.EXPECTED)
    assert world.waiting_or_ended.outcomes["one"] is Outcome.TIMED_OUT
    assert world.log["call/one"].payload == b'{"x":1}'
    later = world.say(offer("e-1", label="one"), START + 2)
    assert verdict_and_reason(later) == (Verdict.LATE, Reason.DEADLINE_PASSED)
    world.say(expire(START + 10), START + 10)
    assert [line.kind for line in world.log.values()].count("timed_out") == 3


def test_a_second_answer_of_one_source_counts_nothing() -> None:
    world = gathering()
    world.say(offer("e-1", label="one", payload=b"1"), START + 1)
    assert verdict_and_reason(world.say(offer("e-2", label="one", payload=b"2"), START + 2)) == (
        Verdict.DUPLICATE,
        Reason.ALREADY_RECEIVED,
    )
    assert world.output["one"] == 1


def test_only_what_counts_nothing_is_only_noted() -> None:
    world = gathering()
    one, two = offer("e-1", label="one"), offer("e-2", label="two")
    assert verdict_if_only_logged(world.waiting_or_ended, one, START + 1) is None
    world.say(one, START + 1)
    wait = world.waiting_or_ended
    assert verdict_if_only_logged(wait, one, START + 2) is None, (
        "the same event again changes nothing"
    )
    assert verdict_if_only_logged(wait, offer("e-4", label="stranger"), START + 2) is None
    assert verdict_if_only_logged(wait, two, START + 2) is None
    assert verdict_if_only_logged(wait, offer("e-3", label="one"), START + 2) is Verdict.DUPLICATE
    assert verdict_if_only_logged(wait, two, START + 10) is Verdict.LATE, "its time is over"


# Leaving.


def test_what_nobody_reads_any_more_ends_with_a_reason_of_its_own() -> None:
    reasons: list[str] = []
    for message in (abandon("a-1"), cancel("c-1")):
        world = gathering()
        assert world.say(message, START + 1) == StatusReply(status=Status.CANCELLED, changed=True)
        ending = world.waiting_or_ended.ending
        assert ending is not None
        reasons.append(ending.reason)
    assert reasons == ["its last reader disconnected", "cancelled by a caller"]


def test_readers_that_leave_one_after_another_end_it_once() -> None:
    world = gathering()
    first = world.say(abandon("a-1"), START + 1)
    before = world.wait
    assert world.say(abandon("a-1"), START + 2) == first
    for other in (abandon("a-2"), cancel()):
        assert world.say(other, START + 3) == StatusReply(status=Status.CANCELLED, changed=False)
    assert world.wait == before


def test_what_has_ended_cannot_be_abandoned() -> None:
    world = gathering()
    world.say(expire(START + 10), START + 10)
    assert world.say(abandon(), START + 11) == StatusReply(status=Status.COMPLETED, changed=False)
    assert world.waiting_or_ended.status is Status.COMPLETED
