"""Load, receiver and books round one instance, and the account at the end.

Needs an address, a key and a database, so it serves any Muster; breaking it is the caller's part:

    async with exercise(target, plan) as drill:
        ...break something...
    result = drill.result
"""

import asyncio
import contextlib
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from cli.shell.client import connect
from cli.shell.instance import Instance
from storage.postgres.pool import CONNECTION_ERRORS
from tools.chaos.ack_log import Ack, Ledger
from tools.chaos.database_audit import Books, open_books
from tools.chaos.load import Load, Tally
from tools.chaos.receiver import Receiver
from tools.chaos.reconcile import Account, Place, compare, must_end

_POLL = 0.25


@dataclass(frozen=True, slots=True)
class Target:
    """An instance under test: where it is, the key to show, and its database."""

    url: str
    key: str = field(repr=False)
    dsn: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much load, from which seed, and what is asked of it."""

    seed: int
    folder: Path
    """Where the ledger is kept."""
    rate: float = 30.0
    """Correlations a second, each with about four requests."""
    follow_each: int = 8
    floor: int = 100
    """Acknowledged requests without which the run proves nothing."""
    drain_within: float = 60.0
    run: str = field(default_factory=lambda: secrets.token_hex(4))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of it."""

    account: Account
    tally: Tally
    drained_after: float
    """Seconds from the last new correlation until everything had ended and was shown."""
    given_up: int
    """Correlations whose callers were never answered in time."""
    ledger: Path


class Drill:
    """A running exercise."""

    def __init__(self, plan: Plan, ledger: Ledger, load: Load, receiver: Receiver) -> None:
        self.plan = plan
        self.ledger = ledger
        self.load = load
        self.receiver = receiver
        self.phase = "load"
        self._result: Result | None = None

    @property
    def result(self) -> Result:
        """The outcome; there is one after the exercise only."""
        if self._result is None:
            raise RuntimeError("the exercise is not over")
        return self._result

    async def conclude(self, books: Books) -> None:
        """Let everything come to its end, then compare."""
        self.phase = "draining"
        stopped = time.monotonic()
        deadline = stopped + self.plan.drain_within
        given_up = await self.load.finish(self.plan.drain_within)
        await _until_ended(books, self.ledger.acks, deadline)
        await self.receiver.finish(max(1.0, deadline - time.monotonic()))
        drained_after = time.monotonic() - stopped
        self.phase = "account"
        self.ledger.close()
        acks = self.ledger.acks
        kept = await books.read(dict.fromkeys(ack.place for ack in acks))
        self.load.tally.unexpected.update(self.receiver.unexpected)
        self._result = Result(
            account=compare(acks, kept, self.receiver.seen, floor=self.plan.floor),
            tally=self.load.tally,
            drained_after=drained_after,
            given_up=given_up,
            ledger=self.ledger.path,
        )
        self.phase = "done"


@contextlib.asynccontextmanager
async def exercise(target: Target, plan: Plan) -> AsyncIterator[Drill]:
    """Keep an instance under load for as long as the block lasts; then draw up the account."""
    ledger = Ledger.create(plan.folder / f"{plan.run}.jsonl")
    instance = Instance(target.url, target.key)
    try:
        async with (
            connect(instance) as callers,
            connect(instance) as readers,
            open_books(target.dsn, target.key) as books,
        ):
            receiver = Receiver(readers, each=plan.follow_each)
            load = Load(
                callers,
                ledger,
                run=plan.run,
                seed=plan.seed,
                rate=plan.rate,
                on_registered=receiver.offer,
            )
            drill = Drill(plan, ledger, load, receiver)
            flow = asyncio.create_task(load.flow())
            try:
                try:
                    yield drill
                finally:
                    flow.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await flow
                await drill.conclude(books)
            finally:
                # After a Ctrl-C or a mistake they are still at it.
                await load.finish(within=0)
                await receiver.finish(within=0)
    finally:
        ledger.close()


async def _until_ended(books: Books, acks: list[Ack], deadline: float) -> None:
    """Wait until all that must end has ended, or the time is up: the account will tell."""
    promised: dict[Place, list[Ack]] = defaultdict(list)
    for ack in acks:
        promised[ack.place].append(ack)
    open_: list[Place] = [place for place, some in promised.items() if must_end(some)]
    while open_ and time.monotonic() < deadline:
        with contextlib.suppress(*CONNECTION_ERRORS):
            open_ = await books.waiting(open_)
        if open_:
            await asyncio.sleep(_POLL)
