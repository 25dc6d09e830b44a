"""What a shard hosts: entities, the transitions that change them, and what a transition reads.

An entity is a row with a version: a wait, a record. `apply` decides one message and answers with a
`Transition`, or with a `LoadRequest` if it has to know more first. It is pure: after loading, it is
called again from its beginning, so it asks for all that it can already name at once:

    def apply(message, view, now, new_id):
        collection_ref, ref = message.address.collection_ref, message.address.ref
        request = view.missing(collection_ref, ref)
        if request is not None:
            return request
        collection, record = view.get(collection_ref), view.get(ref)
        …
        return Transition(reply=…, entities=(changed,), rows=(change,))

A transition commits as a whole or is lost as a whole. It is lost if one of its entities was changed
by another owner since it was read; then `apply` decides the message again on what is stored now. So
ids that must stay the same come with the message; `new_id` makes the others.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

NO_VERSION = 0
"""The version of an entity that is not stored."""


class EntityKind(StrEnum):
    WAIT = "wait"
    COLLECTION = "collection"
    """Read by transitions, changed by the control API alone."""
    RECORD = "record"
    UNIQUE_VALUE = "unique_value"
    """Which record holds a value that no other may have."""
    RECORD_TURN = "record_turn"
    """That a message has changed a record. It is only read."""


EntityKey: TypeAlias = bytes | tuple[int | str | bytes, ...]
"""What a kind knows its entities by; the tenant is part of it."""


class Entity(Protocol):
    """The state of an entity: immutable, replaced by each transition."""

    @property
    def ref(self) -> "EntityRef[Any]": ...

    @property
    def version(self) -> int:
        """The number of the state: one more with each transition."""

    @property
    def due_at(self) -> float | None:
        """When the timer has to send a message, if nothing happens before."""

    @property
    def at_rest(self) -> bool:
        """Whether it may leave memory as soon as it is stored."""

    @property
    def weight(self) -> int:
        """The approximate bytes of its row."""


E = TypeVar("E", bound=Entity)


class EntityRef(NamedTuple, Generic[E]):
    """What an entity is known by, whether it exists or not."""

    kind: EntityKind
    key: EntityKey

    @property
    def is_collection(self) -> bool:
        """Whether it is read from a cache; a flush compares its version, but changes it never."""
        return self.kind is EntityKind.COLLECTION


class Row(Protocol):
    """A row that is appended; its class says to which table."""

    @property
    def weight(self) -> int:
        """The approximate bytes of the row."""


class Transition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of one message: what is stored, and the answer once it is."""

    reply: Any
    entities: tuple[Entity, ...] = ()
    """The new states. The first is that of the entity the message is addressed to.

    If that one is new and was stored by another owner meanwhile, the transition is lost, quietly.
    Any other new entity that meets a stored row costs the flush a second attempt.
    """
    rows: tuple[Row, ...] = ()
    unchanged: tuple[EntityRef[Any], ...] = ()
    """Entities that were only read, and must not have changed when the transition is stored."""


class LoadRequest(msgspec.Struct, frozen=True, gc=False):
    """What must be read before a message can be decided."""

    entities: tuple[EntityRef[Any], ...]


class ReadView(Protocol):
    """All that a transition may read: states in memory, stored or not yet, and what was loaded."""

    def missing(self, *refs: EntityRef[Any]) -> LoadRequest | None:
        """Return a request for those of these entities that are not known; None if all are."""

    def get(self, ref: EntityRef[E]) -> E | None:
        """Return the latest state; None if there is no such entity.

        Raises:
            KeyError: It was not loaded; ask `missing` first.
        """


class EntityAddress(Protocol):
    """Where a message goes: `key` chooses the shard."""

    @property
    def tenant(self) -> int: ...

    @property
    def key(self) -> bytes: ...

    @property
    def ref(self) -> EntityRef[Any]: ...


class EntityMessage(Protocol):
    """A message to one entity."""

    @property
    def address(self) -> EntityAddress: ...

    @property
    def turn_id(self) -> str:
        """The id by which a message that is sent again is recognised."""

    @property
    def turn_ids(self) -> tuple[str, ...]:
        """The ids under which its changes are stored: one for each part that has its own."""

    @property
    def resent(self) -> bool:
        """Whether it may have been handled before: look for what it has stored."""

    @property
    def fresh(self) -> bool:
        """Whether the sender has just made the address, so that nothing is stored there."""

    @property
    def weight(self) -> int:
        """The approximate bytes of the message."""


M_contra = TypeVar("M_contra", bound=EntityMessage, contravariant=True)


class Apply(Protocol[M_contra]):
    """Decide one message at the database's time `now`."""

    def __call__(
        self, message: M_contra, view: ReadView, now: float, new_id: Callable[[], str]
    ) -> Transition | LoadRequest: ...
