"""What a transition reads, for tests of pure transitions."""

from collections.abc import Mapping
from typing import Any

from core.shared.entities import E, Entity, EntityRef, LoadRequest


class StoredView:
    """A read view of these entities; None for one that does not exist."""

    def __init__(self, known: Mapping[EntityRef[Any], Entity | None] | None = None) -> None:
        self.known = dict(known or {})

    def missing(self, *refs: EntityRef[Any]) -> LoadRequest | None:
        unknown = tuple(ref for ref in refs if ref not in self.known)
        return LoadRequest(unknown) if unknown else None

    def get(self, ref: EntityRef[E]) -> E | None:
        return self.known[ref]  # type: ignore[return-value]  # a ref names the type of its entity
