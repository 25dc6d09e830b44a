import msgspec

from core.shared.timestamps import to_iso
from core.waits.completion_event import (
    CompletionMessage,
    OutgoingEvent,
    build_completion,
    completion_events,
)
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

SPEC = WaitSpec(
    events=(
        ExpectedEvent(name="a", source=Source.API),
        ExpectedEvent(name="b", source=Source.KAFKA),
    ),
    publish="done",
)


def told(world: SingleCorrelation) -> CompletionMessage:
    wait = world.waiting_or_ended
    lines = list(world.log.values())
    return build_completion(wait, lines, "done", "muster.correlation.completed", "http://muster")


def completed() -> SingleCorrelation:
    world = SingleCorrelation()
    world.say(register(SPEC), START)
    world.say(offer("e1", payload=b'{"n":1}'), START + 1)
    world.say(offer("e2", Source.KAFKA, payload=b"2"), START + 2)
    return world


def test_a_completion_carries_ids_and_output() -> None:
    completion = told(completed())
    assert (completion.topic, completion.key) == ("done", ADDRESS.scoped_id)
    document = msgspec.json.decode(completion.value)
    assert document["executionId"] == ADDRESS.execution_id
    assert document["status"] == Status.COMPLETED
    assert document["output"]["a"] == {"n": 1}
    assert document["output"]["b"] == 2
    assert document["endedAt"] == to_iso(START + 2)


def test_it_is_a_cloudevent_whose_id_stays_the_same() -> None:
    one, two = told(completed()), told(completed())
    headers = {name: value.decode() for name, value in one.headers}
    assert headers["ce_type"] == "muster.correlation.completed"
    assert headers["ce_correlationid"] == ADDRESS.correlation_id
    assert headers["ce_id"] == one.event_id == two.event_id


def test_an_end_without_result_has_no_output() -> None:
    world = SingleCorrelation()
    world.say(register(SPEC), START)
    world.say(cancel(), START)
    document = msgspec.json.decode(told(world).value)
    assert document["status"] == "cancelled"
    assert "output" not in document


def test_what_has_not_ended_says_so() -> None:
    world = SingleCorrelation()
    world.say(register(SPEC), START)
    document = msgspec.json.decode(told(world).value)
    assert (document["status"], "endedAt" in document) == ("waiting", False)


# What is stored with the end.


def ended(publish: str | None, *, cancelled: bool = False) -> SingleCorrelation:
    spec = WaitSpec(events=(ExpectedEvent(name="a", source=Source.API),), publish=publish)
    world = SingleCorrelation()
    world.say(register(spec), START)
    world.say(cancel() if cancelled else offer("e"), START)
    return world


def stored(world: SingleCorrelation) -> list[tuple[OutgoingEvent, ...]]:
    return [completion_events(turn.before, turn.decision.wait) for turn in world.turns]


def test_the_end_is_told_once() -> None:
    world = ended("done")
    world.say(offer("again"), START)
    expected = OutgoingEvent("done", ADDRESS.scoped_id, "muster.correlation.completed")
    assert stored(world) == [(), (expected,), ()]


def test_every_kind_of_end_is_told_by_its_name() -> None:
    world = ended("done", cancelled=True)
    assert world.waiting_or_ended.status is Status.CANCELLED
    assert stored(world)[1][0].type == "muster.correlation.cancelled"


def test_nobody_is_told_who_did_not_ask() -> None:
    assert stored(ended(None)) == [(), ()]
    assert completion_events(None, None) == ()
