from typing import Any

import pytest
from msgspec.structs import replace

from core.waits.explain import explain
from core.waits.messages import Difference, Reason, Verdict
from core.waits.spec import ExpectedEvent, Source, Strategy, TimeoutPolicy, WaitSpec
from core.waits.state import ParkedEvent
from core.waits.strategy import Outcome
from tests.unit.core.waits.builders import (
    ADDRESS,
    START,
    SingleCorrelation,
    cancel,
    expire,
    offer,
    register,
)

SPEC = WaitSpec(
    events=(
        ExpectedEvent(name="api_response", source=Source.API),
        ExpectedEvent(name="kafka_event", source=Source.KAFKA, label="orders", timeout=20.0),
        ExpectedEvent(name="paid", source=Source.KAFKA, label="payments", required=False),
    ),
    timeout=60.0,
)


def opened(spec: WaitSpec = SPEC) -> SingleCorrelation:
    world = SingleCorrelation()
    world.say(register(spec), START)
    return world


def test_a_wait_that_still_waits() -> None:
    world = opened()
    world.say(offer("e-1", label="ext"), START + 1.5)
    told = explain(world.waiting_or_ended, [], START + 5)
    assert told.summary == (
        "waiting: 1 of 3 events are here, kafka_event, paid are missing (strategy all). "
        "15 s are left until the next deadline; then onTimeout fail decides."
    )
    assert told.events == {
        "api_response": "received from api after 1.500 s as e-1",
        "kafka_event": "not here yet (from kafka orders); 15.0 s left",
        "paid": "not here yet (from kafka payments); 55.0 s left",
    }
    assert told.near_misses == []


def test_only_needed_events_are_waited_for() -> None:
    world = opened(replace(SPEC, strategy=Strategy.REQUIRED_ONLY))
    told = explain(world.waiting_or_ended, [], START)
    assert "0 of 2 events are here, api_response, kafka_event are missing" in told.summary


@pytest.mark.parametrize(
    ("fields", "summary"),
    [
        (
            {},
            "waiting: 2 of 3 events are here, kafka_event is missing (strategy all). "
            "10 s are left; then onTimeout fail ends it.",
        ),
        (
            {"strategy": Strategy.QUORUM, "quorum": 3, "on_timeout": TimeoutPolicy.CONTINUE},
            "waiting: 2 of 3 events are here, kafka_event is missing (strategy quorum). "
            "10 s are left; then onTimeout continue decides.",
        ),
        (
            {
                "strategy": Strategy.SETTLED,
                "on_timeout": TimeoutPolicy.CONTINUE_WITH_PARTIAL,
            },
            "waiting: 2 of 3 have answered or failed, kafka_event is missing (strategy settled). "
            "10 s are left; then onTimeout continue_with_partial goes on with what is here.",
        ),
    ],
)
def test_the_last_missing_event_and_what_the_policy_does(
    fields: dict[str, Any], summary: str
) -> None:
    world = opened(replace(SPEC, timeout=20.0, **fields))
    world.say(offer("e-1", label="ext"), START + 1)
    world.say(offer("e-2", Source.KAFKA, "payments"), START + 1)
    assert explain(world.waiting_or_ended, [], START + 10).summary == summary


def test_any_of_several_events_is_enough() -> None:
    world = opened(replace(SPEC, strategy=Strategy.ANY))
    told = explain(world.waiting_or_ended, [], START)
    needed = "0 of the 1 needed are here, any of api_response, kafka_event, paid counts"
    assert told.summary.startswith(f"waiting: {needed} (strategy any). ")


def test_time_left_never_goes_below_zero() -> None:
    told = explain(opened().waiting_or_ended, [], START + 1000)
    assert " 0 s are left until the next deadline" in told.summary
    assert told.events["api_response"].endswith("; 0.0 s left")


def test_a_wait_that_completed() -> None:
    world = opened(replace(SPEC, strategy=Strategy.ANY))
    world.say(offer("e-1", Source.KAFKA, "orders"), START + 2)
    told = explain(world.waiting_or_ended, [], START + 9)
    assert told.summary == "completed after 2.000 s: strategy any is satisfied"
    assert told.events["paid"] == "had not come from kafka payments when the wait ended"


def test_a_wait_that_timed_out() -> None:
    world = opened()
    world.say(expire(START + 20), START + 20)
    told = explain(world.waiting_or_ended, [], START + 99)
    assert told.summary == (
        "ended as timeout after 20.000 s: kafka_event did not come in time; "
        "api_response, paid had not come; "
        "strategy all needs 3 of 3, so onTimeout fail ends the wait"
    )
    assert told.events["kafka_event"] == "did not come from kafka orders within 20 s"


def test_a_wait_that_failed_and_went_on() -> None:
    world = opened(replace(SPEC, on_timeout=TimeoutPolicy.CONTINUE_WITH_PARTIAL))
    world.say(offer("e-1", outcome=Outcome.FAILED), START + 1)
    told = explain(world.waiting_or_ended, [], START + 99)
    assert told.summary.startswith("completed after 1.000 s: api_response failed; ")
    assert told.events["api_response"] == "failed from api after 1.000 s as e-1"


def test_a_cancelled_wait() -> None:
    world = opened()
    world.say(cancel(), START + 3)
    told = explain(world.waiting_or_ended, [], START + 99)
    assert told.summary == "ended as cancelled after 3.000 s: cancelled by a caller"


def test_near_misses_tell_the_clause_and_both_values() -> None:
    near = ParkedEvent(
        address=ADDRESS,
        turn_id="t",
        event_id="e-9",
        source=Source.KAFKA,
        label="orders",
        payload=b"{}",
        content_type="application/json",
        verdict=Verdict.REJECTED,
        reason=Reason.FILTERED_OUT,
        clause=Difference("filter.kind", "done", "started"),
        at=START,
    )
    early = replace(
        near, verdict=Verdict.BUFFERED, reason=Reason.NO_WAIT_YET, clause=None, event_id="e-8"
    )
    first, second = explain(opened().waiting_or_ended, [near, early], START).near_misses
    assert (first.event_id, first.source, first.label) == ("e-9", "kafka", "orders")
    assert (first.verdict, first.reason, first.at) == ("rejected", "filtered_out", START)
    assert first.sentence == 'filtered out: filter.kind expected "done", got "started"'
    assert second.sentence == "no wait yet"


def test_a_field_that_is_absent_is_told_from_one_that_is_null() -> None:
    difference = Difference("filter.a.b", None, None, is_absent=True)
    assert str(difference) == "filter.a.b expected null, but the event has no a.b"
    assert str(Difference("source", ["api"], None)) == 'source expected ["api"], got null'
