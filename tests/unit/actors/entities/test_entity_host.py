"""A host of entities: what is loaded, decided, stored and answered, and in which order."""

from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg
import pytest

from actors.entities import entity_host, transaction_writer
from actors.entities.entity_loader import MAX_ROUNDS
from actors.entities.transaction_writer import MAX_RACES
from core.records.record import Record
from core.shared.entities import EntityRef
from core.waits.messages import RefusedReply
from storage.entities.loader import Loaded
from storage.entities.transactions import TransactionChange
from tests.unit.actors.entities.fixtures import (
    Broken,
    Endless,
    Increment,
    Look,
    World,
    place,
    running,
)

A, B, C = place("a"), place("b"), place("c")


def add(*counters: object, turn_id: str = "t") -> Increment:
    return Increment(counters=counters, turn_id=turn_id)  # type: ignore[arg-type]


def record(version: int, name: str = "a") -> Record:
    return Record(address=place(name), version=version, data={}, created_at=0.0, updated_at=0.0)


async def test_what_turns_need_is_loaded_together() -> None:
    async with running() as world:
        assert await world.send(add(A), add(B), add(B), add(C, A)) == [1, 1, 2, 1]
        assert [set(refs) for refs in world.tables.loads] == [{A.ref, B.ref, C.ref}]
        assert [world.tables.version(one.ref) for one in (A, B, C)] == [2, 2, 1]


async def test_turns_whose_records_were_too_many_bytes_are_loaded_later() -> None:
    async with running() as world:
        world.tables.most = 2
        assert await world.send(add(A), add(B, C), add(B), add(C)) == [1, 1, 2, 2]
        assert world.tables.loads == [[A.ref, B.ref, C.ref], [B.ref, C.ref]]


async def test_a_turn_that_needs_too_many_bytes_alone_is_refused() -> None:
    async with running() as world:
        world.tables.most = 1
        refused, added = await world.send(add(A, B), add(C))
        assert isinstance(refused, RefusedReply)
        assert "more than 32 MB of stored records" in refused.detail
        assert (added, world.tables.rows.keys()) == (1, {C.ref})


async def test_a_fresh_entity_is_not_loaded() -> None:
    async with running() as world:
        assert await world.send(Increment(counters=(A,), fresh=True)) == [1]
        assert world.tables.loads == []


async def test_turns_that_share_an_entity_are_one_transaction() -> None:
    async with running() as world:
        await world.send(add(A), add(B), add(C), add(A, B))
        ((first, second),) = world.tables.flushes
        assert {frozenset(first.after), frozenset(second.after)} == {
            frozenset({A.ref, B.ref}),
            frozenset({C.ref}),
        }


async def test_nothing_is_answered_before_its_commit() -> None:
    async with running() as world:
        world.tables.let.clear()
        first = world.send(add(A))
        await world.idle()
        later, look = world.send(add(A)), world.send(Look(counters=(A,)))
        await world.idle()
        assert not any(one.done() for one in (first, later, look))
        world.tables.let.set()
        assert (await first, await later, await look) == ([1], [2], [[2]])
        assert len(world.tables.flushes) == 2


async def test_a_turn_on_what_is_in_flight_expects_its_version() -> None:
    async with running() as world:
        world.tables.let.clear()
        first = world.send(add(A))
        await world.idle()
        second = world.send(add(A))
        await world.idle()
        world.tables.let.set()
        await first, await second
        (before,) = world.tables.flushes[1][0].before.values()
        assert before is not None
        assert before.version == 1


async def test_a_lost_transaction_takes_those_along_that_rely_on_it() -> None:
    async with running() as world:
        world.tables.let.clear()
        first, other = world.send(add(A, B)), world.send(add(C))
        await world.idle()
        later = world.send(add(B))
        await world.idle()
        world.tables.rows[A.ref] = record(7)  # another owner was first
        world.tables.let.set()
        assert (await first, await other, await later) == ([8], [1], [2])
        assert {name.ref: world.tables.version(name.ref) for name in (A, B)} == {A.ref: 8, B.ref: 2}
        assert world.counters.counts["conflicts"] == 1


async def test_an_answer_waits_for_all_that_it_was_made_from() -> None:
    async with running() as world:
        world.tables.let.clear()
        first = world.send(add(A))
        await world.idle()
        second = world.send(add(B))
        look = world.send(Look(counters=(A, B)))
        await world.idle()
        world.tables.rows[B.ref] = record(4, "b")
        world.tables.let.set()
        assert (await first, await second, await look) == ([1], [5], [[1, 5]])


async def test_what_was_only_read_can_be_guarded() -> None:
    async with running() as world:
        world.tables.rows[B.ref] = record(1, "b")
        world.tables.let.clear()
        guarded = world.send(Increment(counters=(A,), reads=(B,), unchanged=True))
        free = world.send(Increment(counters=(C,), reads=(B,)))
        await world.idle()
        world.tables.rows[B.ref] = record(2, "b")
        world.tables.let.set()
        assert (await guarded, await free) == ([1], [1])
        assert world.counters.counts["conflicts"] == 1


