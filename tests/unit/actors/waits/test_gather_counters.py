from dataclasses import dataclass, field
from typing import Any

import pytest

from actors.waits.gather_counters import OTHERS, STATES, GatherCounters
from core.gathers.gather import Question, Resource, failure, wait_spec_of
from core.shared.address import Address
from core.shared.call_outcome import CallState
from core.waits.messages import Abandon, Accept, Cancel, Expire, Offer, Register, Reply, WaitMessage
from core.waits.spec import Source, encode_spec
from core.waits.state import Wait
from core.waits.strategy import Outcome
from core.waits.transitions import apply

OPENED = 1_000.0
TIMEOUT = 10.0


@dataclass
class Said:
    """All that is looked at of a turn."""

    message: WaitMessage


@dataclass
class Gather:
    """A correlation whose every step is stored and counted, as a shard does it."""

    tally: GatherCounters
    names: tuple[str, ...] = ("one", "two")
    tenant: int = 1
    inline: bool = False
    wait: Wait | None = None
    turns: list[tuple[Any, Reply]] = field(default_factory=list)
    stored: Wait | None = None

    def __post_init__(self) -> None:
        resource = Resource(url="http://one.example") if self.inline else None
        asks = [Question(name=name, inline=resource) for name in self.names]
        spec = encode_spec(wait_spec_of(asks, TIMEOUT))
        self.say(Register(**self._about(), node_id="gather", spec=spec), OPENED).store()

    def answer(
        self,
        name: str,
        after: float,
        outcome: Outcome = Outcome.RECEIVED,
        payload: bytes = b"{}",
    ) -> "Gather":
        offer = Offer(
            **self._about(),
            event_id=f"{name}/{after}",
            source=Source.API,
            label=name,
            payload=payload,
            outcome=outcome,
        )
        return self.say(offer, OPENED + after)

    def accept(self, name: str) -> "Gather":
        return self.say(Accept(**self._about(), event=name), OPENED + 1)

    def expire(self) -> "Gather":
        return self.say(Expire(**self._about(), at=OPENED + TIMEOUT), OPENED + TIMEOUT)

    def cancel(self) -> "Gather":
        return self.say(Cancel(**self._about()), OPENED + 1)

    def abandon(self) -> "Gather":
        return self.say(Abandon(**self._about(), feed="f"), OPENED + 1)

    def say(self, message: WaitMessage, now: float) -> "Gather":
        decision = apply(self.wait, message, now)
        self.wait = decision.wait
        self.turns.append((Said(message), decision.reply))
        return self

    def store(self) -> "Gather":
        """Commit what was said since the last time."""
        assert self.wait is not None
        self.tally.stored(self.stored, self.wait, self.turns)
        self.stored, self.turns = self.wait, []
        return self

    def _about(self) -> dict[str, Any]:
        return {"address": Address(self.tenant, "g", "g"), "turn_id": f"t{len(self.turns)}"}


@pytest.fixture
def tally() -> GatherCounters:
    return GatherCounters()


def resources(tally: GatherCounters) -> dict[tuple[int, str], dict[str, float]]:
    return {(row.pop("tenant"), row.pop("name")): row for row in tally.snapshot()["resources"]}


def test_a_gather_that_waits_counts_nothing(tally: GatherCounters) -> None:
    Gather(tally).accept("one").store()
    assert tally.snapshot() == {"ended": {}, "late": 0, "resources": []}


def test_answers_count_for_their_resource_with_the_time_they_took(tally: GatherCounters) -> None:
    gather = Gather(tally).answer("one", 2.0).store()
    gather.accept("two").store()
    gather.answer("two", 3.0, Outcome.REJECTED).store()
    Gather(tally, tenant=2).answer("one", 5.0, Outcome.FAILED).store()
    none = dict.fromkeys((*STATES, "seconds"), 0)
    assert resources(tally) == {
        (1, "one"): none | {"ok": 1, "seconds": 2.0},
        (1, "two"): none | {"REJECTED": 1, "seconds": 3.0},
        (2, "one"): none | {"ERROR": 1},
    }


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("state", [CallState.CONNECTION_CLOSED, CallState.ERROR])
def test_failures_are_told_apart_by_what_came(
    tally: GatherCounters, state: CallState, at_once: bool
) -> None:
    gather = Gather(tally)
    gather.answer("two", 1.0, Outcome.FAILED, failure(CallState.ERROR, "HTTP 500"))
    if not at_once:
        gather.store()
    gather.answer("one", 1.0, Outcome.FAILED, failure(state, "why")).store()
    assert resources(tally)[1, "one"][state] == 1
    assert resources(tally)[1, "two"][CallState.ERROR] == 1


