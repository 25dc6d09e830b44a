"""One turn at a time: the answers callers hear, and what is committed with them."""

import pytest
from msgspec.structs import replace

from core.waits.messages import (
    Difference,
    OfferReply,
    Reason,
    RefusalKind,
    RefusedReply,
    RegisterReply,
    StatusReply,
    Verdict,
)
from core.waits.spec import ExpectedEvent, Source, Strategy, TimeoutPolicy, WaitSpec
from core.waits.strategy import Outcome, Status
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

SPEC = WaitSpec(
    events=(
        ExpectedEvent(name="api_response", source=Source.API),
        ExpectedEvent(name="kafka_event", source=Source.KAFKA, label="orders", timeout=20.0),
    ),
    timeout=60.0,
)
LENIENT = replace(SPEC, strategy=Strategy.SETTLED)


def opened(spec: WaitSpec = SPEC) -> SingleCorrelation:
    world = SingleCorrelation()
    world.say(register(spec), START)
    return world


def test_a_token_of_a_wait_that_is_forgotten_is_refused_and_nothing_is_kept() -> None:
    world = SingleCorrelation()
    reply = world.say(replace(offer("e-1"), by_token=True), START)
    assert isinstance(reply, RefusedReply)
    assert reply.kind is RefusalKind.TOKEN_EXPIRED
    assert not world.inbox


# Registration.


def test_a_registration_opens_the_wait() -> None:
    world = SingleCorrelation()
    assert world.say(register(SPEC), START) == RegisterReply(
        created=True,
        status=Status.WAITING,
        version=1,
        opened_at=START,
        expires_at=START + 60,
    )


def test_nothing_to_wait_for_ends_at_once() -> None:
    wait = opened(WaitSpec(events=())).waiting_or_ended
    assert wait.status is Status.COMPLETED
    assert wait.ending is not None
    assert (wait.ending.seq, wait.log_length, wait.version) == (1, 1, 1)


def test_a_retried_registration_is_still_the_one_that_created_it() -> None:
    world = opened()
    world.say(offer("e-1"), START + 1)
    reply = world.say(register(SPEC), START + 2)
    assert isinstance(reply, RegisterReply)
    assert (reply.created, reply.version) == (True, 2)


def test_the_same_registration_may_be_repeated_by_anyone() -> None:
    world = opened()
    world.say(offer("e-1"), START + 1)
    reply = world.say(register(SPEC, "reg-2"), START + 2)
    assert isinstance(reply, RegisterReply)
    assert (reply.created, reply.version, reply.opened_at) == (False, 2, START)


def test_the_same_configuration_in_another_order_is_the_same() -> None:
    one, other = (
        WaitSpec(events=(ExpectedEvent(name="k", source=Source.KAFKA, filter=filter_),))
        for filter_ in ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    )
    reply = opened(one).say(register(other, "reg-2"), START)
    assert isinstance(reply, RegisterReply)
    assert not reply.created


@pytest.mark.parametrize(
    ("spec", "node"), [(SPEC, "node-2"), (replace(SPEC, timeout=61.0), "node-1")]
)
def test_another_registration_under_the_same_ids_is_refused(spec: WaitSpec, node: str) -> None:
    world = opened()
    before = world.wait
    assert world.say(register(spec, "reg-2", node), START) == RefusedReply(
        kind=RefusalKind.CONFLICT,
        detail="exec-1:corr-1 is registered with another node or configuration",
        existing="corr-1",
    )
    assert world.wait == before


@pytest.mark.parametrize(
    "message",
    [cancel(), expire(START), accept("api_response"), abandon()],
    ids=["cancel", "expire", "accept", "abandon"],
)
def test_what_was_never_registered_is_unknown(message: object) -> None:
    world = SingleCorrelation()
    reply = world.say(message, START)  # type: ignore[arg-type]
    assert reply == RefusedReply(kind=RefusalKind.UNKNOWN, detail="no wait state exec-1:corr-1")
    assert world.wait is None


# Events in time.


def test_a_matched_event_is_logged_with_its_payload() -> None:
    world = opened()
    reply = world.say(offer("e-1", label="ext", payload=b'{"x":1}'), START + 1)
    assert reply == OfferReply(
        verdict=Verdict.MATCHED,
        reason=Reason.EXPECTED,
        event="api_response",
        status=Status.WAITING,
        seq=1,
    )
    (entry,) = world.log.values()
    assert (entry.kind, entry.event, entry.event_id) == ("received", "api_response", "e-1")
    assert (entry.payload, entry.label, entry.source) == (b'{"x":1}', "ext", Source.API)
    assert (entry.seq, entry.at, entry.content_type) == (1, START + 1, "application/json")


