from core.waits.outgoing import Outgoing, outgoing_of
from core.waits.spec import Expected, Source, WaitSpec
from core.waits.strategy import Status
from tests.unit.core.waits.builders import ADDRESS, START, World, cancel, offer, register


def ended(publish: str | None, *, cancelled: bool = False) -> World:
    spec = WaitSpec(events=(Expected(name="a", source=Source.API),), publish=publish)
    world = World()
    world.say(register(spec), START)
    world.say(cancel() if cancelled else offer("e"), START)
    return world


def told(world: World) -> list[tuple[Outgoing, ...]]:
    return [outgoing_of(turn.before, turn.decision.wait) for turn in world.turns]


def test_the_end_is_told_once() -> None:
    world = ended("done")
    world.say(offer("again"), START)
    expected = Outgoing("done", ADDRESS.scoped_id, "muster.correlation.completed")
    assert told(world) == [(), (expected,), ()]


def test_every_kind_of_end_is_told_by_its_name() -> None:
    world = ended("done", cancelled=True)
    assert world.waiting_or_ended.status is Status.CANCELLED
    assert told(world)[1][0].type == "muster.correlation.cancelled"


def test_nobody_is_told_who_did_not_ask() -> None:
    assert told(ended(None)) == [(), ()]
    assert outgoing_of(None, None) == ()
