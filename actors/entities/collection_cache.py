"""Collections that transitions of a shard have read lately."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from core.dispatch.job import ANCHOR
from core.shared.entities import Entity, EntityRef

TTL = 10.0
"""Seconds after which a collection is read again, in case that a notification was missed."""
LIMIT = 1_000


class CollectionCache(Mapping[EntityRef[Any], Entity | None]):
    """Collections by reference; None for one that does not exist.

    A record that was decided by an outdated definition is not stored: the flush compares versions.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: dict[EntityRef[Any], tuple[Entity | None, float]] = {}
        # Counts what was forgotten: a query that began before may have read what was before it.
        self.changes = 0

    def __getitem__(self, ref: EntityRef[Any]) -> Entity | None:
        return self._known[ref][0]

    def __contains__(self, ref: object) -> bool:
        """Return whether a collection is known and was read not long ago."""
        known = self._known.get(ref)  # type: ignore[call-overload]  # any object may be asked for
        return known is not None and self._monotonic() < known[1]

    def __iter__(self) -> Iterator[EntityRef[Any]]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, found: Mapping[EntityRef[Any], Entity | None]) -> None:
        until = self._monotonic() + TTL
        for ref, entity in found.items():
            self._known.pop(ref, None)
            self._known[ref] = (entity, until)
        while len(self._known) > LIMIT:
            del self._known[next(iter(self._known))]

    def forget(self, tenant: int | None = None) -> None:
        """Forget the collections of a tenant, or all: they or their followers have changed."""
        self.changes += 1
        # The anchor's subscriptions follow the collections of all tenants.
        is_about_all = tenant in {None, ANCHOR}
        self._known = {
            ref: known
            for ref, known in self._known.items()
            if not is_about_all and ref.key[0] != tenant
        }
