"""One seed, one story: clients, shards that crash or have a twin, a network that loses calls.

The shards and the core are the real ones. At the end the clients' notes are compared with what is
committed.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

from actors.shard import Shard
from core.address import Address
from core.config import Config
from core.judgement import Outcome, Status
from core.messages import Cancel, Expire, Judged, Message, Offer, Refused, Register, Reply, Verdict
from core.spec import Source, encode_spec
from core.wait_config import WaitConfig
from tests.simulation.store import SimStore, Tables, Trouble

CONFIG = Config(dsn="", hot_limit=2, idle_after=0.5, flush_limit=3)
POLICIES = ("fail", "continue", "continue_with_partial")


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

    def alarm(self, due: list[tuple[Address, float]]) -> None:
        """The scenario fires deadlines itself."""

    def call_off(self, gathers: list[bytes]) -> None:
        """Nobody makes calls here."""


class Owner:
    """A shard and its loops: can be killed at any await, or left running as a zombie."""

    def __init__(self, story: "Story") -> None:
        story.everyone.append(self)
        store = SimStore(story.tables, story.rng, story.trouble)
        self.shard = Shard(CONFIG, store, World(story.rng))
        # In the order they came: a set's order is another one each time.
        self.calls: dict[asyncio.Task[list[Reply]], None] = {}
        self._loops = [
            asyncio.create_task(self.shard.load_forever()),
            asyncio.create_task(self.shard.write_forever()),
        ]

    def kill(self) -> None:
        """As kill -9 does: nothing after this await ever happens."""
        for task in (*self._loops, *self.calls):
            task.cancel()

    async def call(self, messages: list[Message]) -> list[Reply]:
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
    answers: dict[str, tuple[Message, Reply]] = field(default_factory=dict)
    owners: list[Owner] = field(default_factory=list)
    everyone: list[Owner] = field(default_factory=list)  # zombies must not be collected

    def __post_init__(self) -> None:
        self.trouble = Trouble(self.rng)

    async def play(self) -> None:
        """Act, let the dust settle, take the account."""
        self.owners = [Owner(self)]
        messages = self.script()
        clients = [asyncio.create_task(self.client(message)) for message in messages]
        crashes = asyncio.create_task(self.crash_now_and_then())
        await asyncio.wait_for(asyncio.gather(*clients), 10_000)
        crashes.cancel()
        await self.settle()
        self.take_account(messages)

    def script(self) -> list[Message]:
        """Registrations, events, repetitions, cancellations: in no order."""
        rng = self.rng
        messages: list[Message] = []
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
            "kafkaEvent": {"topic": "t", "required": True, "timeout": rng.choice([3, 50])},
            "aggregationStrategy": rng.choice(["all", "any", "required_only", "settled"]),
            "onTimeout": rng.choice(POLICIES),
            "timeout": rng.choice([1, 40, 400]),
        }
        spec = encode_spec(WaitConfig.model_validate(config).to_spec())
        return Register(address=place, turn_id=f"reg{number}", node_id=f"n{number}", spec=spec)

    def offer(self, place: Address, name: str) -> Offer:
        """An event by one path or the other."""
        source = self.rng.choice([Source.API, Source.KAFKA])
        payload = f'"{place.scoped_id}"'.encode()
        return Offer(
            address=place, turn_id=f"t{name}", event_id=f"ev{name}", source=source, label="t",
            payload=payload,
        )  # fmt: skip

    async def client(self, message: Message) -> None:
        """A router's caller: asks again, with the same ids, until it is answered."""
        await asyncio.sleep(self.rng.random() * 2)
        while True:
            owner = self.rng.choice(self.owners)  # after a split, either may be asked
            if self.trouble.strikes(0.1):
                self.echo(message)
            try:
                reply = (await asyncio.wait_for(owner.call([message]), 3))[0]
            except (TimeoutError, asyncio.CancelledError):
                await asyncio.sleep(self.rng.random() * 0.1)
                continue
            if self.trouble.strikes(0.1):
                continue  # the answer got lost on its way
            if isinstance(reply, Refused) and reply.kind == "overloaded":
                continue
            self.answers[f"{type(message).__name__}{message.turn_id}"] = (message, reply)
            return

    def echo(self, message: Message) -> None:
        """The network delivers a call twice, the second time to whomever; nobody hears the answer.

        The reply of an echo is dropped, so it may fail as it likes.
        """
        ghost = asyncio.create_task(self.rng.choice(self.owners).call([message]))
        ghost.add_done_callback(lambda done: done.cancelled() or done.exception())

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
                owner.shard.rest()

    async def settle(self) -> None:
        """No more trouble; stranded events are offered again, all deadlines fire."""
        self.trouble.over = True
        owner = Owner(self)
        await asyncio.sleep(60)  # zombies finish what they had
        for (key, _), event in list(self.tables.inbox.items()):
            if key in self.tables.waits and event.verdict == "buffered":
                await owner.call([event.to_offer()])
        for wait in list(self.tables.waits.values()):
            await owner.call([Expire(address=wait.address, turn_id="end", at=wait.expires_at)])

    def take_account(self, messages: list[Message]) -> None:
        """Nothing acknowledged is lost, nothing happened twice, nothing got mixed up."""
        assert len(self.answers) == len({f"{type(m).__name__}{m.turn_id}" for m in messages})
        for wait in self.tables.waits.values():
            assert wait.status is not Status.WAITING, "nobody waits past the deadline"
            received = [m for m in wait.marks if m.outcome is Outcome.RECEIVED]
            for mark in received:
                entry = self.tables.log[wait.address.key, mark.event_id]
                assert entry.payload == f'"{wait.address.scoped_id}"'.encode(), "no contamination"
        for message, reply in self.answers.values():
            self._check_answer(message, reply)

    def _check_answer(self, message: Message, reply: Reply) -> None:
        key = message.address.key
        if isinstance(message, Register) and not isinstance(reply, Refused):
            assert key in self.tables.waits, "an acknowledged wait is there"
        if not isinstance(message, Offer):
            return
        assert isinstance(reply, Judged)
        logged = self.tables.log.get((key, message.event_id))
        parked = self.tables.inbox.get((key, message.event_id))
        assert logged or parked, "an acknowledged event is kept somewhere"
        if reply.verdict is Verdict.MATCHED:
            marks = self.tables.waits[key].marks
            assert logged is not None
            assert sum(mark.event_id == message.event_id for mark in marks) == 1, "matched once"


async def play(seed: int) -> Story:
    """Run one seed."""
    story = Story(Random(seed))
    await story.play()
    return story
