"""Records from the client of the shards to Postgres and back: two shards, without Ray."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from msgspec.structs import replace

from actors.messaging.shard_client import ShardClient
from actors.messaging.shard_messages import decode_messages, encode_batch
from actors.messaging.shard_socket import ConnectionLostError
from actors.waits.shard import Shard
from core.records.collection import assign_slots
from core.records.messages import (
    RecordMessage,
    RecordRefusal,
    RecordRefused,
    RecordReply,
    RecordSaved,
    RecordWrite,
    SaveAllRecords,
    SaveRecord,
)
from core.records.record import RecordAddress
from core.shared.config import Config
from core.waits.messages import RefusedReply
from services.records.reindexer import Reindexer
from storage.access import keys
from storage.entities.entity_store import EntityStore
from storage.entities.transactions import TransactionChange
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.records import collections
from storage.records.collections import VersionNote
from tests.support.records import PEOPLE, create_collection
from tests.support.shards import running_shard

SHARDS = 2


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test", max_size=4))
    yield opened
    await opened.close()


class People:
    """A collection of one tenant, and the shards that host its records."""

    def __init__(self, pool: Pool, tenant: int, number: int, shards: list[Shard]) -> None:
        self.pool = pool
        self.tenant = tenant
        self.number = number
        self.shards = shards
        self.client = ShardClient(Config(dsn="", shards=SHARDS), self._deliver)
        self.answers_to_lose = 0
        self._turns = 0

    async def _deliver(self, name: str, batch: bytes) -> bytes:
        shard = self.shards[int(name.removeprefix("shard-"))]
        replies = encode_batch(await shard.handle(decode_messages(batch)))
        if self.answers_to_lose:
            self.answers_to_lose -= 1
            raise ConnectionLostError(name)
        return replies

    def save(
        self, record_id: str, write: RecordWrite = RecordWrite.MERGE, **fields: Any
    ) -> SaveRecord:
        self._turns += 1
        return SaveRecord(
            address=RecordAddress(self.tenant, self.number, record_id),
            turn_id=f"turn-{self._turns}",
            write=write,
            definition_version=1,
            fields=fields,
        )

    def create(self, record_id: str, **fields: Any) -> SaveRecord:
        return replace(self.save(record_id, RecordWrite.CREATE, **fields), fresh=True)

    async def send(self, *messages: RecordMessage) -> list[RecordReply | RefusedReply]:
        return await self.client.send_many(list(messages))

    async def versions(self) -> dict[str, int]:
        """The version of each record, each of which must have exactly one change row."""
        stored = await self.pool.fetch("select record_id, version from records order by 1")
        changes = await self.pool.fetch(
            "select record_id, version from record_changes order by 1, 2"
        )
        assert [tuple(row) for row in changes] == [
            (row["record_id"], version)
            for row in stored
            for version in range(1, row["version"] + 1)
        ]
        return {row["record_id"]: row["version"] for row in stored}


@pytest.fixture
async def people(database: str, pool: Pool) -> AsyncIterator[People]:
    tenant = await keys.create_tenant(pool, "own")
    number = await create_collection(pool, tenant)
    async with AsyncExitStack() as stack:
        shards = [
            await stack.enter_async_context(running_shard(database, f"shard-{index}"))
            for index in range(SHARDS)
        ]
        here = People(pool, tenant, number, shards)
        yield here
        await here.client.close()


def versions_of(replies: list[RecordReply | RefusedReply]) -> list[int]:
    saved = [reply for reply in replies if isinstance(reply, RecordSaved)]
    assert len(saved) == len(replies), replies
    return [reply.version for reply in saved]


async def test_a_record_is_written_once_it_is_answered(people: People) -> None:
    (created,) = await people.send(people.create("r1", name="Zoë"))
    assert isinstance(created, RecordSaved)
    assert (created.version, created.created, created.data["name"]) == (1, True, "Zoë")
    assert await people.versions() == {"r1": 1}
    (changed,) = await people.send(people.save("r1", email="zoe@example.org"))
    assert isinstance(changed, RecordSaved)
    assert changed.data == {"name": "Zoë", "email": "zoe@example.org"}
    (deleted,) = await people.send(people.save("r1", RecordWrite.DELETE))
    assert versions_of([deleted]) == [3]
    assert await people.versions() == {"r1": 3}
    kinds = await people.pool.fetch("select kind from record_changes order by version")
    assert [row[0] for row in kinds] == ["CREATED", "UPDATED", "DELETED"]


async def test_a_batch_is_stored_in_few_flushes(people: People) -> None:
    replies = await people.send(*(people.create(f"r{n}", name=str(n)) for n in range(1_000)))
    assert versions_of(replies) == [1] * 1_000
    assert len(await people.versions()) == 1_000
    flushes = sum(shard.snapshot()["flushes"] for shard in people.shards)
    assert flushes < 20


async def test_many_changes_of_one_record_are_one_row_and_a_change_row_each(
    people: People,
) -> None:
    await people.send(people.create("r1"))
    before = sum(shard.snapshot()["flushes"] for shard in people.shards)
    replies = await people.send(*(people.save("r1", name=str(n)) for n in range(300)))
    assert versions_of(replies) == list(range(2, 302))
    assert await people.versions() == {"r1": 301}
    assert sum(shard.snapshot()["flushes"] for shard in people.shards) - before < 10


async def test_a_message_that_is_sent_again_changes_nothing(people: People) -> None:
    create, change = people.create("r1", name="a"), people.save("r1", name="b")
    await people.send(create)
    await people.send(change)
    assert versions_of(await people.send(change)) == [2]
    twice = people.save("r1", name="c")
    assert versions_of(await people.send(twice, twice)) == [3, 3]
    assert versions_of(await people.send(create)) != [4]
    assert await people.versions() == {"r1": 3}


async def test_a_message_is_recognised_after_many_other_changes(people: People) -> None:
    saves = [people.save("r1", name=str(n)) for n in range(100)]
    await people.send(people.create("r1"))
    await people.send(*saves)
    again = await people.send(*(replace(save, resent=True) for save in saves))
    assert versions_of(again) == [101] * 100
    assert await people.versions() == {"r1": 101}


async def test_changes_whose_commit_was_not_confirmed_are_made_once(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks after the commit of a hundred changes of one record."""
    await people.send(people.create("r1"))
    flush, broken = EntityStore.flush, []

    async def flush_and_break(self: EntityStore, changes: list[TransactionChange]) -> set[int]:
        lost = await flush(self, changes)
        if not broken:
            broken.append(len(changes))
            raise ConnectionResetError("after the commit")
        return lost

    monkeypatch.setattr(EntityStore, "flush", flush_and_break)
    replies = await people.send(*(people.save("r1", name=str(n)) for n in range(100)))
    assert broken
    assert max(versions_of(replies)) == 101
    assert await people.versions() == {"r1": 101}


