"""What the golden table leaves out: words, and waits for nothing."""

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
        reason="strategy all needs 2 of 2; kafka_event timed_out; "
        "onTimeout continue_with_partial goes on",
        timed_out=True,
        partial=True,
        missing=("kafka_event",),
        warning="continued without kafka_event",
    )


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
