"""Gathers in a shard's mind on a real Postgres: promises, answers, readers that leave."""

import uuid
from typing import Any

import asyncpg
import pytest

from actors.waits.shard import Shard
from core.gathers.gather import GatherSpec, Question, encode_gather_spec, wait_spec_of
from core.shared.address import Address
from core.waits.messages import (
    Abandon,
    Accept,
    Cancel,
    Offer,
    OfferReply,
    RefusalKind,
    RefusedReply,
    Register,
    RegisterReply,
    StatusReply,
    Verdict,
)
from core.waits.spec import Source, encode_spec
from core.waits.strategy import Outcome, Status
from tests.support.shards import address, api, ask, register, running_shard

NAMES = ("one", "two", "three")
ASKED = encode_gather_spec(GatherSpec(asks=tuple(Question(name=name) for name in NAMES)))
LEFT = StatusReply(status=Status.CANCELLED, changed=True)
STAYS = StatusReply(status=Status.WAITING, changed=False)


def begin(where: Address) -> Register:
    spec = encode_spec(wait_spec_of([Question(name=name) for name in NAMES], 10.0))
    return Register(
        address=where, turn_id="r", node_id="gather", spec=spec, fresh=True, asked=ASKED
    )


def answer(where: Address, name: str, outcome: Outcome = Outcome.RECEIVED) -> Offer:
    return Offer(
        address=where,
        turn_id=uuid.uuid4().hex,
        event_id=f"call/{name}",
        source=Source.API,
        label=name,
        payload=b"{}",
        outcome=outcome,
    )


def accept(where: Address, name: str) -> Accept:
    return Accept(address=where, turn_id=uuid.uuid4().hex, event=name)


def abandon(where: Address, feed: str) -> Abandon:
    return Abandon(address=where, turn_id=uuid.uuid4().hex, feed=feed)


def called_off(shard: Shard) -> list[bytes]:
    world: Any = shard._environment
    return list(world.called_off)


async def log(dsn: str) -> list[tuple[int, str, str | None]]:
    conn = await asyncpg.connect(dsn)
    try:
        rows = await conn.fetch("select seq, kind, event from wait_state_events order by seq")
    finally:
        await conn.close()
    return [tuple(row) for row in rows]


async def aged(dsn: str, seconds: float) -> None:
    conn = await asyncpg.connect(dsn)
    try:
        await conn.execute(
            "update execution_wait_states set created_at = created_at - $1 * interval '1 second'",
            seconds,
        )
    finally:
        await conn.close()


async def test_a_gather_is_asked_promised_and_answered(database: str) -> None:
    where = address()
    async with running_shard(database) as shard:
        assert isinstance(await ask(shard, begin(where)), RegisterReply)
        promised = await ask(shard, accept(where, "one"))
        assert promised == StatusReply(status=Status.WAITING, changed=True)
        await ask(shard, answer(where, "one"))
        await ask(shard, answer(where, "two", Outcome.REJECTED))
        last = await ask(shard, answer(where, "three", Outcome.TIMED_OUT))
        assert isinstance(last, OfferReply)
        assert last.status is Status.COMPLETED
        counted = shard.snapshot()["gathers"]
        assert called_off(shard) == []
    assert await log(database) == [
        (1, "asked", None),
        (2, "received", "one"),
        (3, "rejected", "two"),
        (4, "timed_out", "three"),
    ]
    assert counted["ended"] == {"partial": 1}
    assert {row["name"]: row["ok"] for row in counted["resources"]} == {
        "one": 1,
        "two": 0,
        "three": 0,
    }


async def test_a_promise_outlives_its_owner(database: str) -> None:
    where = address()
    async with running_shard(database, "old") as old:
        await ask(old, begin(where))
        await ask(old, accept(where, "one"))
    async with running_shard(database, "new") as new:
        assert await ask(new, accept(where, "one")) == STAYS
        again = await ask(new, accept(where, "two"))
        assert again == StatusReply(status=Status.WAITING, changed=True)
        assert isinstance(await ask(new, answer(where, "one")), OfferReply)
    assert [line[1] for line in await log(database)] == ["asked", "received"]