async def test_a_client_that_sends_again_says_so(people: People) -> None:
    """A shard dies after its commit and before its answer: the client tries again by itself."""
    await people.send(people.create("r1"))
    people.answers_to_lose = 1
    replies = await people.send(*(people.save("r1", name=str(n)) for n in range(50)))
    assert people.answers_to_lose == 0
    assert versions_of(replies) == [51] * 50
    assert await people.versions() == {"r1": 51}


async def test_two_owners_of_a_record_lose_nothing(people: People) -> None:
    """Each shard takes the record for its own; who comes second decides again."""
    await people.send(people.create("r1"))
    replies: list[RecordReply | RefusedReply] = []
    for number in range(20):
        saves = [people.save("r1", name=f"{number}-{n}") for n in range(4)]
        calls = [people.shards[n % SHARDS].handle([save]) for n, save in enumerate(saves)]
        replies += [reply for (reply,) in await asyncio.gather(*calls)]
    assert sorted(versions_of(replies)) == list(range(2, 82))
    assert await people.versions() == {"r1": 81}
    assert sum(shard.snapshot()["conflicts"] for shard in people.shards) > 0


async def test_two_shards_create_the_same_record(people: People) -> None:
    calls = [shard.handle([people.create("r1", name=str(shard))]) for shard in people.shards]
    replies = [reply for (reply,) in await asyncio.gather(*calls)]
    assert sorted(type(reply).__name__ for reply in replies) == ["RecordRefused", "RecordSaved"]
    assert await people.versions() == {"r1": 1}


async def test_a_unique_value_goes_to_one_of_many(people: People) -> None:
    calls = [
        shard.handle([people.create(f"{index}-{n}", email="zoe@example.org")])
        for n in range(10)
        for index, shard in enumerate(people.shards)
    ]
    replies = [reply for (reply,) in await asyncio.gather(*calls)]
    saved = [reply for reply in replies if isinstance(reply, RecordSaved)]
    refused = [reply for reply in replies if isinstance(reply, RecordRefused)]
    assert (len(saved), len(refused)) == (1, 19)
    assert {reply.reason for reply in refused} == {"VALUE_NOT_UNIQUE"}
    assert await people.pool.fetchval("select count(*) from record_unique_values") == 1
    assert len(await people.versions()) == 1


