"""One seed, one story: clients, shards that crash or have a twin, a network that loses calls.

The shards and the core are the real ones. At the end the clients' notes are compared with what is
committed.
"""

import asyncio
import hashlib
import re
from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec.structs import replace

from actors.waits.shard import Shard
from core.shared.address import Address
from core.shared.config import Config
from core.waits.config import WaitConfig
from core.waits.messages import (
    Cancel,
    Expire,
    Offer,
    OfferReply,
    Reason,
    RefusalKind,
    RefusedReply,
    Register,
    Reply,
    Verdict,
    WaitMessage,
)
from core.waits.spec import Source, encode_spec
from core.waits.state import Wait
from core.waits.strategy import Outcome, Status
from tests.simulation.store import SimStore, Tables, Trouble

CONFIG = Config(dsn="", hot_limit=2, idle_after=0.5, flush_limit=3, early_limit=3)
POLICIES = ("fail", "continue", "continue_with_partial")
_PLACE_IN_MEMORY = re.compile(r" at 0x[0-9a-f]+")


class World:
    """Simulated time and seeded chance."""

    def __init__(self, rng: Random) -> None:
        self.chance = rng.random

    def now(self) -> float:
        """The database's time."""
        return round(asyncio.get_running_loop().time(), 6)

    def monotonic(self) -> float:
        """The same: clocks are not what this simulates."""
        return asyncio.get_running_loop().time()

    def arm_deadlines(self, due: list[tuple[Address, float]]) -> None:
        """The scenario fires deadlines itself."""

    def cancel_calls(self, gathers: list[bytes]) -> None:
        """Nobody makes calls here."""


class Owner:
    """A shard and its loops: can be killed at any await, or left running as a zombie."""

    def __init__(self, story: "Story") -> None:
        story.everyone.append(self)
        store = SimStore(story.tables, story.rng, story.trouble)
        self.shard = Shard(CONFIG, store, World(story.rng))
        # In the order they came: a set's order is another one each time.
        self.calls: dict[asyncio.Task[list[Reply]], None] = {}
        self._loops = [asyncio.create_task(self.shard.run_forever())]

    def kill(self) -> None:
        """As kill -9 does: nothing after this await ever happens."""
        for task in (*self._loops, *self.calls):
            task.cancel()

    async def call(self, messages: list[WaitMessage]) -> list[Reply]:
        """One call of a router; cancelled if the owner dies."""
        task = asyncio.create_task(self.shard.handle(messages))
        self.calls[task] = None
        task.add_done_callback(lambda done: self.calls.pop(done, None))
        return await asyncio.shield(task)