async def test_a_promise_that_another_owner_overtook_is_decided_again(database: str) -> None:
    where = address()
    async with running_shard(database, "old") as old, running_shard(database, "new") as new:
        await ask(old, begin(where))
        await ask(new, answer(where, "one"))
        assert await ask(old, accept(where, "one")) == STAYS
        assert old.snapshot()["conflicts"] == 1


async def test_promise_and_answer_in_one_batch(database: str) -> None:
    where = address()
    async with running_shard(database) as shard:
        replies = await shard.handle(
            [begin(where), accept(where, "one"), answer(where, "one"), accept(where, "one")]
        )
    assert [type(reply).__name__ for reply in replies] == [
        "RegisterReply",
        "StatusReply",
        "OfferReply",
        "StatusReply",
    ]
    assert replies[3] == STAYS


async def test_a_promise_to_nobody_is_refused(database: str) -> None:
    async with running_shard(database) as shard:
        assert isinstance(await ask(shard, accept(address(), "one")), RefusedReply)
        assert isinstance(await ask(shard, abandon(address(), "replica")), RefusedReply)


async def test_without_readers_a_gather_is_cancelled_and_its_calls_are_called_off(
    database: str,
) -> None:
    where = address()
    async with running_shard(database) as shard:
        await ask(shard, begin(where))
        await shard.feeds.listen("replica", [where.key], [], 0)
        assert await ask(shard, abandon(where, "replica")) == LEFT
        assert called_off(shard) == [where.key]
        late = await ask(shard, answer(where, "one"))
        assert isinstance(late, OfferReply)
        assert (late.verdict, late.status) == (Verdict.LATE, Status.CANCELLED)
        counted = shard.snapshot()["gathers"]
    assert (counted["ended"], counted["late"]) == ({"cancelled": 1}, 1)


async def test_a_reader_at_another_replica_keeps_it(database: str) -> None:
    where = address()
    async with running_shard(database) as shard:
        await ask(shard, begin(where))
        for replica in ("one", "two"):
            await shard.feeds.listen(replica, [where.key], [], 0)
        assert await ask(shard, abandon(where, "one")) == STAYS
        assert called_off(shard) == []
        assert await ask(shard, abandon(where, "two")) == LEFT
        assert called_off(shard) == [where.key]


async def test_a_shard_that_came_back_asks_for_patience_until_it_knows_who_reads(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = address()
    async with running_shard(database, "old") as old:
        await ask(old, begin(where))
    await aged(database, 1.0)  # no two clocks agree to the millisecond
    async with running_shard(database, "new") as new:
        early = await ask(new, abandon(where, "one"))
        assert isinstance(early, RefusedReply)
        assert early.kind is RefusalKind.OVERLOADED
        await new.feeds.listen("two", [where.key], [], 0)
        fresh = address()
        await ask(new, begin(fresh))
        assert await ask(new, abandon(fresh, "one")) == LEFT, "it knows all about its own"
        monkeypatch.setattr("actors.waits.guard.REWATCH_WITHIN", 0.0)
        assert await ask(new, abandon(where, "one")) == STAYS
        assert await ask(new, abandon(where, "two")) == LEFT


async def test_a_caller_that_cancels_calls_off_as_well_and_once(database: str) -> None:
    where = address()
    async with running_shard(database) as shard:
        await ask(shard, begin(where))
        await shard.feeds.listen("replica", [where.key], [], 0)
        assert await ask(shard, Cancel(address=where, turn_id="c")) == LEFT
        assert await ask(shard, Cancel(address=where, turn_id="c")) == LEFT
        await ask(shard, answer(where, "one"))
        assert await shard.feeds.listen("replica", [], [], 0) == [where.key]
        assert called_off(shard) == [where.key]


async def test_a_wait_that_asked_nobody_has_nothing_to_call_off(database: str) -> None:
    where = address()
    async with running_shard(database) as shard:
        await ask(shard, register(where))
        await ask(shard, api(where))
        assert await ask(shard, Cancel(address=where, turn_id="c")) == LEFT
        assert called_off(shard) == []
        assert shard.snapshot()["gathers"] == {"ended": {}, "late": 0, "resources": []}
