"""One seed, one story of records: clients, shards that crash or have a twin, lost calls.

The shards, the transitions and the core are the real ones. At the end what clients were told is
compared with what is committed.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from msgspec.structs import replace

from actors.entities.entity_host import EntityParts
from actors.waits.shard import Shard
from core.records.collection import CollectionDefinition
from core.records.field import FieldDefinition, FieldType
from core.records.messages import (
    RecordMessage,
    RecordReplies,
    RecordReply,
    RecordSaved,
    RecordWrite,
    SaveAllRecords,
    SaveRecord,
)
from core.records.record import Collection, RecordAddress
from core.waits.messages import RefusedReply
from services.records.record_transitions import record_transitions
from tests.simulation.record_store import RecordStore, RecordTables
from tests.simulation.scenario import CONFIG, World
from tests.simulation.store import SimStore, Tables, Trouble

TENANT, PEOPLE = 1, 1
COLLECTION = Collection(
    tenant=TENANT,
    collection_no=PEOPLE,
    collection_id="people",
    definition=CollectionDefinition(
        name="people",
        fields=(
            FieldDefinition(name="name", type=FieldType.STRING),
            FieldDefinition(name="email", type=FieldType.EMAIL, unique=True),
        ),
    ),
)
TRANSITIONS = record_transitions()


class RecordOwner:
    """A shard and its loops: can be killed at any await, or left running as a zombie."""

    def __init__(self, story: "RecordStory") -> None:
        story.everyone.append(self)
        tables = RecordStore(story.tables, story.rng, story.trouble)
        parts = EntityParts(tables, TRANSITIONS, story.new_id)
        waits = SimStore(Tables(), story.rng, story.trouble)
        self.shard = Shard(CONFIG, waits, World(story.rng), parts)  # type: ignore[arg-type]
        # In the order they came: a set's order is another one each time.
        self._calls: dict[asyncio.Task[list[Any]], None] = {}
        self._loops = asyncio.create_task(self.shard.run_forever())

    def kill(self) -> None:
        for task in (self._loops, *self._calls):
            task.cancel()

    async def call(self, messages: Sequence[RecordMessage]) -> list[Any]:
        """One call of a client; cancelled if the owner dies."""
        task = asyncio.create_task(self.shard.handle(messages))
        self._calls[task] = None
        task.add_done_callback(lambda done: self._calls.pop(done, None))
        return await asyncio.shield(task)


@dataclass
class RecordStory:
    """Everything that one seed makes happen."""

    rng: Random
    echoes: bool = True
    """Whether the same message comes twice at a time."""
    tables: RecordTables = field(default_factory=lambda: RecordTables(COLLECTION))
    answers: dict[str, tuple[RecordMessage, RecordReply]] = field(default_factory=dict)
    owners: list[RecordOwner] = field(default_factory=list)
    everyone: list[RecordOwner] = field(default_factory=list)  # zombies must not be collected

    def __post_init__(self) -> None:
        self.trouble = Trouble(self.rng)
        self._ids = count()

    def new_id(self) -> str:
        return f"id{next(self._ids):09}"

    async def play(self) -> None:
        """Act, let the dust settle, take the account."""
        self.owners = [RecordOwner(self)]
        messages = self.script()
        clients = [asyncio.create_task(self.client(call)) for call in self.calls_of(messages)]
        crashes = asyncio.create_task(self.crash_now_and_then())
        await asyncio.wait_for(asyncio.gather(*clients), 10_000)
        crashes.cancel()
        self.trouble.over = True
        await asyncio.sleep(60)  # zombies finish what they had
        self.take_account(messages)

    def script(self) -> list[RecordMessage]:
        """Creations, changes, deletions, several at once, repetitions: in no order."""
        rng = self.rng
        messages: list[RecordMessage] = []
        for number in range(rng.randint(3, 12)):
            message: RecordMessage = self.save(f"t{number}")
            if rng.random() < 0.3:
                saves = [self.save(f"t{number}.{part}", f"r{part}") for part in range(2)]
                message = SaveAllRecords(
                    address=saves[0].address, turn_id=f"t{number}", saves=tuple(saves)
                )
            messages.append(message)
            if self.echoes and rng.random() < 0.2:
                # Its id comes from a caller who sends it twice.
                messages[-1] = replace(message, resent=True)
                messages.append(messages[-1])
        rng.shuffle(messages)
        return messages

    def save(self, turn_id: str, record_id: str | None = None) -> SaveRecord:
        rng = self.rng
        fields: dict[str, Any] = {"name": turn_id}
        if rng.random() < 0.5:
            fields["email"] = rng.choice(["a@x.org", "b@x.org", None])
        write = rng.choice([RecordWrite.UPSERT] * 6 + [RecordWrite.CREATE, RecordWrite.DELETE])
        return SaveRecord(
            address=RecordAddress(TENANT, PEOPLE, record_id or f"r{rng.randint(0, 2)}"),
            turn_id=turn_id,
            write=write,
            definition_version=1,
            fields={} if write is RecordWrite.DELETE else fields,
            fresh=write is RecordWrite.CREATE,
        )

    def calls_of(self, messages: list[RecordMessage]) -> list[list[RecordMessage]]:
        left, calls = list(messages), []
        while left:
            size = self.rng.choice([1, 1, 2, 4])
            calls.append(left[:size])
            left = left[size:]
        return calls

    async def client(self, messages: list[RecordMessage]) -> None:
        """A caller that asks again, with the same ids, until all of it is answered."""
        await asyncio.sleep(self.rng.random() * 2)
        while messages:
            owner = self.rng.choice(self.owners)  # after a split, either may be asked
            if self.echoes and self.trouble.strikes(0.1):
                messages = resent(messages)
                self.echo(messages)
            try:
                replies = await asyncio.wait_for(owner.call(messages), 3)
            except (TimeoutError, asyncio.CancelledError):
                await asyncio.sleep(self.rng.random() * 0.1)
                messages = resent(messages)
                continue
            if self.trouble.strikes(0.1):
                messages = resent(messages)
                continue  # the answer got lost on its way
            messages = self.note(messages, replies)

    def note(
        self, messages: list[RecordMessage], replies: list[RecordReply | RefusedReply]
    ) -> list[RecordMessage]:
        """Keep the answers; return what is to be asked again."""
        again = []
        for message, reply in zip(messages, replies, strict=True):
            if isinstance(reply, RefusedReply):
                assert reply.is_transient, "Postgres takes whatever a turn decides"
                again.append(message)
            else:
                self.answers[message.turn_id] = (message, reply)
        return again

    def echo(self, messages: list[RecordMessage]) -> None:
        """A client gives up too early and sends a call twice; nobody hears the second answer."""
        ghost = asyncio.create_task(self.rng.choice(self.owners).call(messages))
        ghost.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def crash_now_and_then(self) -> None:
        """Kill an owner, split the ownership, or merge it again."""
        while True:
            await asyncio.sleep(self.rng.random() * 0.4)
            if self.rng.random() < 0.5:
                self.owners.pop(self.rng.randrange(len(self.owners))).kill()
                self.owners.append(RecordOwner(self))
            elif len(self.owners) < 2:
                self.owners.append(RecordOwner(self))  # two that know nothing of each other
            else:
                self.owners.pop(self.rng.randrange(2))  # a zombie: it goes on with what it has

    def fingerprint(self) -> str:
        """The same if everything happened the same, down to the last roll of the dice."""
        told = (self.tables.entities, self.tables.changes, self.tables.lost, self.answers)
        text = repr((told, self.rng.getstate()))
        return hashlib.sha256(text.encode()).hexdigest()

    def take_account(self, messages: list[RecordMessage]) -> None:
        """Nothing acknowledged is lost, nothing happened twice, nothing by halves."""
        self.tables.check_all()
        assert self.answers.keys() == {message.turn_id for message in messages}
        stored = {row.turn_id for row in self.tables.changes}
        for message, reply in self.answers.values():
            if isinstance(message, SaveAllRecords):
                assert isinstance(reply, RecordReplies)
                done = {save.turn_id in stored for save in message.saves}
                assert len(done) == 1, "several records are saved together or not at all"
                # What was refused may be saved by a call that the network delivers later.
                assert done == {True} or not reply.are_saved, "what is acknowledged is stored"
            elif isinstance(reply, RecordSaved):
                assert message.turn_id in stored, "what is acknowledged is stored"


def resent(messages: list[RecordMessage]) -> list[RecordMessage]:
    """As the client of the shards marks them: they may have been handled before."""
    return [replace(message, resent=True) for message in messages]


async def play_records(seed: int, *, echoes: bool = True) -> RecordStory:
    """Run one seed."""
    story = RecordStory(Random(seed), echoes)
    await story.play()
    return story
