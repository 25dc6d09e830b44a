import pytest

from core.waits.spec import ExpectedEvent, Source, WaitSpec
from core.waits.state import PENDING, EventState, Wait, to_stored
from core.waits.strategy import Outcome, Status
from tests.unit.core.waits.builders import (
    ADDRESS,
    START,
    SingleCorrelation,
    as_column,
    expire,
    register,
    reloaded,
)

SPEC = WaitSpec(
    events=(
        ExpectedEvent(name="a", source=Source.API, timeout=5.0),
        ExpectedEvent(name="b", source=Source.API),
        ExpectedEvent(name="c", source=Source.KAFKA, timeout=99.0),
    ),
    timeout=60.0,
)


def wait_with(*outcomes: Outcome) -> Wait:
    return Wait(
        address=ADDRESS,
        node_id="n",
        spec=SPEC,
        registered_by="t",
        opened_at=1000.0,
        expires_at=1060.0,
        marks=tuple(EventState(outcome) for outcome in outcomes),
    )


def test_deadlines_of_the_whole_and_of_each_event() -> None:
    wait = wait_with(*[Outcome.PENDING] * 3)
    assert wait.expires_at == 1060.0
    assert [wait.deadline_of(index) for index in range(3)] == [1005.0, 1060.0, 1060.0]


@pytest.mark.parametrize(
    ("outcomes", "due_at"),
    [
        ((Outcome.PENDING, Outcome.PENDING, Outcome.PENDING), 1005.0),
        ((Outcome.RECEIVED, Outcome.PENDING, Outcome.PENDING), 1060.0),
        ((Outcome.RECEIVED, Outcome.FAILED, Outcome.TIMED_OUT), 1060.0),
    ],
)
def test_the_next_deadline_is_that_of_a_pending_event(
    outcomes: tuple[Outcome, ...], due_at: float
) -> None:
    assert wait_with(*outcomes).due_at == due_at


def test_outcomes_by_name_and_places_by_name() -> None:
    wait = wait_with(Outcome.RECEIVED, Outcome.PENDING, Outcome.REJECTED)
    assert wait.outcomes == {"a": "received", "b": "pending", "c": "rejected"}
    assert [wait.index_of(name) for name in "abc"] == [0, 1, 2]
    assert wait.status is Status.WAITING
    assert PENDING.outcome is Outcome.PENDING


def test_a_moment_is_kept_to_the_microsecond() -> None:
    assert to_stored(1_763_251_200.1234564) == 1_763_251_200.123456
    assert to_stored(START) == START == as_column(START)


def test_a_deadline_read_from_a_row_has_passed_for_the_wait_too() -> None:
    """Floats and columns round differently: 0.4 s later may be one step of a float too late."""
    opened_at = next(
        moment
        for moment in (as_column(START + n * 0.000_001) for n in range(100))
        if moment + 0.4 > as_column(moment + 0.4)
    )
    world = SingleCorrelation()
    world.say(register(WaitSpec(events=SPEC.events[1:], timeout=0.4)), opened_at)
    column = as_column(world.waiting_or_ended.due_at)
    world.wait = reloaded(world.waiting_or_ended)
    world.say(expire(column), now=opened_at)
    assert world.waiting_or_ended.status is Status.TIMEOUT
