from core.waits.outgoing import OutgoingEvent, completion_events
from core.waits.spec import ExpectedEvent, Source, WaitSpec
from core.waits.strategy import Status
from tests.unit.core.waits.builders import (
    ADDRESS,
    START,
    SingleCorrelation,
    cancel,
    offer,
    register,
)


def ended(publish: str | None, *, cancelled: bool = False) -> SingleCorrelation:
    spec = WaitSpec(events=(ExpectedEvent(name="a", source=Source.API),), publish=publish)
    world = SingleCorrelation()
    world.say(register(spec), START)
    world.say(cancel() if cancelled else offer("e"), START)
    return world


def told(world: SingleCorrelation) -> list[tuple[OutgoingEvent, ...]]:
    return [completion_events(turn.before, turn.decision.wait) for turn in world.turns]


def test_the_end_is_told_once() -> None:
    world = ended("done")
    world.say(offer("again"), START)
    expected = OutgoingEvent("done", ADDRESS.scoped_id, "muster.correlation.completed")
    assert told(world) == [(), (expected,), ()]


def test_every_kind_of_end_is_told_by_its_name() -> None:
    world = ended("done", cancelled=True)
    assert world.waiting_or_ended.status is Status.CANCELLED
    assert told(world)[1][0].type == "muster.correlation.cancelled"


def test_nobody_is_told_who_did_not_ask() -> None:
    assert told(ended(None)) == [(), ()]
    assert completion_events(None, None) == ()
