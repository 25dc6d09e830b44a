"""The simulation finds what it is for: each of these mistakes breaks a law within a few seeds."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import structlog
from msgspec.structs import replace

import actors.waits.turn
import core.waits.transitions
from core.waits.completion_event import OutgoingEvent, completion_events
from core.waits.messages import Cancel
from core.waits.state import Decision, Wait
from storage.waits.flush import WaitChange
from tests.simulation.clockwork import simulate
from tests.simulation.scenario import play
from tests.simulation.store import SimStore, Tables

SEEDS = 300

commit, flush, cancel = Tables.commit, SimStore.flush, core.waits.transitions._cancel


def blind_commit(self: Tables, changes: Sequence[WaitChange]) -> set[bytes]:
    """A store that checks no version."""
    for change in changes:
        if change.wait is not None and change.key in self.waits:
            change.stored_version = self.waits[change.key].version
    return commit(self, changes)


def torn_commit(self: Tables, changes: Sequence[WaitChange]) -> set[bytes]:
    """A store that writes what hangs on a row although the row was lost."""
    kept = commit(self, changes)
    lost = [change for change in changes if change.wait is not None and change.key not in kept]
    self.outbox += [(change.key, event) for change in lost for event in change.outgoing]
    return kept


async def forgetful_flush(self: SimStore, changes: Sequence[WaitChange]) -> set[bytes]:
    """A store that confirms what it has not written."""
    if self._trouble.strikes(0.2):
        return {change.key for change in changes if change.wait is not None}
    return await flush(self, changes)


def cancel_again(wait: Wait, message: Cancel, now: float, reason: str) -> Decision:
    """A turn that ends what has ended."""
    return cancel(replace(wait, ending=None), message, now, reason)


def told_at_every_step(before: Wait | None, after: Wait | None) -> tuple[OutgoingEvent, ...]:
    """A turn that tells of the end whenever it touches an ended wait."""
    return completion_events(None, after)


def never_told(before: Wait | None, after: Wait | None) -> tuple[OutgoingEvent, ...]:
    """A turn that forgets to tell of the end."""
    return ()


@pytest.mark.parametrize(
    ("where", "name", "mistake", "law"),
    [
        (Tables, "commit", blind_commit, "versions grow"),
        (Tables, "commit", torn_commit, "an end is told once"),
        (SimStore, "flush", forgetful_flush, "acknowledged"),
        (core.waits.transitions, "_cancel", cancel_again, "an ended wait never ends again"),
        (
            actors.waits.turn,
            "completion_events",
            told_at_every_step,
            "an end and its event commit together",
        ),
        (
            actors.waits.turn,
            "completion_events",
            never_told,
            "an end and its event commit together",
        ),
    ],
)
def test_a_mistake_is_found(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, mistake: Callable[..., Any], law: str
) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    monkeypatch.setattr(where, name, mistake)
    with pytest.raises(AssertionError, match=law):
        play_all()


def play_all() -> None:
    for seed in range(SEEDS):
        simulate(play(seed))
