"""The shard's mind on a real Postgres: every order, every race, one result."""

import asyncio
from typing import Any

import asyncpg
import pytest

from core.waits.messages import (
    Cancel,
    Expire,
    OfferReply,
    Reason,
    RefusalKind,
    RefusedReply,
    RegisterReply,
    StatusReply,
    Verdict,
)
from core.waits.strategy import Status
from storage.postgres.migrate import migrate
from tests.support.postgres import BareServer
from tests.support.shards import BOTH, address, api, ask, kafka, register, running_shard


async def rows(dsn: str, query: str) -> list[asyncpg.Record]:
    conn = await asyncpg.connect(dsn)
    try:
        return await conn.fetch(query)
    finally:
        await conn.close()


@pytest.mark.parametrize("order", [(api, kafka), (kafka, api)])
async def test_both_orders_complete_once(database: str, order: tuple[Any, Any]) -> None:
    where = address()
    async with running_shard(database) as shard:
        assert isinstance(await ask(shard, register(where)), RegisterReply)
        first = await ask(shard, order[0](where))
        second = await ask(shard, order[1](where))
    assert isinstance(first, OfferReply)
    assert isinstance(second, OfferReply)
    assert (first.status, second.status) == (Status.WAITING, Status.COMPLETED)


async def test_twenty_at_once_one_matches(database: str) -> None:
    where = address()
    async with running_shard(database) as shard:
        await ask(shard, register(where))
        replies = await asyncio.gather(*(ask(shard, api(where)) for _ in range(20)))
        assert isinstance(await ask(shard, kafka(where)), OfferReply)
    verdicts = [reply.verdict for reply in replies if isinstance(reply, OfferReply)]
    assert verdicts.count(Verdict.MATCHED) == 1
    assert verdicts.count(Verdict.DUPLICATE) == 19


async def test_a_repeated_delivery_changes_nothing(database: str) -> None:
    where = address()
    event = api(where)
    async with running_shard(database) as shard:
        await ask(shard, register(where))
        first = await ask(shard, event)
        again = await ask(shard, event)
        resent = await ask(shard, api(where, event_id=event.event_id))
    assert again == first
    assert isinstance(resent, OfferReply)
    assert resent.verdict is Verdict.DUPLICATE
    assert len(await rows(database, "select from wait_state_events")) == 1


async def test_two_owners_of_one_key_are_slow_not_wrong(database: str) -> None:
    """A zombie shard writes with an old version: refused, reloaded, decided again."""
    where = address()
    async with (
        running_shard(database, "old") as old,
        running_shard(database, "new") as new,
    ):
        await ask(old, register(where))
        await ask(new, api(where))  # moves the row on behind the old owner's back
        late_owner = await ask(old, kafka(where))
        assert isinstance(late_owner, OfferReply)
        assert late_owner.status is Status.COMPLETED
        assert old.snapshot()["conflicts"] == 1
    done = await rows(database, "select status, version from execution_wait_states")
    assert [tuple(row) for row in done] == [("completed", 3)]


async def test_both_owners_registering_leaves_one_wait(database: str) -> None:
    where = address()
    message = register(where)
    async with running_shard(database) as one, running_shard(database) as two:
        replies = await asyncio.gather(ask(one, message), ask(two, message))
    assert all(isinstance(reply, RegisterReply) and reply.created for reply in replies)
    assert len(await rows(database, "select from execution_wait_states")) == 1


async def test_early_events_need_no_hint(database: str) -> None:
    where = address()
    async with running_shard(database) as shard:
        early = await ask(shard, api(where))
        assert isinstance(early, OfferReply)
        assert early.verdict is Verdict.BUFFERED
        opened = await ask(shard, register(where))
        assert isinstance(opened, RegisterReply)
        last = await ask(shard, kafka(where))
        assert isinstance(last, OfferReply)
        assert last.status is Status.COMPLETED
    assert await rows(database, "select from event_inbox") == []


async def test_event_and_registration_in_one_batch(database: str) -> None:
    where = address()
    async with running_shard(database) as shard:
        replies = await shard.handle([api(where), kafka(where), register(where)])
    assert isinstance(replies[2], RegisterReply)
    assert replies[2].status is Status.COMPLETED
    assert await rows(database, "select from event_inbox") == []
    assert len(await rows(database, "select from wait_state_events")) == 2


async def test_an_event_for_another_execution_is_refused_with_both_values(database: str) -> None:
    waiting = address()
    stranger = address(correlation=waiting.correlation_id)
    async with running_shard(database) as shard:
        await ask(shard, register(waiting))
        reply = await ask(shard, api(stranger))
    assert isinstance(reply, OfferReply)
    assert (reply.verdict, reply.reason) == (Verdict.REJECTED, Reason.EXECUTION_MISMATCH)
    assert reply.clause is not None
    assert (reply.clause.expected, reply.clause.actual) == (
        waiting.execution_id,
        stranger.execution_id,
    )
    parked = await rows(database, "select verdict, reason from event_inbox")
    assert [tuple(row) for row in parked] == [("rejected", "execution_mismatch")]


