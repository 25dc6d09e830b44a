"""A breaker beside a plain model of its rules."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from core.dispatch.breaker import (
    FIRST_PAUSE,
    MAX_PAUSE,
    MIN_CALLS,
    SUCCESSES_TO_CLOSE,
    WINDOW,
    Breaker,
    BreakerState,
)

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


@dataclass
class Model:
    """The rules as they are told, with everything remembered and nothing counted ahead."""

    state: BreakerState = CLOSED
    era: int = 0
    results: list[bool] = field(default_factory=list)
    """Of this era."""
    reopened: int = 0
    """Openings in a row without a closing between them."""
    opened_at: float = 0.0
    probes: int = 0

    def turn(self, state: BreakerState) -> None:
        self.state, self.results, self.probes = state, [], 0
        self.era += 1

    @property
    def until(self) -> float:
        return self.opened_at + min(FIRST_PAUSE * 2.0 ** (self.reopened - 1), MAX_PAUSE)

    def allows(self, now: float) -> bool:
        return {CLOSED: True, OPEN: now >= self.until, HALF_OPEN: not self.probes}[self.state]

    def begin_attempt(self) -> int:
        if self.state is OPEN:
            self.turn(HALF_OPEN)
        self.probes += self.state is HALF_OPEN
        return self.era

    def ended(self, ok: bool | None, now: float, era: int) -> None:
        if era != self.era or self.state is OPEN:
            return
        self.probes = 0
        if ok is None:
            return
        self.results.append(ok)
        if self.state is CLOSED:
            last = self.results[-WINDOW:]
            if len(last) >= MIN_CALLS and last.count(False) * 2 >= len(last):
                self.open(now)
        elif not ok:
            self.open(now)
        elif len(self.results) == SUCCESSES_TO_CLOSE:
            self.reopened = 0
            self.turn(CLOSED)

    def open(self, now: float) -> None:
        self.turn(OPEN)
        self.opened_at = now
        self.reopened += 1


class BesideItsModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.breaker, self.model = Breaker(), Model()
        self.under_way: list[tuple[int, int]] = []

    @rule(seconds=st.one_of(st.floats(0, 3), st.floats(0, 90)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def a_call_begins(self) -> None:
        if self.breaker.allows(self.now):
            self.under_way.append(
                (self.breaker.begin_attempt(self.now), self.model.begin_attempt())
            )

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), ok=st.sampled_from([True, True, False, None]))
    def a_call_ends(self, data: st.DataObject, ok: bool | None) -> None:
        index = data.draw(st.integers(0, len(self.under_way) - 1))
        ticket, era = self.under_way.pop(index)
        if ok is None:
            self.breaker.release(ticket)
        else:
            self.breaker.record(ok, self.now, ticket)
        self.model.ended(ok, self.now, era)

    @rule(results=st.lists(st.booleans(), max_size=30))
    def many_calls(self, results: list[bool]) -> None:
        for ok in results:
            if self.breaker.allows(self.now):
                self.breaker.record(ok, self.now, self.breaker.begin_attempt(self.now))
                self.model.ended(ok, self.now, self.model.begin_attempt())

    @rule()
    def somebody_knows_better(self) -> None:
        self.breaker.reset()
        self.model.reopened = 0
        self.model.turn(CLOSED)

    @invariant()
    def they_agree(self) -> None:
        assert self.breaker.state is self.model.state
        allowed = self.breaker.allows(self.now)
        assert allowed is self.model.allows(self.now)
        again = self.breaker.opens_at(self.now)
        if self.model.state is OPEN and not allowed:
            assert again == self.model.until
            assert self.breaker.allows(self.model.until)
        else:
            assert again is None
        last = self.model.results[-WINDOW:]
        if self.model.state is CLOSED:
            shown = self.breaker.snapshot()
            assert shown["buffered"] == len(last)
            assert shown["failure_rate"] == (last.count(False) / len(last) if last else 0.0)


TestBesideItsModel = BesideItsModel.TestCase
TestBesideItsModel.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)


# The rules one by one.


def call(breaker: Breaker, ok: bool, now: float) -> None:
    assert breaker.allows(now)
    breaker.record(ok, now, breaker.begin_attempt(now))


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _ in range(MIN_CALLS):
        call(breaker, ok=False, now=now)
    assert breaker.state is OPEN
    return breaker


def test_few_calls_open_nothing() -> None:
    breaker = Breaker()
    for _ in range(MIN_CALLS - 1):
        call(breaker, ok=False, now=0.0)
    assert breaker.state is CLOSED
    call(breaker, ok=True, now=0.0)
    assert breaker.state is OPEN, "nine of ten"


def test_half_of_a_hundred_opens_it_and_what_is_older_is_forgotten() -> None:
    breaker = Breaker()
    for _ in range(1_000):
        call(breaker, ok=True, now=0.0)
    for _ in range(WINDOW // 2 - 1):
        call(breaker, ok=False, now=0.0)
    assert breaker.state is CLOSED
    call(breaker, ok=False, now=0.0)
    assert breaker.state is OPEN


def test_failures_leave_the_window_as_well() -> None:
    breaker = Breaker()
    for index in range(1_000):
        call(breaker, ok=index % 3 != 0, now=0.0)
    assert breaker.state is CLOSED
    assert breaker.snapshot()["failure_rate"] in {0.33, 0.34}


def test_it_stays_open_twice_as_long_each_time_up_to_a_minute() -> None:
    breaker, now, pauses = opened(), 0.0, []
    for _ in range(7):
        again = breaker.opens_at(now)
        assert again is not None
        pauses.append(again - now)
        assert not breaker.allows(again - 0.001)
        now = again
        call(breaker, ok=False, now=now)
        assert breaker.state is OPEN
    assert pauses == [5, 10, 20, 40, 60, 60, 60]


def test_three_successes_one_after_the_other_close_it() -> None:
    breaker = opened()
    for count in range(SUCCESSES_TO_CLOSE):
        assert breaker.allows(5.0)
        ticket = breaker.begin_attempt(5.0)
        assert breaker.state is HALF_OPEN
        assert not breaker.allows(5.0), f"one at a time: probe {count}"
        assert breaker.opens_at(5.0) is None
        breaker.record(True, 5.0, ticket)
    assert breaker.state is CLOSED
    assert breaker.snapshot()["buffered"] == 0
    for _ in range(MIN_CALLS):
        call(breaker, ok=False, now=6.0)
    assert breaker.opens_at(6.0) == 11.0, "the next time begins anew"


def test_a_probe_that_says_nothing_makes_way_for_the_next() -> None:
    breaker = opened()
    ticket = breaker.begin_attempt(5.0)
    breaker.release(ticket)
    assert breaker.state is HALF_OPEN
    assert breaker.allows(5.0)


def test_calls_from_before_it_opened_neither_close_nor_open_it() -> None:
    breaker = Breaker()
    old = [breaker.begin_attempt(0.0) for _ in range(MIN_CALLS + 5)]
    for ticket in old[:MIN_CALLS]:
        breaker.record(False, 0.0, ticket)
    assert breaker.state is OPEN
    breaker.record(True, 1.0, old[MIN_CALLS])
    breaker.record(True, 1.0)
    assert breaker.opens_at(1.0) == 5.0
    probe = breaker.begin_attempt(5.0)
    breaker.record(False, 6.0, old[MIN_CALLS + 1])
    breaker.release(old[MIN_CALLS + 2])
    assert (breaker.state, breaker.allows(6.0)) == (HALF_OPEN, False)
    breaker.record(True, 6.0, probe)
    assert breaker.allows(6.0)


def test_without_tickets_a_call_counts_as_one_of_the_latest() -> None:
    breaker = opened()
    for _ in range(SUCCESSES_TO_CLOSE - 1):
        breaker.begin_attempt(5.0)
        breaker.record(True, 5.0)
    breaker.begin_attempt(5.0)
    breaker.release()
    assert breaker.allows(5.0)
    breaker.begin_attempt(5.0)
    breaker.record(True, 5.0)
    assert breaker.state is CLOSED


def test_a_snapshot_shows_how_it_stands() -> None:
    breaker = opened(7.0)
    assert not breaker.allows(8.0)
    breaker.record(True, 9.0)
    assert breaker.used_at == 9.0
    assert breaker.snapshot() == {
        "state": "OPEN",
        "successful": 1,
        "failed": 10,
        "refused": 1,
        "opened": 1,
        "buffered": 10,
        "buffer_size": 100,
        "failure_rate": 1.0,
        "open_until": 12.0,
    }
    breaker.reset()
    assert breaker.snapshot()["open_until"] is None
    assert breaker.snapshot()["failure_rate"] == 0.0
    assert breaker.allows(8.0)
