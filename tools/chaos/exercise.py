"""Load, receiver and audit round one instance, and the reconciliation at the end.

Needs an address, a key and a database, so it serves any Muster; breaking it is the caller's part:

    async with run_drill(target, plan) as drill:
        ...break something...
    result = drill.result
"""

import asyncio
import contextlib
import secrets
import time
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
from tools.chaos.reconcile import Reconciliation, by_correlation, must_end, reconcile
from tools.load.tasks import background

_POLL = 0.25


@dataclass(frozen=True, slots=True)
class ChaosTarget:
    """An instance under test: where it is, the key to show, and its database."""

    url: str
    key: str = field(repr=False)
    dsn: str = field(repr=False)

    @property
    def instance(self) -> Instance:
        return Instance(self.url, self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillPlan:
    """How much load, from which seed, and what is asked of it."""

    seed: int
    folder: Path
    """Where the ack log is kept."""
    rate: float = 30.0
    """Correlations a second, each with about four requests."""
    follow_each: int = 8
    floor: int = 100
    """Acknowledged requests without which the run proves nothing."""
    drain_within: float = 60.0
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    def create_ack_log(self) -> AckLog:
        return AckLog.create(self.folder / f"{self.run}.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillResult:
    """The reconciliation, and what the callers met."""

    account: Reconciliation
    stats: CallerStats
    drained_after: float
    """Seconds from the last new correlation until everything had ended and was shown."""
    given_up: int
    """Correlations whose callers were never answered in time."""
    ack_log: Path


class Drill:
    """A running exercise."""

    def __init__(
        self, plan: DrillPlan, ack_log: AckLog, load: LoadGenerator, receiver: StreamFollower
    ) -> None:
        self.plan = plan
        self.ack_log = ack_log
        self.load = load
        self.receiver = receiver
        self.phase = "load"
        self._result: DrillResult | None = None

    @property
    def result(self) -> DrillResult:
        """The result; there is one after the exercise only."""
        if self._result is None:
            raise RuntimeError("the exercise is not over")
        return self._result

    async def conclude(self, audit: DatabaseAudit) -> None:
        """Let everything come to its end, then compare."""
        self.phase = "draining"
        stopped = time.monotonic()
        deadline = stopped + self.plan.drain_within
        given_up = await self.load.finish(self.plan.drain_within)
        await _wait_until_ended(audit, self.ack_log.acks, deadline)
        await self.receiver.finish(max(1.0, deadline - time.monotonic()))
        drained_after = time.monotonic() - stopped
        self.phase = "account"
        self.ack_log.close()
        acks = self.ack_log.acks
        stored = await audit.read(by_correlation(acks))
        self.load.stats.unexpected.update(self.receiver.unexpected)
        self._result = DrillResult(
            account=reconcile(acks, stored, self.receiver.observed, floor=self.plan.floor),
            stats=self.load.stats,
            drained_after=drained_after,
            given_up=given_up,
            ack_log=self.ack_log.path,
        )
        self.phase = "done"


@contextlib.asynccontextmanager
async def run_drill(target: ChaosTarget, plan: DrillPlan) -> AsyncIterator[Drill]:
    """Keep an instance under load for as long as the block lasts; then reconcile."""
    ack_log = plan.create_ack_log()
    try:
        async with (
            connect(target.instance) as callers,
            connect(target.instance) as readers,
            open_database_audit(target.dsn, target.key) as audit,
        ):
            receiver = StreamFollower(readers, each=plan.follow_each)
            load = LoadGenerator(
                callers,
                ack_log,
                run=plan.run,
                seed=plan.seed,
                rate=plan.rate,
                on_registered=receiver.offer,
            )
            drill = Drill(plan, ack_log, load, receiver)
            try:
                async with background(load.generate()):
                    yield drill
                await drill.conclude(audit)
            finally:
                # After a Ctrl-C or a mistake they are still at it.
                await load.finish(within=0)
                await receiver.finish(within=0)
    finally:
        ack_log.close()


async def _wait_until_ended(audit: DatabaseAudit, acks: list[Ack], deadline: float) -> None:
    """Wait until all that must end has ended, or the time is up: the reconciliation will tell."""
    unended = [key for key, some in by_correlation(acks).items() if must_end(some)]
    while unended and time.monotonic() < deadline:
        with contextlib.suppress(*CONNECTION_ERRORS):
            unended = await audit.waiting(unended)
        if unended:
            await asyncio.sleep(_POLL)
