"""A message to a correlation, and the changes of a correlation's turns."""

from typing import NamedTuple

from actors.entities.turn import Batch
from core.waits.completion_event import completion_events
from core.waits.messages import Reply, WaitMessage
from core.waits.state import Decision, Wait
from storage.waits.flush import NO_VERSION, WaitChange

# The approximate bytes of a row without its payload.
ROW_WEIGHT = 300


class TurnTime(NamedTuple):
    """The database's time, and a local clock that never jumps."""

    now: float
    monotonic: float


class Turn:
    """One message of a batch. `lost` counts how often its row was changed by another owner."""

    __slots__ = ("batch", "index", "key", "lost", "message")

    def __init__(self, message: WaitMessage, batch: Batch, index: int) -> None:
        self.message = message
        self.key = message.address.key
        self.batch = batch
        self.index = index
        self.lost = 0

    def answer(self, reply: Reply) -> None:
        self.batch.answer(self.index, reply)


class Unsaved:
    """A correlation's turns since its last flush, merged to one change of about `weight` bytes."""

    __slots__ = ("before", "change", "turns", "weight")

    def __init__(self, key: bytes, tenant: int, before: Wait | None) -> None:
        self.before = before
        self.weight = ROW_WEIGHT
        self.change = WaitChange(key, tenant, NO_VERSION if before is None else before.version)
        self.turns: list[tuple[Turn, Reply]] = []

    @property
    def tenant(self) -> int:
        return self.change.tenant

    def fold(self, turn: Turn, decision: Decision, *, changed: bool) -> None:
        """Add one decision; only the last state is written."""
        change, entries = self.change, decision.entries
        if changed:
            change.outgoing += completion_events(change.wait or self.before, decision.wait)
            change.wait = decision.wait
        if change.entries:
            # An event that is late and was sent twice before the flush is logged once.
            known = {entry.event_id for entry in change.entries}
            change.entries += [entry for entry in entries if entry.event_id not in known]
        else:
            change.entries.extend(entries)
        for entry in entries:
            self.weight += ROW_WEIGHT + len(entry.payload)
        if decision.taken_from_inbox:
            # Parked and taken up within one flush, so it never needs to reach the inbox.
            taken = set(decision.taken_from_inbox)
            change.parked = [event for event in change.parked if event.event_id not in taken]
            change.taken_from_inbox.extend(decision.taken_from_inbox)
        if decision.parked:
            change.parked.extend(decision.parked)
            for event in decision.parked:
                self.weight += ROW_WEIGHT + len(event.payload)
        self.turns.append((turn, decision.reply))

    def commit(self) -> None:
        for turn, reply in self.turns:
            turn.answer(reply)
