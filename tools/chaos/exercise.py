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
from tools.chaos.ack_log import Ack, AckLog
from tools.chaos.database_audit import DatabaseAudit, open_database_audit
from tools.chaos.load import CallerStats, LoadGenerator
from tools.chaos.receiver import StreamFollower
from tools.chaos.reconcile import CorrelationKey, Reconciliation, must_end, reconcile

_POLL = 0.25


@dataclass(frozen=True, slots=True)
class ChaosTarget:
    """An instance under test: where it is, the key to show, and its database."""

    url: str
    key: str = field(repr=False)
    dsn: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillPlan:
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
class DrillResult:
    """What came of it."""

    account: Reconciliation
    stats: CallerStats
    drained_after: float
    """Seconds from the last new correlation until everything had ended and was shown."""
    given_up: int
    """Correlations whose callers were never answered in time."""
    ledger: Path


class Drill:
    """A running exercise."""

    def __init__(
        self, plan: DrillPlan, ledger: AckLog, load: LoadGenerator, receiver: StreamFollower
    ) -> None:
        self.plan = plan
        self.ledger = ledger
        self.load = load
        self.receiver = receiver
        self.phase = "load"
        self._result: DrillResult | None = None

    @property
    def result(self) -> DrillResult:
        """The outcome; there is one after the exercise only."""
        if self._result is None:
            raise RuntimeError("the exercise is not over")
        return self._result

    async def conclude(self, books: DatabaseAudit) -> None:
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
        kept = await books.read(dict.fromkeys(ack.correlation_key for ack in acks))
        self.load.stats.unexpected.update(self.receiver.unexpected)
        self._result = DrillResult(
            account=reconcile(acks, kept, self.receiver.observed, floor=self.plan.floor),
            stats=self.load.stats,
            drained_after=drained_after,
            given_up=given_up,
            ledger=self.ledger.path,
        )
        self.phase = "done"


@contextlib.asynccontextmanager
async def run_drill(target: ChaosTarget, plan: DrillPlan) -> AsyncIterator[Drill]:
    """Keep an instance under load for as long as the block lasts; then draw up the account."""
    ledger = AckLog.create(plan.folder / f"{plan.run}.jsonl")
    instance = Instance(target.url, target.key)
    try:
        async with (
            connect(instance) as callers,
            connect(instance) as readers,
            open_database_audit(target.dsn, target.key) as books,
        ):
            receiver = StreamFollower(readers, each=plan.follow_each)
            load = LoadGenerator(
                callers,
                ledger,
                run=plan.run,
                seed=plan.seed,
                rate=plan.rate,
                on_registered=receiver.offer,
            )
            drill = Drill(plan, ledger, load, receiver)
            flow = asyncio.create_task(load.generate())
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


async def _until_ended(books: DatabaseAudit, acks: list[Ack], deadline: float) -> None:
    """Wait until all that must end has ended, or the time is up: the account will tell."""
    promised: dict[CorrelationKey, list[Ack]] = defaultdict(list)
    for ack in acks:
        promised[ack.correlation_key].append(ack)
    open_: list[CorrelationKey] = [
        correlation_key for correlation_key, some in promised.items() if must_end(some)
    ]
    while open_ and time.monotonic() < deadline:
        with contextlib.suppress(*CONNECTION_ERRORS):
            open_ = await books.waiting(open_)
        if open_:
            await asyncio.sleep(_POLL)