def test_the_last_event_completes_it() -> None:
    world = opened()
    world.say(offer("e-1"), START + 1)
    reply = world.say(offer("e-2", Source.KAFKA, "orders"), START + 2)
    assert isinstance(reply, OfferReply)
    assert (reply.verdict, reply.status, reply.seq) == (Verdict.MATCHED, Status.COMPLETED, 2)
    wait = world.waiting_or_ended
    assert wait.ending is not None
    assert (wait.ending.at, wait.ending.seq) == (START + 2, 3)
    assert (wait.version, wait.log_length) == (3, 3)


def test_the_second_event_of_a_name_is_a_duplicate_and_logged() -> None:
    world = opened()
    world.say(offer("e-1", payload=b"1"), START + 1)
    assert verdict_and_reason(world.say(offer("e-2", payload=b"2"), START + 2)) == (
        Verdict.DUPLICATE,
        Reason.ALREADY_RECEIVED,
    )
    assert world.output["api_response"] == 1
    assert [entry.kind for entry in world.log.values()] == ["received", "duplicate"]


def test_an_event_that_fits_two_places_takes_the_free_one() -> None:
    twins = tuple(ExpectedEvent(name=name, source=Source.API) for name in ("one", "two"))
    world = opened(WaitSpec(events=twins))
    assert verdict_and_reason(world.say(offer("e-1"), START + 1))[0] is Verdict.MATCHED
    assert verdict_and_reason(world.say(offer("e-2"), START + 2))[0] is Verdict.MATCHED
    assert [mark.event_id for mark in world.waiting_or_ended.marks] == ["e-1", "e-2"]


def test_the_same_event_sent_twice_is_a_duplicate_and_not_logged() -> None:
    world = opened()
    world.say(offer("e-1"), START + 1)
    before = world.wait
    again = replace(offer("e-1"), turn_id="another request")
    assert world.say(again, START + 2) == OfferReply(
        verdict=Verdict.DUPLICATE,
        reason=Reason.ALREADY_RECEIVED,
        event="api_response",
        status=Status.WAITING,
        seq=1,
    )
    assert world.wait == before


def test_the_same_request_retried_is_still_matched() -> None:
    world = opened()
    first = world.say(offer("e-1"), START + 1)
    before = world.wait
    assert world.say(offer("e-1"), START + 500) == first
    assert world.wait == before


def test_an_event_without_an_id_of_its_own_is_not_taken_for_a_repetition() -> None:
    """Places that nothing came for have no event id either."""
    world = opened()
    assert verdict_and_reason(world.say(offer(""), START + 1)) == (Verdict.MATCHED, Reason.EXPECTED)


def test_a_failed_call_ends_it_at_once() -> None:
    world = opened()
    reply = world.say(offer("e-1", outcome=Outcome.FAILED), START + 1)
    assert isinstance(reply, OfferReply)
    assert (reply.verdict, reply.status) == (Verdict.MATCHED, Status.FAILED)
    assert [entry.kind for entry in world.log.values()] == ["failed"]


# Events that find no place.


def test_a_refused_event_is_kept_with_its_clause() -> None:
    world = opened()
    reply = world.say(offer("e-1", Source.KAFKA, "payments"), START + 1)
    clause = Difference("topic", ["orders"], "payments")
    assert reply == OfferReply(
        verdict=Verdict.REJECTED,
        reason=Reason.LABEL_NOT_EXPECTED,
        clause=clause,
        status=Status.WAITING,
    )
    parked = world.inbox["e-1"]
    assert (parked.verdict, parked.reason) == (Verdict.REJECTED, Reason.LABEL_NOT_EXPECTED)
    assert (parked.clause, parked.at, parked.payload) == (clause, START + 1, b"{}")
    assert world.waiting_or_ended.version == 1


