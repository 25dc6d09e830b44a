"""What one correlation may hold: beyond it an event is refused with a reason."""

from msgspec.structs import replace

from core.waits.inbox import UnregisteredAddress
from core.waits.limits import WaitLimits
from core.waits.messages import Difference, OfferReply, Reason, Reply, Verdict
from core.waits.spec import ExpectedEvent, Source, WaitSpec, placeholder_spec
from core.waits.transitions import apply
from tests.unit.core.waits.builders import START, SingleCorrelation, offer, register

SPEC = WaitSpec(
    events=(
        ExpectedEvent(name="one", source=Source.API, label="one"),
        ExpectedEvent(name="two", source=Source.API, label="two"),
    ),
    timeout=60.0,
)


def answer_of(reply: Reply) -> OfferReply:
    assert isinstance(reply, OfferReply)
    return reply


def test_early_events_are_bounded_in_number() -> None:
    world = SingleCorrelation(limits=WaitLimits(early_events=2))
    for index in range(3):
        world.say(offer(f"e-{index}", payload=b"{}"), START)
    reply = answer_of(world.turns[-1].decision.reply)
    assert (reply.verdict, reply.reason) == (Verdict.REJECTED, Reason.TOO_MANY_EARLY)
    assert reply.clause == Difference("earlyEvents", 2, 3)
    assert world.inbox["e-2"].payload == b"", "noted without its data"


def test_early_events_are_bounded_in_bytes() -> None:
    world = SingleCorrelation(limits=WaitLimits(early_bytes=10))
    world.say(offer("e-0", payload=b"x" * 8), START)
    reply = answer_of(world.say(offer("e-1", payload=b"x" * 3), START))
    assert (reply.reason, reply.clause) == (Reason.TOO_MANY_EARLY, Difference("earlyBytes", 10, 11))
    assert answer_of(world.say(offer("e-2", payload=b"x" * 2), START)).verdict is Verdict.BUFFERED


def test_the_first_early_event_has_room_whatever_its_size() -> None:
    world = SingleCorrelation(limits=WaitLimits(early_bytes=10))
    reply = answer_of(world.say(offer("e-0", payload=b"x" * 11), START))
    assert reply.verdict is Verdict.BUFFERED


def test_an_early_event_that_is_sent_again_is_still_buffered_when_there_is_no_room() -> None:
    world = SingleCorrelation(limits=WaitLimits(early_events=1))
    for _ in range(2):
        reply = answer_of(world.say(offer("e-0"), START))
        assert reply.verdict is Verdict.BUFFERED
    assert len(world.inbox) == 1


def test_as_many_refused_events_are_noted_as_are_kept() -> None:
    """What is told of them is bounded as well: the rest is counted."""
    world = SingleCorrelation(limits=WaitLimits(early_events=2))
    for index in range(6):
        world.say(offer(f"e-{index}"), START)
    assert list(world.inbox) == ["e-0", "e-1", "e-2", "e-3"]
    assert answer_of(world.turns[-1].decision.reply).reason is Reason.TOO_MANY_EARLY


def test_a_registration_asks_the_log_for_room_for_early_events() -> None:
    """What would only be noted stays in the inbox; what counts has its place."""
    world = SingleCorrelation(limits=WaitLimits(log_lines=2))
    for index in range(4):
        world.say(offer(f"e-{index}", label="one"), START - 10 + index)
    world.say(offer("e-4", label="two"), START - 1)
    world.say(register(SPEC), START)
    assert [entry.kind for entry in world.log.values()] == ["received", "duplicate", "received"]
    assert {e.event_id: e.verdict for e in world.inbox.values()} == {
        "e-2": Verdict.DUPLICATE,
        "e-3": Verdict.DUPLICATE,
    }


def test_what_a_wait_gathers_is_bounded_in_bytes() -> None:
    world = SingleCorrelation(limits=WaitLimits(result_bytes=10))
    world.say(register(SPEC), START)
    world.say(offer("e-0", label="one", payload=b"x" * 6), START)
    reply = answer_of(world.say(offer("e-1", label="two", payload=b"x" * 5), START))
    assert (reply.verdict, reply.reason) == (Verdict.REJECTED, Reason.TOO_LARGE_TOGETHER)
    assert reply.clause == Difference("bytes", 10, 11)
    assert world.inbox["e-1"].reason is Reason.TOO_LARGE_TOGETHER
    assert answer_of(world.say(offer("e-2", label="two", payload=b"x" * 4), START)).event == "two"
    assert world.waiting_or_ended.ending is not None


def test_a_mark_of_an_older_row_has_no_size() -> None:
    world = SingleCorrelation()
    world.say(register(SPEC), START)
    world.say(offer("e-0", label="one", payload=b"{}"), START)
    wait = world.waiting_or_ended
    assert [mark.size for mark in wait.marks] == [2, 0]
    world.wait = replace(wait, marks=(replace(wait.marks[0], size=0), wait.marks[1]))
    assert answer_of(world.say(offer("e-1", label="two"), START)).event == "two"


def test_events_of_a_wait_whose_spec_is_lost_are_kept_within_the_bounds() -> None:
    world = SingleCorrelation(limits=WaitLimits(early_events=1))
    world.say(register(SPEC), START)
    lost = replace(world.waiting_or_ended, spec=placeholder_spec(SPEC.digest, 2))
    found = UnregisteredAddress(sizes={"e-0": 2})
    first = apply(lost, offer("e-0"), START, found, world.limits)
    assert first.wait is lost
    assert answer_of(first.reply).verdict is Verdict.BUFFERED
    second = apply(lost, offer("e-1"), START, found, world.limits)
    assert answer_of(second.reply).reason is Reason.TOO_MANY_EARLY
