"""A transition as a shard calls it: asks for what it reads, then decides on it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from core.records.record import Record, RecordAddress
from core.shared.entities import (
    Apply,
    Entity,
    EntityKind,
    EntityRef,
    LoadRequest,
    ReadView,
    Transition,
)
from tests.support.read_views import StoredView

ADDRESS = RecordAddress(1, 2, "r1")


class Save(msgspec.Struct, frozen=True):
    """Write one text."""

    address: RecordAddress
    text: str
    turn_id: str = "t1"
    fresh: bool = False
    weight: int = 100


def save(
    message: Save, view: ReadView, now: float, new_id: Callable[[], str]
) -> Transition | LoadRequest:
    """Write a record, or one version more of it."""
    request = view.missing(ADDRESS.ref)
    if request is not None:
        return request
    before = view.get(ADDRESS.ref)
    version = 1 if before is None else before.version + 1
    data = {"text": message.text, "id": new_id()}
    after = Record(address=ADDRESS, version=version, data=data, created_at=now, updated_at=now)
    return Transition(reply=version, entities=(after,))


apply: Apply[Save] = save


def decide(view: ReadView) -> Transition | LoadRequest:
    return apply(Save(ADDRESS, "x"), view, 5.0, lambda: "id1")


def test_a_transition_asks_for_what_it_must_know() -> None:
    assert decide(StoredView()) == LoadRequest((ADDRESS.ref,))


def test_what_does_not_exist_is_known_once_it_was_looked_for() -> None:
    decided = decide(StoredView({ADDRESS.ref: None}))
    assert isinstance(decided, Transition)
    (record,) = decided.entities
    assert (decided.reply, record.ref, record.version) == (1, ADDRESS.ref, 1)
    assert (decided.rows, decided.unchanged) == ((), ())


def test_a_transition_follows_the_version_that_it_read() -> None:
    first = decide(StoredView({ADDRESS.ref: None}))
    assert isinstance(first, Transition)
    second = decide(StoredView({ADDRESS.ref: first.entities[0]}))
    assert isinstance(second, Transition)
    assert second.reply == 2


def test_to_read_what_was_not_loaded_is_an_error() -> None:
    with pytest.raises(KeyError):
        StoredView().get(ADDRESS.ref)


def test_refs_of_one_entity_are_equal() -> None:
    ref: EntityRef[Any] = EntityRef(EntityKind.RECORD, (1, 2, "r1"))
    known: dict[EntityRef[Any], Entity | None] = {ref: None}
    assert RecordAddress(1, 2, "r1").ref in known
    assert RecordAddress(1, 2, "r2").ref not in known
    assert EntityRef(EntityKind.COLLECTION, (1, 2, "r1")) not in known
    assert [one.is_collection for one in (ref, ADDRESS.collection_ref)] == [False, True]


def test_a_collection_is_read_and_never_changed() -> None:
    assert ADDRESS.collection_ref.is_collection
    assert not ADDRESS.ref.is_collection
