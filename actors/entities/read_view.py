"""What one turn reads: states that are not stored yet, then what was loaded for it."""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec.structs import replace

from actors.entities.turn import EntityTurn
from core.records.record import Record
from core.shared.entities import E, Entity, EntityKind, EntityRef, LoadRequest


class UnsavedStates(Protocol):
    """The latest states that are not stored yet."""

    def holds(self, ref: EntityRef[Any]) -> bool: ...

    def latest(self, ref: EntityRef[Any]) -> Entity | None: ...

    def held_since(self, ref: EntityRef[Any]) -> int: ...

    def has_changed(self, ref: EntityRef[Any], turn_id: str) -> bool: ...


class TurnView:
    """A read view that notes what its turn has read.

    A turn that may have been stored before, without an answer, also reads the changes that it would
    have made. A record that it has changed then says so, as `replayed`. These changes must be read
    after the record, or a change in between would be missed by both.
    """

    __slots__ = ("_collections", "_loaded", "_looked_at", "_suspect_ids", "_unsaved", "reads")

    def __init__(
        self,
        unsaved: UnsavedStates,
        collections: Mapping[EntityRef[Any], Entity | None],
        turn: EntityTurn,
    ) -> None:
        self._unsaved = unsaved
        self._collections = collections
        self._loaded = turn.loaded
        self._looked_at = turn.looked_at
        self._suspect_ids = turn.suspect_ids
        self.reads: dict[EntityRef[Any], Entity | None] = {}

    def missing(self, *refs: EntityRef[Any]) -> LoadRequest | None:
        unknown = dict.fromkeys(ref for ref in refs if not self._knows(ref))
        if self._suspect_ids:
            for ref in refs:
                if self._must_look(ref):
                    unknown |= dict.fromkeys((ref, *self._turns(ref)))
        return LoadRequest(tuple(unknown)) if unknown else None

    def get(self, ref: EntityRef[E]) -> E | None:
        if self._unsaved.holds(ref):
            found = self._unsaved.latest(ref)
        elif ref in self._loaded:
            found = self._loaded[ref]
        else:
            found = self._collections[ref]
        if self._suspect_ids and isinstance(found, Record):
            found = self._with_replay(ref, found)
        self.reads[ref] = found
        return found  # type: ignore[return-value]  # a ref names the type of its entity

    def _with_replay(self, ref: EntityRef[Any], record: Record) -> Record:
        """Return a record that says whether this turn has changed it before."""
        for turn, turn_id in zip(self._turns(ref), self._suspect_ids, strict=True):
            if self._loaded[turn] is not None or self._unsaved.has_changed(ref, turn_id):
                return replace(record, replayed=turn_id)
        return record

    def _must_look(self, ref: EntityRef[Any]) -> bool:
        """Return whether it was not read, or before the record, which changes this turn made."""
        if ref.kind is not EntityKind.RECORD:
            return False
        if self._unsaved.holds(ref):
            return self._looked_at.get(ref, -1) < self._unsaved.held_since(ref)
        return ref not in self._loaded or ref not in self._looked_at

    def _turns(self, ref: EntityRef[Any]) -> list[EntityRef[Any]]:
        return [EntityRef(EntityKind.RECORD_TURN, (*ref.key, one)) for one in self._suspect_ids]

    def _knows(self, ref: EntityRef[Any]) -> bool:
        if ref.is_collection:
            return ref in self._collections or ref in self._loaded
        return ref in self._loaded or self._unsaved.holds(ref)