async def test_a_value_that_is_given_up_can_be_taken(people: People) -> None:
    await people.send(people.create("r1", email="zoe@example.org"))
    (refused,) = await people.send(people.create("r2", email="zoe@example.org"))
    assert isinstance(refused, RecordRefused)
    assert refused.problems[0].field == "email"
    await people.send(people.save("r1", email="ann@example.org"))
    assert versions_of(await people.send(people.create("r3", email="zoe@example.org"))) == [1]
    assert await people.versions() == {"r1": 2, "r3": 1}


async def test_several_records_are_written_together_or_not_at_all(people: People) -> None:
    def together(*saves: SaveRecord) -> SaveAllRecords:
        return SaveAllRecords(address=saves[0].address, turn_id=saves[0].turn_id, saves=saves)

    good = together(people.create("r1", name="a"), people.create("r2", name="b"))
    bad = together(people.create("r3", name="a"), people.save("missing", name="b"))
    first, second = await people.send(good, bad)
    assert getattr(first, "are_saved", None) is True
    assert getattr(second, "are_saved", None) is False
    assert await people.versions() == {"r1": 1, "r2": 1}


async def test_a_record_is_never_stored_by_an_outdated_definition(people: People) -> None:
    await people.send(people.create("r1", name="a"))  # the shard knows the collection now

    def rename(row: collections.CollectionRow) -> collections.CollectionRow:
        fields = tuple(field for field in PEOPLE.fields if field.name != "name")
        return dataclasses.replace(row, definition=replace(row.definition, fields=fields))

    await collections.change(
        people.pool, people.tenant, "people", rename, VersionNote(), lambda *_: None
    )
    (reply,) = await people.send(people.save("r1", name="b"))
    assert isinstance(reply, RecordRefused)
    assert await people.versions() == {"r1": 1}


async def test_what_postgres_refuses_is_refused_alone(people: People) -> None:
    bad = people.create("bad", name="nul \x00 here")
    good = [people.create(f"r{n}", name="a") for n in range(50)]
    *saved, refused = await people.send(*good, bad)
    assert versions_of(saved) == [1] * 50
    assert isinstance(refused, RefusedReply)
    assert refused.kind == "broken"
    assert len(await people.versions()) == 50


async def test_an_index_misses_no_record_that_is_written_while_it_is_built(
    people: People,
) -> None:
    """Writers go on all the time, and send records again when the definition has changed."""
    old = await people.send(*(people.create(f"old{n}", name=f"old {n}") for n in range(300)))
    assert versions_of(old) == [1] * 300
    version, rounds, is_done = 1, [0, 0, 0], asyncio.Event()

    async def write(number: int) -> None:
        nonlocal version
        while not is_done.is_set():
            named = {f"r{number}-{n}": f"{rounds[number]} {n}" for n in range(20)}
            saves = [people.save(one, RecordWrite.UPSERT, name=name) for one, name in named.items()]
            sent = [replace(save, definition_version=version) for save in saves]
            for reply in await people.send(*sent):
                if isinstance(reply, RecordRefused):
                    assert reply.refusal is RecordRefusal.COLLECTION_CHANGED
                    version = 2
            rounds[number] += 1

    async def all_have_written() -> None:
        """Return when what was under way is answered, and more."""
        before = list(rounds)
        while any(now < then + 2 for now, then in zip(rounds, before, strict=True)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    def index(row: collections.CollectionRow) -> collections.CollectionRow:
        fields = (replace(PEOPLE.fields[0], indexed=True), *PEOPLE.fields[1:])
        definition = replace(row.definition, fields=fields, slots=assign_slots(fields))
        return dataclasses.replace(row, definition=definition)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for number in range(len(rounds)):
            group.create_task(write(number))
        await all_have_written()
        await collections.change(
            people.pool, people.tenant, "people", index, VersionNote(), lambda *_: None
        )
        await all_have_written()
        await people.pool.execute("update collections set reindex_at = now()")
        assert await Reindexer(people.pool).run() == 1
        is_done.set()
    wrong = await people.pool.fetch(
        "select record_id from records where indexed_1 is distinct from data ->> 'name'"
    )
    assert [row[0] for row in wrong] == []
    assert len(await people.versions()) == 360