async def test_late_events_are_logged_as_late(database: str) -> None:
    where = address()
    async with running_shard(database) as shard:
        await ask(shard, register(where, BOTH | {"aggregationStrategy": "any"}))
        await ask(shard, api(where))
        reply = await ask(shard, kafka(where))
    assert isinstance(reply, OfferReply)
    assert reply.verdict is Verdict.LATE
    kinds = await rows(database, "select kind from wait_state_events order by seq")
    assert [row["kind"] for row in kinds] == ["received", "late"]


async def test_a_deadline_ends_it_and_a_second_firing_does_not(database: str) -> None:
    where = address()
    async with running_shard(database) as shard:
        opened = await ask(shard, register(where, BOTH | {"timeout": 5}))
        assert isinstance(opened, RegisterReply)
        expire = Expire(address=where, turn_id="t", at=opened.expires_at)
        first, second = await ask(shard, expire), await ask(shard, expire)
    assert first == StatusReply(status=Status.TIMEOUT, changed=True)
    assert second == StatusReply(status=Status.TIMEOUT, changed=False)


async def test_cancel_and_what_does_not_exist(database: str) -> None:
    where = address()
    async with running_shard(database) as shard:
        unknown = await ask(shard, Cancel(address=where, turn_id="t"))
        await ask(shard, register(where))
        done = await ask(shard, Cancel(address=where, turn_id="t"))
    assert isinstance(unknown, RefusedReply)
    assert unknown.kind is RefusalKind.UNKNOWN
    assert done == StatusReply(status=Status.CANCELLED, changed=True)


async def test_a_node_taken_by_another_correlation_is_a_conflict(database: str) -> None:
    first = address()
    second = address(execution=first.execution_id)
    async with running_shard(database) as shard:
        await ask(shard, register(first, node_id="pay"))
        reply = await ask(shard, register(second, node_id="pay"))
    assert isinstance(reply, RefusedReply)
    assert (reply.kind, reply.existing) == (RefusalKind.CONFLICT, first.correlation_id)


async def test_another_configuration_for_the_same_ids_is_a_conflict(database: str) -> None:
    where = address()
    async with running_shard(database) as shard:
        await ask(shard, register(where))
        same = await ask(shard, register(where))
        other = await ask(shard, register(where, BOTH | {"timeout": 61}))
    assert isinstance(same, RegisterReply)
    assert not same.created
    assert isinstance(other, RefusedReply)
    assert other.kind is RefusalKind.CONFLICT


async def test_memory_is_bounded_and_passivated_waits_come_back(database: str) -> None:
    places = [address() for _ in range(200)]
    async with running_shard(database, hot_limit=50, idle_after=3600.0) as shard:
        await shard.handle([register(where) for where in places])
        shard.passivate()
        assert shard.snapshot()["hot"] <= 50
        await shard.handle([api(where) for where in places])
        replies = await shard.handle([kafka(where) for where in places])
    assert all(isinstance(r, OfferReply) and r.status is Status.COMPLETED for r in replies)


async def test_too_much_at_once_is_refused_not_queued(database: str) -> None:
    async with running_shard(database, pending_limit=10) as shard:
        replies = await shard.handle([api(address()) for _ in range(11)])
    assert all(isinstance(r, RefusedReply) and r.kind is RefusalKind.OVERLOADED for r in replies)


async def test_a_full_log_refuses_what_would_only_be_noted(database: str) -> None:
    where = address()
    async with running_shard(database, log_limit=3) as shard:
        await ask(shard, register(where))
        replies = [await ask(shard, api(where)) for _ in range(5)]
        counts = await ask(shard, kafka(where))
        late = await ask(shard, kafka(where))
    assert [type(reply).__name__ for reply in replies] == ["OfferReply"] * 3 + ["RefusedReply"] * 2
    assert isinstance(counts, OfferReply)
    assert (counts.verdict, counts.status) == (Verdict.MATCHED, Status.COMPLETED)
    assert isinstance(late, RefusedReply)


async def test_an_event_that_postgres_refuses_does_not_hold_up_its_batch(database: str) -> None:
    good, bad = address(), address()
    async with running_shard(database) as shard:
        replies = await shard.handle([api(bad, event_id="nul\x00"), register(good)])
        again = await ask(shard, api(good))
    assert isinstance(replies[0], RefusedReply)
    assert replies[0].kind is RefusalKind.BROKEN
    assert isinstance(replies[1], RegisterReply)
    assert isinstance(again, OfferReply)


async def test_postgres_restarted_in_the_middle_loses_nothing(bare_server: BareServer) -> None:
    await migrate(bare_server.dsn)
    places = [address() for _ in range(300)]
    async with running_shard(bare_server.dsn) as shard:
        await shard.handle([register(where) for where in places])
        loads = [asyncio.create_task(ask(shard, api(where))) for where in places]
        await asyncio.sleep(0)
        await asyncio.to_thread(bare_server.stop, "immediate")
        more = [asyncio.create_task(ask(shard, kafka(where))) for where in places]
        await asyncio.to_thread(bare_server.start)
        replies = await asyncio.gather(*loads, *more)
    assert all(isinstance(reply, OfferReply) for reply in replies)
    done = await rows(
        bare_server.dsn, "select status, count(*) from execution_wait_states group by 1"
    )
    assert [tuple(row) for row in done] == [("completed", 300)]
    lines = await rows(bare_server.dsn, "select count(*) from wait_state_events")
    assert lines[0][0] == 600


