"""Whatever fails and whatever people do: each job is sent, in its order, and none is left."""

import asyncio
from random import Random

import pytest
from structlog.testing import capture_logs

from actors.dispatch.start_queue import PoolLimits
from core.dispatch.attempt import DeliveryAttempt
from core.dispatch.claim import ClaimedJob
from core.dispatch.job import GroupKey, JobKey, JobStatus, Mode, QueueState
from tests.simulation.clockwork import simulate
from tests.unit.actors.dispatch.dispatcher_fixtures import BAD, NO, OK, PoolScenario, later
from tests.unit.actors.dispatch.job_table import BLOCK, NEXT, FakeJobRow, clock

SECONDS = 40


class Chaos:
    """One run, all of whose accidents follow from a number."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.calm = False
        self.position = 0
        self.too_early: list[tuple[JobKey, JobKey]] = []
        limit = self.chance.choice([5, 20, 200, 10_000])
        self.scene = PoolScenario(limit=limit, limits=self._terms(), target_limit=4)
        self.scene.takes = self.chance.choice([0.001, 0.05, 0.5])
        for target in "abc":
            self.scene.scripts[target] = self.answer

    def answer(self, job: ClaimedJob) -> DeliveryAttempt:
        if job.send_no == 1:
            self.check_is_next(self.scene.postgres.rows[JobKey(job.tenant, job.job_id)])
        if self.calm:
            return OK
        return self.chance.choices([OK, BAD, NO, later(2)], [8, 2, 1, 1])[0]

    def check_is_next(self, row: FakeJobRow) -> None:
        """When a job that blocks is first sent, what stands before it is over.

        What has another sequence may have been stored since, and stand before it all the same.
        """
        if row.mode is not BLOCK or row.group is None:
            return
        self.too_early += [
            (row.key, other.key)
            for other in self.scene.postgres.rows.values()
            if (other.group, other.sequence) == (row.group, row.sequence)
            and other.position < row.position
            and other.standing is not QueueState.DONE
        ]

    def some_jobs(self) -> list[FakeJobRow]:
        rows = []
        for _ in range(self.chance.randrange(1, 20)):
            self.position += 1
            mode = self.chance.choice([BLOCK, NEXT, Mode.IMMEDIATE])
            group = self.chance.choice(["x", "y", "z", None])
            rows.append(
                FakeJobRow(
                    self.position,
                    target=self.chance.choice("abc"),
                    mode=mode,
                    group=f"{group}-{mode}" if group else None,
                    timeout=2,
                    sequence=self.chance.choice([99, 99, 99, 5]),
                    scheduled_for=clock() + 3 if self.chance.random() < 0.05 else 0.0,
                )
            )
        return rows

    def act(self) -> None:
        """Something happens."""
        postgres, scene = self.scene.postgres, self.scene
        match self.chance.randrange(8):
            case 0 | 1 | 2:
                scene.post(*self.some_jobs())
            case 3:
                postgres.store(*self.some_jobs())
            case 4:
                postgres.away_until = clock() + self.chance.random() * 2
            case 5:
                postgres.loses_answers = not postgres.loses_answers
            case 6:
                self.see_to_failed()
            case _:
                groups = [GroupKey(1, f"x-{BLOCK}"), GroupKey(1, f"y-{NEXT}")]
                postgres.parked = set(groups[: self.chance.randrange(3)])
                scene.dispatcher.set_limits(self._terms())

    def see_to_failed(self) -> None:
        for row in self.scene.postgres.rows.values():
            if row.standing is QueueState.ERROR:
                row.standing = QueueState.DONE
                if self.chance.random() < 0.5:
                    row.status, row.standing = JobStatus.PENDING, QueueState.UNCLAIMED
                    row.attempts, row.scheduled_for = 0, 0.0

    async def run(self) -> None:
        async with self.scene.running():
            until = clock() + SECONDS
            while clock() < until:
                self.act()
                await asyncio.sleep(self.chance.random())
            self.calm = True
            self.scene.postgres.loses_answers = False
            self.scene.postgres.parked = set()
            self.scene.dispatcher.set_limits(PoolLimits(10))
            await asyncio.sleep(5)  # what failed before is written by then
            self.see_to_failed()
            await self.scene.done(120)
            await asyncio.sleep(5)
            assert self.scene.rounds < 100_000
            told = self.scene.dispatcher.snapshot()
            assert (told["active"], told["unwritten"], told["waiting"]) == (0, 0, 0)

    def _terms(self) -> PoolLimits:
        return PoolLimits(
            self.chance.choice([1, 5, 20]),
            self.chance.choice([None, None, 600, 6_000]),
            is_active=self.chance.random() < 0.9,
        )


def assert_in_order(scene: PoolScenario) -> None:
    """No job of a group was sent for the first time before an earlier one was."""
    rows = {row.key.job_id: row for row in scene.postgres.rows.values()}
    last: dict[tuple[str, int], int] = {}
    for name in dict.fromkeys(scene.sent):
        row = rows[name]
        if row.mode is not Mode.IMMEDIATE and row.group is not None:
            place = (row.group, row.sequence)
            assert last.get(place, 0) < row.position
            last[place] = row.position


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_left(seed: int) -> None:
    async def run() -> None:
        chaos = Chaos(seed)
        await chaos.run()
        assert_in_order(chaos.scene)
        assert chaos.too_early == []
        rows = chaos.scene.postgres.rows.values()
        assert all(row.sends for row in rows)
        # Only what Postgres let go was sent.
        assert len(chaos.scene.sent) <= sum(row.sends for row in rows)

    with capture_logs():
        simulate(run())
