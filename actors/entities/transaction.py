"""A transaction of a shard: transitions that share an entity, stored or lost together."""

from collections.abc import KeysView
from typing import Any

from actors.entities.turn import EntityTurn
from core.records.record import RecordChange
from core.shared.entities import Entity, EntityRef, Transition
from storage.entities.transactions import TransactionChange

# The approximate bytes of a transaction without its rows.
_WEIGHT = 100


class Transaction:
    """Entities with the state each was read in, their last states, appended rows, and turns."""

    __slots__ = ("change", "tenant", "turns", "weight")

    def __init__(self, tenant: int) -> None:
        self.tenant = tenant
        self.weight = _WEIGHT
        self.change = TransactionChange()
        self.turns: list[tuple[EntityTurn, Any]] = []

    @property
    def refs(self) -> KeysView[EntityRef[Any]]:
        """The entities that it changes or relies on."""
        return self.change.before.keys()

    def latest(self, ref: EntityRef[Any]) -> Entity | None:
        """Return the state after this transaction; None if the entity does not exist."""
        change = self.change
        return change.after[ref] if ref in change.after else change.before[ref]

    def record_turns(self) -> set[tuple[EntityRef[Any], str]]:
        """Return which records it changes by which messages."""
        rows = self.change.rows
        return {(row.address.ref, row.turn_id) for row in rows if isinstance(row, RecordChange)}

    def rely_on(self, reads: dict[EntityRef[Any], Entity | None]) -> None:
        """Store nothing unless these entities are in these states, before its own changes."""
        for ref, state in reads.items():
            if ref.is_collection:
                if state is not None:
                    self._decide_by(ref, state.version)
            else:
                self.change.before.setdefault(ref, state)

    def add(self, turn: EntityTurn, transition: Transition) -> None:
        """Add a transition whose entities it relies on already; only last states are stored."""
        change = self.change
        if change.addressed is None and transition.entities:
            change.addressed = transition.entities[0].ref
        for entity in transition.entities:
            known = change.after.get(entity.ref)
            self.weight += entity.weight - (0 if known is None else known.weight)
            change.after[entity.ref] = entity
        for row in transition.rows:
            self.weight += row.weight
        change.rows += transition.rows
        self.turns.append((turn, transition.reply))

    def absorb(self, other: "Transaction") -> None:
        """Take over another transaction, because a transition shares entities with both."""
        mine, theirs = self.change, other.change
        mine.before |= theirs.before
        mine.after |= theirs.after
        for ref, version in theirs.definitions.items():
            self._decide_by(ref, version)
        mine.rows += theirs.rows
        mine.addressed = mine.addressed or theirs.addressed
        self.turns += other.turns
        self.weight += other.weight

    def _decide_by(self, ref: EntityRef[Any], version: int) -> None:
        """Note a definition; of two versions the older, which loses the transaction."""
        known = self.change.definitions.get(ref, version)
        self.change.definitions[ref] = min(known, version)

    def commit(self) -> None:
        for turn, reply in self.turns:
            turn.answer(reply)