async def test_a_feed_names_what_changed_once(database: str) -> None:
    watched, other = address(), address()
    async with running_shard(database) as shard:
        await shard.handle([register(watched), register(other)])
        assert await shard.feeds.listen("replica", [watched.key], [], 0) == [watched.key]
        listening = asyncio.create_task(shard.feeds.listen("replica", [], [], 5))
        await shard.handle([api(other), api(watched)])
        assert await listening == [watched.key]
        assert await shard.feeds.listen("replica", [], [watched.key], 0) == []
        assert shard.snapshot()["watched"] == 0


async def test_early_events_are_bounded_and_refused_with_a_reason(database: str) -> None:
    where = address()
    async with running_shard(database, early_limit=3) as shard:
        replies = [await ask(shard, api(where, event_id=f"e{n}")) for n in range(8)]
        again = await ask(shard, api(where, event_id="e0"))
        opened = await ask(shard, register(where))
    verdicts = [reply.reason for reply in replies if isinstance(reply, OfferReply)]
    assert verdicts == [Reason.NO_WAIT_YET] * 3 + [Reason.TOO_MANY_EARLY] * 5
    assert isinstance(again, OfferReply)
    assert again.verdict is Verdict.BUFFERED, "it is kept already"
    assert isinstance(opened, RegisterReply)
    noted = await rows(
        database, "select event_id, octet_length(payload) from event_inbox order by 1"
    )
    assert [tuple(row) for row in noted] == [("e3", 0), ("e4", 0), ("e5", 0)]
    kinds = await rows(database, "select kind from wait_state_events order by seq")
    assert [row[0] for row in kinds] == ["received", "duplicate", "duplicate"]


async def test_an_early_event_that_was_refused_is_kept_when_there_is_room(database: str) -> None:
    where = address()
    async with running_shard(database, early_limit=1) as shard:
        await ask(shard, kafka(where, event_id="first"))
        await ask(shard, api(where, b'{"n":2}', event_id="second"))
        await rows(database, "delete from event_inbox where event_id = 'first'")
        reply = await ask(shard, api(where, b'{"n":2}', event_id="second"))
        opened = await ask(shard, register(where, BOTH | {"aggregationStrategy": "any"}))
    assert isinstance(reply, OfferReply)
    assert reply.verdict is Verdict.BUFFERED
    assert isinstance(opened, RegisterReply)
    assert opened.status is Status.COMPLETED
    (line,) = await rows(database, "select payload from wait_state_events")
    assert line[0] == b'{"n":2}'


async def test_early_events_of_many_large_waits_are_read_in_parts(database: str) -> None:
    """Registrations whose early events exceed a part are all served, each with its own."""
    places = [address() for _ in range(6)]
    async with running_shard(database) as shard:
        for where in places:
            await ask(shard, api(where, b'"' + b"x" * 1_500_000 + b'"'))
        await ask(shard, kafka(places[0]))
        batch = [*map(register, places), *map(kafka, places)]
        replies = await shard.handle(list(batch))
    assert all(isinstance(reply, RegisterReply) for reply in replies[:6])
    assert all(isinstance(reply, OfferReply) for reply in replies[6:])
    ended = await rows(database, "select status from execution_wait_states")
    assert [row[0] for row in ended] == ["completed"] * 6


async def test_an_event_and_its_registration_may_meet_early_events_in_memory(database: str) -> None:
    """What is being stored and what is stored are taken up together, once each."""
    where = address()
    async with running_shard(database) as shard:
        await ask(shard, kafka(where, event_id="stored"))
        batch = [api(where, event_id="unsaved"), register(where), api(where, event_id="later")]
        _, opened, later = await shard.handle(list(batch))
    assert isinstance(opened, RegisterReply)
    assert opened.status is Status.COMPLETED
    assert isinstance(later, OfferReply)
    assert later.verdict is Verdict.LATE
    assert await rows(database, "select from event_inbox") == []
    ids = await rows(database, "select event_id from wait_state_events order by seq")
    assert [row[0] for row in ids] == ["stored", "unsaved", "later"]


async def test_an_ended_wait_that_refuses_for_its_full_log_leaves_memory(database: str) -> None:
    where = address()
    async with running_shard(database, log_limit=3) as shard:
        await ask(shard, register(where, BOTH | {"aggregationStrategy": "any"}))
        replies = [await ask(shard, api(where)) for _ in range(6)]
        assert shard.snapshot()["hot"] == 0
    refused = [reply for reply in replies if isinstance(reply, RefusedReply)]
    assert {reply.kind for reply in refused} == {RefusalKind.FULL}
    assert {reply.verdict for reply in refused} == {Verdict.LATE}