@dataclass
class Story:
    """Everything that one seed makes happen."""

    rng: Random
    tables: Tables = field(default_factory=Tables)
    answers: dict[str, tuple[WaitMessage, Reply]] = field(default_factory=dict)
    owners: list[Owner] = field(default_factory=list)
    everyone: list[Owner] = field(default_factory=list)  # zombies must not be collected
    timed_out: int = 0  # events whose deadline fired in the middle of the trouble

    def __post_init__(self) -> None:
        self.trouble = Trouble(self.rng)

    async def play(self) -> None:
        """Act, let the dust settle, take the account."""
        self.owners = [Owner(self)]
        messages = self.script()
        clients = [asyncio.create_task(self.client(call)) for call in self.calls_of(messages)]
        crashes = asyncio.create_task(self.crash_now_and_then())
        timer = asyncio.create_task(self.fire_deadlines())
        await asyncio.wait_for(asyncio.gather(*clients), 10_000)
        crashes.cancel()
        timer.cancel()
        await self.settle()
        self.take_account(messages)

    def script(self) -> list[WaitMessage]:
        """Registrations, events, repetitions, cancellations: in no order."""
        rng = self.rng
        messages: list[WaitMessage] = []
        for number in range(rng.randint(1, 3)):
            place = Address(1, f"e{rng.randint(0, 1)}", f"c{number}")
            messages.append(self.registration(place, number))
            events = range(rng.randint(1, 5))
            messages.extend(self.offer(place, f"{number}.{index}") for index in events)
            if rng.random() < 0.2:
                messages.append(messages[-1])  # the same event, delivered again
            if rng.random() < 0.15:
                messages.append(Cancel(address=place, turn_id=f"cancel{number}"))
            if rng.random() < 0.2:
                stranger = Address(1, "elsewhere", place.correlation_id)
                messages.append(self.offer(stranger, f"{number}.x"))
        rng.shuffle(messages)
        return messages

    def registration(self, place: Address, number: int) -> Register:
        """A wait with a strategy, a policy and deadlines by chance."""
        rng = self.rng
        config: dict[str, Any] = {
            "apiCall": {"url": "http://x", "required": rng.random() < 0.7},
            "kafkaEvent": {"topic": "t", "required": True, "timeout": rng.choice([0.7, 3, 50])},
            "aggregationStrategy": rng.choice(["all", "any", "required_only", "settled"]),
            "onTimeout": rng.choice(POLICIES),
            "timeout": rng.choice([1, 40, 400]),
        }
        told = rng.choice(["ends", None])
        spec = encode_spec(replace(WaitConfig.model_validate(config).to_spec(), publish=told))
        return Register(address=place, turn_id=f"reg{number}", node_id=f"n{number}", spec=spec)

    def offer(self, place: Address, name: str) -> Offer:
        """An event by one path or the other."""
        source = self.rng.choice([Source.API, Source.KAFKA])
        payload = f'"{place.scoped_id}"'.encode()
        return Offer(
            address=place, turn_id=f"t{name}", event_id=f"ev{name}", source=source, label="t",
            payload=payload,
        )  # fmt: skip

    def calls_of(self, messages: list[WaitMessage]) -> list[list[WaitMessage]]:
        """As routers send them: some alone, some together."""
        left, calls = list(messages), []
        while left:
            size = self.rng.choice([1, 1, 2, 4])
            calls.append(left[:size])
            left = left[size:]
        return calls

    async def client(self, messages: list[WaitMessage]) -> None:
        """A router's caller: asks again, with the same ids, until all of it is answered."""
        await asyncio.sleep(self.rng.random() * 2)
        while messages:
            owner = self.rng.choice(self.owners)  # after a split, either may be asked
            if self.trouble.strikes(0.1):
                self.echo(messages)
            try:
                replies = await asyncio.wait_for(owner.call(messages), 3)
            except (TimeoutError, asyncio.CancelledError):
                await asyncio.sleep(self.rng.random() * 0.1)
                continue
            if self.trouble.strikes(0.1):
                continue  # the answer got lost on its way
            messages = self.note(messages, replies)

    def note(self, messages: list[WaitMessage], replies: list[Reply]) -> list[WaitMessage]:
        """Keep the answers; what is to be asked again."""
        again = []
        for message, reply in zip(messages, replies, strict=True):
            if isinstance(reply, RefusedReply) and reply.kind == "overloaded":
                again.append(message)
            else:
                self.answers[f"{type(message).__name__}{message.turn_id}"] = (message, reply)
        return again

    def echo(self, messages: list[WaitMessage]) -> None:
        """The network delivers a call twice, the second time to whomever; nobody hears the answer.

        The reply of an echo is dropped, so it may fail as it likes.
        """
        ghost = asyncio.create_task(self.rng.choice(self.owners).call(messages))
        ghost.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def fire_deadlines(self) -> None:
        """The timer: reads what is due from the rows and tells an owner, who may die of it."""
        while True:
            now = round(asyncio.get_running_loop().time(), 6)
            ahead = [w.due_at for w in self.tables.waits.values() if w.ending is None]
            for wait in list(self.tables.waits.values()):
                if wait.ending is None and wait.due_at <= now and not self.trouble.strikes(0.1):
                    self.echo([Expire(address=wait.address, turn_id="due", at=wait.due_at)])
            # At the very instant of the next deadline, if that is near: events come then as well.
            naps = [due - now for due in ahead if due > now]
            await asyncio.sleep(min([*naps, 0.05 + self.rng.random() * 0.3]))

    async def crash_now_and_then(self) -> None:
        """Kill an owner, split the ownership, or merge it again."""
        while True:
            await asyncio.sleep(self.rng.random() * 0.4)
            if self.rng.random() < 0.5:
                self.owners.pop(self.rng.randrange(len(self.owners))).kill()
                self.owners.append(Owner(self))
            elif len(self.owners) < 2:
                self.owners.append(Owner(self))
            else:
                # The older one is a zombie from now on: it writes what it has, nobody asks it.
                self.owners.pop(0)
            for owner in self.owners:
                owner.shard.passivate()

    async def settle(self) -> None:
        """No more trouble; stranded events are offered again, all deadlines fire."""
        self.trouble.over = True
        self.timed_out = sum(
            mark.outcome is Outcome.TIMED_OUT
            for wait in self.tables.waits.values()
            for mark in wait.marks
        )
        owner = Owner(self)
        await asyncio.sleep(60)  # zombies finish what they had
        for (key, _), event in list(self.tables.inbox.items()):
            if key in self.tables.waits and event.verdict == "buffered":
                await owner.call([event.to_offer()])
        for wait in list(self.tables.waits.values()):
            await owner.call([Expire(address=wait.address, turn_id="end", at=wait.expires_at)])

    def fingerprint(self) -> str:
        """The same if everything happened the same, down to the last roll of the dice."""
        tables = self.tables
        rows = (tables.waits, tables.log, tables.inbox, tables.outbox)
        told = (*rows, tables.refused_writes, self.answers)
        # What a spec keeps as raw JSON has no form of its own in text, only a place in memory.
        text = _PLACE_IN_MEMORY.sub("", repr((told, self.rng.getstate())))
        return hashlib.sha256(text.encode()).hexdigest()

    def take_account(self, messages: list[WaitMessage]) -> None:
        """Nothing acknowledged is lost, nothing happened twice, nothing got mixed up."""
        assert not self.tables.broken, f"{self.tables.broken[0]} ({len(self.tables.broken)} times)"
        assert len(self.answers) == len({f"{type(m).__name__}{m.turn_id}" for m in messages})
        for wait in self.tables.waits.values():
            self._check_wait(wait)
        for message, reply in self.answers.values():
            self._check_answer(message, reply)

    def _check_wait(self, wait: Wait) -> None:
        assert wait.status is not Status.WAITING, "nobody waits past the deadline"
        told = [event.type for key, event in self.tables.outbox if key == wait.address.key]
        due = [f"muster.correlation.{wait.status}"] if wait.spec.publish else []
        assert told == due, "an end is told once, as it was"
        for index, mark in enumerate(wait.marks):
            deadline = wait.deadline_of(index)
            if mark.outcome is Outcome.TIMED_OUT:
                assert mark.at >= deadline, "nobody is given up early"
            elif mark.outcome is Outcome.RECEIVED:
                assert mark.at < deadline, "what comes after its deadline is late"
                entry = self.tables.log[wait.address.key, mark.event_id]
                assert entry.payload == f'"{wait.address.scoped_id}"'.encode(), "no contamination"

    def _check_answer(self, message: WaitMessage, reply: Reply) -> None:
        key = message.address.key
        broken = isinstance(reply, RefusedReply) and reply.kind is RefusalKind.BROKEN
        assert not broken, "Postgres takes whatever a turn decides"
        if isinstance(message, Register) and not isinstance(reply, RefusedReply):
            assert key in self.tables.waits, "an acknowledged wait is there"
        if not isinstance(message, Offer):
            return
        assert isinstance(reply, OfferReply)
        logged = self.tables.log.get((key, message.event_id))
        parked = self.tables.inbox.get((key, message.event_id))
        if reply.reason is Reason.TOO_MANY_EARLY:
            return
        kept = logged or parked
        assert kept is not None, "an acknowledged event is kept somewhere"
        assert kept.payload, "what was not refused keeps its data"
        if reply.verdict is Verdict.MATCHED:
            marks = self.tables.waits[key].marks
            assert logged is not None
            assert sum(mark.event_id == message.event_id for mark in marks) == 1, "matched once"


async def play(seed: int) -> Story:
    """Run one seed."""
    story = Story(Random(seed))
    await story.play()
    return story