def test_an_event_after_the_end_is_late_and_logged() -> None:
    world = opened()
    world.say(cancel(), START + 1)
    reply = world.say(offer("e-1"), START + 2)
    assert verdict_and_reason(reply) == (Verdict.LATE, Reason.WAIT_ENDED)
    assert isinstance(reply, OfferReply)
    assert (reply.event, reply.status) == ("api_response", Status.CANCELLED)
    assert world.log["e-1"].kind == "late"


def test_an_event_after_the_overall_deadline_is_late_even_if_no_timer_fired() -> None:
    world = opened()
    reply = world.say(offer("e-1"), START + 60)
    assert verdict_and_reason(reply) == (Verdict.LATE, Reason.DEADLINE_PASSED)
    assert world.waiting_or_ended.status is Status.TIMEOUT
    assert [(entry.seq, entry.event_id) for entry in world.log.values()] == [
        (1, "timeout/api_response"),
        (2, "timeout/kafka_event"),
        (4, "e-1"),
    ]


def test_an_event_after_its_own_deadline_is_late_while_the_wait_goes_on() -> None:
    world = opened(LENIENT)
    reply = world.say(offer("e-1", Source.KAFKA, "orders"), START + 20)
    assert verdict_and_reason(reply) == (Verdict.LATE, Reason.DEADLINE_PASSED)
    assert world.waiting_or_ended.status is Status.WAITING
    assert world.waiting_or_ended.outcomes["kafka_event"] is Outcome.TIMED_OUT


def test_an_event_in_time_is_matched_although_another_has_just_timed_out() -> None:
    world = opened(LENIENT)
    reply = world.say(offer("e-1"), START + 30)
    assert verdict_and_reason(reply) == (Verdict.MATCHED, Reason.EXPECTED)
    assert world.waiting_or_ended.status is Status.COMPLETED
    assert [entry.kind for entry in world.log.values()] == ["timed_out", "received"]


# Deadlines.


def test_a_deadline_before_its_time_changes_nothing() -> None:
    world = opened()
    before = world.wait
    assert world.say(expire(START + 19.9), START + 19.9) == StatusReply(
        status=Status.WAITING, changed=False
    )
    assert world.wait == before


def test_the_deadline_of_one_event_may_end_the_whole() -> None:
    world = opened()
    reply = world.say(expire(START + 20), START + 20)
    assert reply == StatusReply(status=Status.TIMEOUT, changed=True)
    wait = world.waiting_or_ended
    assert wait.outcomes == {"api_response": "pending", "kafka_event": "timed_out"}
    assert wait.ending is not None
    assert wait.ending.missing == ("api_response", "kafka_event")
    (entry,) = world.log.values()
    assert (entry.kind, entry.source, entry.payload) == ("timed_out", None, b"")


def test_the_timer_is_believed_over_a_clock_that_lags() -> None:
    world = opened()
    world.say(expire(START + 60), now=START + 1)
    assert world.waiting_or_ended.status is Status.TIMEOUT


def test_an_optional_timeout_is_ignored_by_required_only() -> None:
    events = (SPEC.events[0], replace(SPEC.events[1], required=False))
    world = opened(replace(SPEC, events=events, strategy=Strategy.REQUIRED_ONLY))
    reply = world.say(expire(START + 20), START + 20)
    assert reply == StatusReply(status=Status.WAITING, changed=True)
    world.say(offer("e-1"), START + 21)
    assert world.waiting_or_ended.status is Status.COMPLETED


def test_any_that_may_go_on_ends_with_empty_data() -> None:
    lenient = replace(SPEC, strategy=Strategy.ANY, on_timeout=TimeoutPolicy.CONTINUE)
    world = opened(lenient)
    world.say(expire(START + 60), START + 60)
    assert world.waiting_or_ended.status is Status.COMPLETED
    assert world.output["received_events"] == []


# Cancelling.


def test_cancelling_ends_it_and_says_so_to_every_retry() -> None:
    world = opened()
    first = world.say(cancel("c-1"), START + 1)
    before = world.wait
    assert first == StatusReply(status=Status.CANCELLED, changed=True)
    assert world.say(cancel("c-1"), START + 2) == first
    assert world.say(cancel("c-2"), START + 3) == StatusReply(
        status=Status.CANCELLED, changed=False
    )
    assert world.wait == before


def test_what_has_ended_cannot_be_cancelled() -> None:
    world = opened()
    world.say(expire(START + 60), START + 60)
    assert world.say(cancel(), START + 61) == StatusReply(status=Status.TIMEOUT, changed=False)