async def test_a_turn_gives_up_after_many_races() -> None:
    async with running() as world:
        load = world.tables.load

        async def load_old(refs: Iterable[EntityRef[Any]]) -> Loaded:
            """Another owner changes what was loaded, every time."""
            found = await load(refs)
            world.tables.rows[A.ref] = record(world.tables.version(A.ref) + 1)
            return found

        world.tables.load = load_old  # type: ignore[method-assign]
        (reply,) = await world.send(add(A))
        assert isinstance(reply, RefusedReply)
        assert (reply.kind, str(MAX_RACES) in reply.detail) == ("failed", True)


async def test_a_duplicate_alone_is_decided_again() -> None:
    async with running() as world:
        flush = world.tables.flush

        async def flush_one(changes: Sequence[TransactionChange]) -> set[int]:
            if any(B.ref in change.after and change.before[B.ref] is None for change in changes):
                world.tables.rows.setdefault(B.ref, record(1, "b"))
                raise asyncpg.UniqueViolationError("b exists")
            return await flush(changes)

        world.tables.flush = flush_one  # type: ignore[method-assign]
        assert await world.send(add(A), add(C, B)) == [1, 1]
        assert world.tables.version(B.ref) == 2


async def test_what_the_tables_refuse_is_refused() -> None:
    async with running() as world:
        world.tables.error = asyncpg.DataError("no")
        (reply,) = await world.send(add(A))
        assert isinstance(reply, RefusedReply)
        assert reply.kind == "broken"
        world.tables.error = asyncpg.QueryCanceledError("too slow")
        (reply,) = await world.send(add(A))
        assert "statement timeout" in reply.detail
        world.tables.error = None
        assert await world.send(add(A)) == [1]


async def test_messages_to_one_address_keep_their_order() -> None:
    async with running() as world:
        world.tables.let_load.clear()
        first = world.send(add(A, B))
        await world.idle()
        second, third = world.send(Look(counters=(A,))), world.send(add(A))
        await world.idle()
        assert len(world.tables.loads) == 1
        world.tables.let_load.set()
        assert (await first, await second, await third) == ([1], [[1]], [2])


async def test_a_transition_that_fails_is_refused_alone() -> None:
    async with running() as world:
        bad, good = await world.send(Broken(counters=(A,)), add(A))
        assert isinstance(bad, RefusedReply)
        assert (bad.kind, good) == ("failed", 1)


async def test_a_transition_may_not_ask_for_ever() -> None:
    async with running() as world:
        reply, good = await world.send(Endless(counters=(A,)), add(A))
        assert isinstance(reply, RefusedReply)
        assert (reply.kind, good) == ("broken", 1)
        assert len(world.tables.loads) <= MAX_ROUNDS + 1


async def test_what_was_decided_by_a_wrong_clock_is_decided_again() -> None:
    async with running() as world:
        world.tables.let.clear()
        first = world.send(add(A))
        await world.idle()
        second = world.send(add(B))
        await world.idle()
        world.clock.at = 500.0
        world.host.writer.decide_again()
        world.tables.let.set()
        assert (await first, await second) == ([1], [1])
        stored = world.tables.rows[B.ref]
        assert isinstance(stored, Record)
        assert stored.updated_at == 500.0


async def test_a_tenant_with_many_turns_delays_another_by_one() -> None:
    order: list[int] = []
    world = World()
    run = world.host._run
    world.host._queue._run = lambda turn: (order.append(turn.tenant), run(turn))[1]
    for tenant, count in ((1, 50), (2, 2)):
        world.send(*(add(place(f"x{n}", tenant)) for n in range(count)))
    queue = world.host._queue
    while queue._by_tenant:
        queue._run(queue._take())
    assert order[:4] == [1, 2, 1, 2]
    assert len(order) == 52


async def test_many_changes_of_a_large_document_take_several_flushes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transaction_writer, "FLUSH_BYTES", 1_000)
    async with running() as world:
        world.tables.let.clear()
        first = world.send(add(A))
        await world.idle()
        rest = world.send(*(Increment(counters=(A,), rows=1) for _ in range(10)))
        other = world.send(add(B))
        await world.idle()
        world.tables.let.set()
        assert await first == [1]
        assert await rest == list(range(2, 12))
        assert await other == [1]
        sizes = [sum(len(change.rows) for change in flush) for flush in world.tables.flushes]
        assert sum(sizes) == 10
        assert max(sizes) <= 4


async def test_after_a_freeze_messages_are_looked_for_in_what_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entity_host, "BEAT_EVERY", 0.0)
    async with running() as world:
        await world.send(add(A))
        await world.idle()
        world.clock.at += 30.0  # nothing ran meanwhile
        await world.idle()
        world.tables.loads.clear()
        await world.send(add(A, turn_id="old"))
        assert A.turn_ref("old") in world.tables.loads[0]


async def test_a_flush_is_limited() -> None:
    async with running(flush_limit=3) as world:
        world.tables.let.clear()
        first = world.send(add(A))
        await world.idle()
        rest = world.send(*(add(place(f"x{n}")) for n in range(7)))
        await world.idle()
        world.tables.let.set()
        await first, await rest
        assert [len(flush) for flush in world.tables.flushes] == [1, 3, 3, 1]
