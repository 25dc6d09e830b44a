"""Outbox, dead letters and named topics, on a real Postgres."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from core.kafka.message import KafkaMessage
from core.waits.completion_event import completion_events
from core.waits.spec import decode_spec
from core.waits.transitions import apply
from storage.access import keys
from storage.kafka import dead_letters, named_topics, outbox
from storage.kafka.dead_letters import DeadLetterFilter
from storage.postgres.pool import Connection, Pool, PoolOptions, open_connection, open_pool
from storage.postgres.queries import Q
from storage.waits import waits
from storage.waits.flush import NO_VERSION, FlushWriter, WaitChange
from tests.support.shards import address, api, kafka, register

NOW = 1_800_000_000.0


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


@pytest.fixture
async def conn(database: str) -> AsyncIterator[Connection]:
    connection = await open_connection(PoolOptions(dsn=database, name="test"))
    yield connection
    await connection.close()


def letter(offset: int, value: bytes | None = b"\x00{", topic: str = "orders") -> KafkaMessage:
    return KafkaMessage(
        topic=topic,
        partition=1,
        offset=offset,
        value=value,
        key=b"k",
        headers=(("h", b"\xff"), ("null", None)),
    )


async def test_a_dead_letter_comes_back_whole(pool: Pool) -> None:
    await dead_letters.add(pool, 1, [(letter(5), "not JSON\x00"), (letter(6, None), "empty")])
    found = (await dead_letters.page(pool, 1, DeadLetterFilter(), None, 10)).items
    assert [one.offset for one in found] == [6, 5]
    (whole,) = await dead_letters.read(pool, 1, [found[1].letter_id])
    assert whole.message == letter(5)
    assert (whole.error, whole.attempts) == ("not JSON\ufffd", 1)
    assert await dead_letters.read(pool, 2, [found[1].letter_id]) == []  # another tenant


async def test_a_record_of_a_topic_that_was_made_again_is_no_repetition(pool: Pool) -> None:
    """Offsets begin anew there: another record has the place of one that was handled long ago."""
    await dead_letters.add(pool, 1, [(letter(5), "first")])
    (one,) = (await dead_letters.page(pool, 1, DeadLetterFilter(), None, 10)).items
    await dead_letters.mark_redriven(pool, 1, [one.letter_id])
    other = letter(5, b"another")
    await dead_letters.add(pool, 1, [(other, "second")])
    (now,) = (await dead_letters.page(pool, 1, DeadLetterFilter(), None, 10)).items
    (whole,) = await dead_letters.read(pool, 1, [now.letter_id])
    assert (whole.message, whole.error, whole.attempts) == (other, "second", 1)


async def test_the_same_record_is_buried_once_and_its_attempts_count(pool: Pool) -> None:
    for error in ("first", "second"):
        await dead_letters.add(pool, 1, [(letter(5), error)])
    (one,) = (await dead_letters.page(pool, 1, DeadLetterFilter(), None, 10)).items
    assert (one.error, one.attempts) == ("second", 2)
    await dead_letters.mark_failed(pool, 1, [(one.letter_id, "third")])
    await dead_letters.mark_redriven(pool, 1, [one.letter_id])
    await dead_letters.add(pool, 1, [(letter(5), "delivered again")])
    assert (await dead_letters.page(pool, 1, DeadLetterFilter(), None, 10)).items == []
    (done,) = (await dead_letters.page(pool, 1, DeadLetterFilter(redriven=True), None, 10)).items
    assert (done.error, done.attempts) == ("third", 3)
    assert await dead_letters.count(pool, 1) == {}


async def test_letters_are_found_by_topic_and_error_and_forgotten(pool: Pool) -> None:
    await dead_letters.add(pool, 1, [(letter(1), "bad JSON"), (letter(1, topic="x"), "refused")])
    assert await dead_letters.count(pool, 1) == {"orders": 1, "x": 1}
    assert await dead_letters.count(pool, 2) == {}
    for chosen in (DeadLetterFilter(topic="x"), DeadLetterFilter(error="REFUSED")):
        (one,) = (await dead_letters.page(pool, 1, chosen, None, 10)).items
        assert one.topic == "x"
    assert await dead_letters.delete(pool, 1, one.letter_id)
    assert not await dead_letters.delete(pool, 1, one.letter_id)
    assert await dead_letters.forget(pool, 3600, 10) == 0
    assert await dead_letters.forget(pool, -1, 10) == 1


async def test_letters_to_try_again_come_oldest_first_with_their_weight(pool: Pool) -> None:
    await dead_letters.add(pool, 1, [(letter(n, b"x" * n), "boom") for n in range(4)])
    await dead_letters.add(pool, 2, [(letter(9), "boom")])
    found = (await dead_letters.upcoming(pool, 1, DeadLetterFilter(), 0, 3)).items
    assert [one.size for one in found] == [0, 1, 2]
    ids = [one.letter_id for one in found]
    assert await dead_letters.count_upcoming(pool, 1, DeadLetterFilter(), ids[0]) == 3
    await dead_letters.mark_redriven(pool, 1, ids[1:])
    assert await dead_letters.count_upcoming(pool, 1, DeadLetterFilter(), ids[0]) == 1
    assert await dead_letters.count_upcoming(pool, 1, DeadLetterFilter(topic="x"), 0) == 0
    weighed = await dead_letters.read_sizes(pool, 1, [*reversed(ids), 10**9])
    assert [one.letter_id for one in weighed] == ids  # the settled ones too
    assert await dead_letters.read_sizes(pool, 2, ids) == []


async def test_an_end_and_its_event_are_one_write(pool: Pool, conn: Connection) -> None:
    message = register(address())
    spec = replace(decode_spec(message.spec), publish="done")
    wait = apply(None, message, NOW).wait
    assert wait is not None
    wait = replace(wait, spec=spec)
    key, journal = wait.address.key, FlushWriter("a", 60.0)
    one = apply(wait, api(wait.address), NOW).wait
    assert completion_events(wait, one) == ()
    two = apply(one, kafka(wait.address), NOW).wait
    outgoing = list(completion_events(one, two))
    assert completion_events(two, two) == ()
    stale = WaitChange(key, 1, 7, two, outgoing=outgoing)
    assert await journal.flush(conn, [stale]) == set()
    assert (await outbox.backlog(pool)).rows == 0  # the row lost, so did its event
    await journal.flush(conn, [WaitChange(key, 1, NO_VERSION, two, outgoing=outgoing)])
    (row,) = await outbox.upcoming(conn, 0, 10)
    assert (row.topic, row.record_key, row.wait_key) == ("done", wait.address.scoped_id, key)
    assert row.event_type == "muster.correlation.completed"
    assert (await outbox.backlog(pool)).rows == 1
    await outbox.confirm(conn, [row.outbox_id])
    assert await outbox.upcoming(conn, 0, 10) == []


async def test_one_relay_at_a_time(database: str, conn: Connection) -> None:
    assert await outbox.claim(conn)
    other = await open_connection(PoolOptions(dsn=database, name="other"))
    assert not await outbox.claim(other)
    await conn.close()
    while not await outbox.claim(other):  # the server notices a closed connection soon
        pass
    await other.close()


async def test_topics_of_live_waits_are_known(pool: Pool) -> None:
    tenant = await pool.fetchval("insert into tenants (slug) values ('acme') returning tenant_id")
    now = await pool.fetchval("select extract(epoch from now())::float8")
    await named_topics.name_topics(pool, tenant, {"b", "a"}, now + 60)
    await named_topics.name_topics(pool, tenant, {"old"}, now - 90_000)
    await named_topics.name_topics(pool, tenant, {"a"}, now - 90_000)  # never earlier than before
    assert await named_topics.named_topics(pool) == [("a", "acme"), ("b", "acme")]
    assert await named_topics.named_by(pool, tenant, 10) == ["a", "b"]
    assert await named_topics.named_by(pool, tenant, 1) == ["a"]
    assert await named_topics.named_by(pool, tenant + 1, 10) == []
    assert await keys.slug_of(pool, tenant) == "acme"
    assert await keys.slug_of(pool, tenant + 1) is None
    await named_topics.forget_topics(pool, retention=0)
    assert await pool.fetchval("select count(*) from wait_topics") == 2


FILLED = """
insert into wait_specs values (1, '\\x01', '{}', now());
insert into execution_wait_states
       (wait_key, tenant_id, execution_id, correlation_id, node_id, aggregation_strategy, status,
        version, log_length, spec_id, marks, registered_by, created_at, updated_at, expires_at,
        due_at)
select decode(lpad(to_hex(n), 32, '0'), 'hex'), 1, n::text, 'c', 'n', 'all', 'completed', 1, 0,
       '\\x01', '[]', 'r', now() - interval '9 days', now() - interval '9 days',
       now() - interval '9 days', now() - interval '9 days'
  from generate_series(1, 20000) n;
insert into outbox (tenant_id, wait_key, topic, record_key, event_type, created_at)
select 1, wait_key, 'done', 'k', 't', now() - interval '9 days'
  from execution_wait_states limit 15000;
"""


async def test_a_wait_is_kept_until_its_end_is_published(pool: Pool, conn: Connection) -> None:
    await conn.execute(FILLED)
    arguments = (7 * 86_400.0, 1_000)
    for _ in range(2):  # before anything is known of the tables, and after
        plan = await conn.fetch(f"explain {Q['forget_ended']}", *arguments)
        assert any("hashed SubPlan" in row[0] for row in plan), "\n".join(row[0] for row in plan)
        await conn.execute("analyze")
    while await waits.forget_ended(pool, *arguments):
        pass
    assert await conn.fetchval("select count(*) from execution_wait_states") == 15_000
    await conn.execute("delete from outbox")
    assert await waits.forget_ended(pool, *arguments) == 1_000
