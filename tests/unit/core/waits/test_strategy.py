"""What the golden table leaves out: words, and waits for nothing."""

from typing import Any

import pytest

from core.waits.spec import ExpectedEvent, Source, Strategy, TimeoutPolicy, WaitSpec
from core.waits.strategy import Ending, Outcome, Status, decide_ending


def test_nothing_to_wait_for_is_complete_at_once() -> None:
    for strategy in set(Strategy) - {Strategy.QUORUM, Strategy.CUSTOM}:
        ending = decide_ending(WaitSpec(events=(), strategy=strategy), [])
        assert ending == Ending(status=Status.COMPLETED, reason="nothing to wait for")


def test_an_ending_says_why_in_words() -> None:
    spec = WaitSpec(
        events=(
            ExpectedEvent(name="api_response", source=Source.API),
            ExpectedEvent(name="kafka_event", source=Source.KAFKA),
        ),
        on_timeout=TimeoutPolicy.CONTINUE_WITH_PARTIAL,
    )
    outcomes = [Outcome.RECEIVED, Outcome.TIMED_OUT]
    assert decide_ending(spec, outcomes) == Ending(
        status=Status.COMPLETED,
        reason="kafka_event did not come in time; onTimeout continue_with_partial goes on without",
        timed_out=True,
        partial=True,
        missing=("kafka_event",),
        warning="continued without kafka_event",
    )


@pytest.mark.parametrize(
    ("fields", "outcomes", "reason"),
    [
        (
            {"on_timeout": TimeoutPolicy.FAIL},
            [Outcome.PENDING, Outcome.TIMED_OUT, Outcome.FAILED],
            "b did not come in time; c failed; a had not come; "
            "strategy all needs 3 of 3, so onTimeout fail ends the wait",
        ),
        (
            {"on_timeout": TimeoutPolicy.CONTINUE},
            [Outcome.RECEIVED, Outcome.TIMED_OUT, Outcome.TIMED_OUT],
            "b, c did not come in time; b is required, so onTimeout continue could not go on",
        ),
        (
            {"on_timeout": TimeoutPolicy.CONTINUE},
            [Outcome.REJECTED, Outcome.TIMED_OUT, Outcome.RECEIVED],
            "b did not come in time; a rejected the request; "
            "a, b are required, so onTimeout continue could not go on",
        ),
        (
            {"on_timeout": TimeoutPolicy.CONTINUE, "strategy": Strategy.QUORUM, "quorum": 2},
            [Outcome.RECEIVED, Outcome.TIMED_OUT, Outcome.TIMED_OUT],
            "b, c did not come in time; "
            "strategy quorum needs 2 of 3, so onTimeout continue could not go on",
        ),
        (
            {"strategy": Strategy.SETTLED},
            [Outcome.RECEIVED, Outcome.TIMED_OUT, Outcome.FAILED],
            "strategy settled is satisfied",
        ),
        (
            {"strategy": Strategy.SETTLED, "gather": True},
            [Outcome.RECEIVED, Outcome.TIMED_OUT, Outcome.FAILED],
            "every resource has answered, failed or timed out",
        ),
    ],
)
def test_the_reason_names_what_is_missing_and_why_that_matters(
    fields: dict[str, Any], outcomes: list[Outcome], reason: str
) -> None:
    events = tuple(
        ExpectedEvent(name=name, source=Source.API, required=name != "c") for name in "abc"
    )
    ending = decide_ending(WaitSpec(events=events, **fields), outcomes)
    assert ending is not None
    assert ending.reason == reason


def test_settled_tells_a_timeout_from_a_refusal() -> None:
    spec = WaitSpec(
        events=(
            ExpectedEvent(name="left", source=Source.API),
            ExpectedEvent(name="right", source=Source.API),
        ),
        strategy=Strategy.SETTLED,
    )
    silent = decide_ending(spec, [Outcome.RECEIVED, Outcome.TIMED_OUT])
    refused = decide_ending(spec, [Outcome.RECEIVED, Outcome.REJECTED])
    assert silent is not None
    assert refused is not None
    assert (silent.timed_out, refused.timed_out) == (True, False)
    assert silent.missing == refused.missing == ("right",)
