"""Events that come before their registration: kept, counted later, and refused as any other."""

from core.waits.inbox import UnregisteredAddress
from core.waits.messages import Difference, OfferReply, Reason, Verdict
from core.waits.spec import ExpectedEvent, Source, WaitSpec
from core.waits.state import Wait
from core.waits.strategy import Outcome, Status
from core.waits.transitions import apply
from tests.unit.core.waits.builders import ADDRESS, START, SingleCorrelation, offer, register

SPEC = WaitSpec(
    events=(
        ExpectedEvent(name="api_response", source=Source.API),
        ExpectedEvent(name="kafka_event", source=Source.KAFKA, label="orders"),
    ),
    timeout=60.0,
)


def test_an_early_event_is_buffered_and_counts_later() -> None:
    world = SingleCorrelation()
    reply = world.say(offer("e-1", payload=b"7"), START - 10)
    assert reply == OfferReply(verdict=Verdict.BUFFERED, reason=Reason.NO_WAIT_YET)
    world.say(register(SPEC), START)
    assert world.inbox == {}
    assert world.output["api_response"] == 7
    assert world.waiting_or_ended.version == 1
    assert world.log["e-1"].at == START


def test_an_early_failure_is_still_a_failure() -> None:
    world = SingleCorrelation()
    world.say(offer("e-1", outcome=Outcome.FAILED), START - 10)
    world.say(register(SPEC), START)
    assert world.waiting_or_ended.status is Status.FAILED


def test_the_earliest_of_the_early_wins_however_they_are_read() -> None:
    world = SingleCorrelation()
    for index, event_id in enumerate(("z", "a", "m")):
        world.say(offer(event_id, payload=b"%d" % index), START - 10 + index)
    early = list(world.inbox.values())
    for order in (early, early[::-1]):
        decision = apply(None, register(SPEC), START, UnregisteredAddress(early=tuple(order)))
        assert isinstance(decision.wait, Wait)
        assert decision.wait.marks[0].event_id == "z"
        assert [entry.kind for entry in decision.entries] == ["received", "duplicate", "duplicate"]
        assert set(decision.taken_from_inbox) == {"z", "a", "m"}


def test_an_early_event_that_does_not_fit_stays_with_its_verdict() -> None:
    world = SingleCorrelation()
    world.say(offer("e-1", Source.KAFKA, "payments"), START - 10)
    world.say(register(SPEC), START)
    decision = world.turns[-1].decision
    assert decision.taken_from_inbox == ()
    (parked,) = decision.parked
    assert (parked.verdict, parked.reason) == (Verdict.REJECTED, Reason.LABEL_NOT_EXPECTED)
    assert parked.at == START - 10, "its time to live is counted from when it came"
    assert world.inbox == {"e-1": parked}


def test_an_event_of_another_execution_is_rejected_but_not_lost() -> None:
    """It may be early for a wait of its own: then a registration under its own ids gets it."""
    stray = offer("e-1")
    decision = apply(None, stray, START, UnregisteredAddress(elsewhere="exec-0"))
    assert decision.wait is None
    assert decision.reply == OfferReply(
        verdict=Verdict.REJECTED,
        reason=Reason.EXECUTION_MISMATCH,
        clause=Difference("executionId", "exec-0", "exec-1"),
    )
    assert decision.parked[0].address == ADDRESS
    later = apply(None, register(SPEC), START + 1, UnregisteredAddress(early=decision.parked))
    assert later.wait is not None
    assert later.wait.outcomes["api_response"] is Outcome.RECEIVED
    assert later.taken_from_inbox == ("e-1",)
