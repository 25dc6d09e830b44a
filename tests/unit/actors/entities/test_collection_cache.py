"""Collections that a shard remembers, and when it reads them again."""

from typing import Any

from actors.entities.collection_cache import LIMIT, TTL, CollectionCache
from core.records.record import collection_ref
from core.shared.entities import Entity, EntityRef
from tests.unit.actors.entities.fixtures import Clock

ONE, OTHER = collection_ref(1, 1), collection_ref(2, 2)
FOUND: dict[EntityRef[Any], Entity | None] = {ONE: None, OTHER: None}


def test_a_collection_is_known_for_a_while() -> None:
    clock = Clock()
    cache = CollectionCache(clock.monotonic)
    cache.add(FOUND)
    assert ONE in cache
    clock.at += TTL
    assert ONE not in cache
    # Whoever found it there a moment ago still reads it.
    assert cache[ONE] is None


def test_a_change_is_forgotten_with_what_was_read_before_it() -> None:
    cache = CollectionCache(Clock().monotonic)
    cache.add(FOUND)
    cache.forget(1)
    assert (ONE in cache, OTHER in cache, cache.changes) == (False, True, 1)
    cache.forget()
    assert (list(cache), len(cache), cache.changes) == ([], 0, 2)


def test_it_keeps_those_that_were_read_last() -> None:
    cache = CollectionCache(Clock().monotonic)
    cache.add(FOUND)
    cache.add({collection_ref(3, number): None for number in range(LIMIT - 1)})
    assert (ONE in cache, OTHER in cache, len(cache)) == (False, True, LIMIT)