def test_names_that_came_with_requests_are_counted_as_one(tally: GatherCounters) -> None:
    Gather(tally, inline=True).answer("one", 1.0).answer("two", 1.0).store()
    Gather(tally).answer("one", 1.0).store()
    found = resources(tally)
    assert {key: row["ok"] for key, row in found.items()} == {(1, OTHERS): 2, (1, "one"): 1}


def test_what_is_stored_at_once_counts_as_what_is_stored_step_by_step(
    tally: GatherCounters,
) -> None:
    Gather(tally).answer("one", 2.0).accept("two").answer("two", 3.0).store()
    slow = GatherCounters()
    gather = Gather(slow)
    for step in (lambda: gather.answer("one", 2.0), lambda: gather.answer("two", 3.0)):
        step().store()
        gather.store()
    assert tally.snapshot() == slow.snapshot()
    assert tally.snapshot()["ended"] == {"full": 1}


@pytest.mark.parametrize(
    ("one", "two", "how"),
    [
        (Outcome.RECEIVED, Outcome.RECEIVED, "full"),
        (Outcome.RECEIVED, Outcome.FAILED, "partial"),
        (Outcome.RECEIVED, Outcome.REJECTED, "partial"),
        (Outcome.REJECTED, Outcome.REJECTED, "empty"),
        (Outcome.FAILED, Outcome.TIMED_OUT, "empty"),
    ],
)
def test_a_gather_ends_as_complete_as_its_answers(
    tally: GatherCounters, one: Outcome, two: Outcome, how: str
) -> None:
    Gather(tally).answer("one", 1.0, one).store().answer("two", 1.0, two).store()
    assert tally.snapshot()["ended"] == {how: 1}


def test_those_that_never_came_are_timed_out_and_took_no_time(tally: GatherCounters) -> None:
    Gather(tally).answer("one", 1.0).store().expire().store()
    assert resources(tally)[1, "two"]["TIMEOUT"] == 1
    assert resources(tally)[1, "two"]["seconds"] == 0
    assert tally.snapshot()["ended"] == {"partial": 1}


def test_a_cancelled_gather_is_counted_as_that_once(tally: GatherCounters) -> None:
    Gather(tally).answer("one", 1.0).cancel().store().cancel().store()
    Gather(tally).abandon().store()
    assert tally.snapshot()["ended"] == {"cancelled": 2}
    assert list(resources(tally)) == [(1, "one")]


def test_what_came_too_late_is_counted_apart(tally: GatherCounters) -> None:
    gather = Gather(tally).answer("one", 1.0).cancel().store()
    gather.answer("two", 2.0).answer("one", 3.0).store()
    assert tally.snapshot()["late"] == 2
    assert resources(tally)[1, "one"]["ok"] == 1
    assert (1, "two") not in resources(tally)


def test_a_duplicate_counts_nowhere(tally: GatherCounters) -> None:
    Gather(tally).answer("one", 1.0).store().answer("one", 2.0).store()
    assert tally.snapshot()["late"] == 0
    assert resources(tally)[1, "one"]["ok"] == 1


def test_names_without_end_are_counted_as_one(
    tally: GatherCounters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.waits.gather_counters.MAX_NAMES", 5)
    names = tuple(f"n{n}" for n in range(7))
    gather = Gather(tally, names)
    for name in names:
        gather.answer(name, 1.0)
    gather.store()
    Gather(tally, tenant=2).answer("one", 1.0).store()
    Gather(tally).answer("one", 1.0).store()
    found = resources(tally)
    assert len(found) == 5 + 2
    assert found[1, OTHERS]["ok"] == 3
    assert found[2, OTHERS]["ok"] == 1
    assert found[1, "n0"]["ok"] == 1
