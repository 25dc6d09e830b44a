"""Whatever fails, comes late or is repeated: each group goes in its order, and nothing is left.

The board need not know all that is stored. Of what it does know, it offers nothing out of turn.
"""

from dataclasses import dataclass, field
from random import Random

import msgspec
import pytest

from core.dispatch.job import GroupKey, JobKey, JobRef, Mode
from core.dispatch.scheduler import JobScheduler

MODES = [Mode.BLOCK_ON_ERROR, Mode.NEXT_ON_ERROR]


@dataclass
class Postgres:
    """What is stored: the jobs that are not over, and what came of each sending."""

    jobs: dict[JobKey, JobRef] = field(default_factory=dict)
    under_way: list[JobKey] = field(default_factory=list)
    over: list[JobKey] = field(default_factory=list)

    def of(self, group: GroupKey | None) -> list[JobRef]:
        return sorted(
            (job for job in self.jobs.values() if job.group_key == group), key=lambda j: j.place
        )

    def before(self, job: JobRef) -> list[JobRef]:
        """What it has to wait for, as `claim_jobs` says."""
        before = [other for other in self.of(job.group_key) if other.place < job.place]
        if job.mode is Mode.BLOCK_ON_ERROR:
            return before
        return [one for one in before if not one.retrying or one.key in self.under_way]


def some_jobs(chance: Random) -> list[JobRef]:
    return [
        JobRef(
            tenant=1,
            job_id=f"j{position}",
            position=position,
            target=f"t{chance.randrange(3)}",
            mode=(mode := chance.choice(MODES)),
            group=f"g{chance.randrange(3)}-{mode}",
            sequence=chance.choice([99, 99, 99, 5]),
            due=chance.choice([0.0, 0.0, 0.0, 4.0]),
        )
        for position in range(chance.randrange(1, 40))
    ]


def look_up(board: JobScheduler, stored: Postgres, now: float) -> None:
    for group in board.stale_groups(10):
        first = stored.of(group)[:3]
        board.settle(group, first, is_all=len(first) < 3, now=now)


def end_one(board: JobScheduler, stored: Postgres, now: float, chance: Random) -> None:
    """One that is under way is over, or is to be sent again."""
    key = stored.under_way.pop(chance.randrange(len(stored.under_way)))
    if chance.random() < 0.4:
        due = now + chance.randrange(1, 5)
        job = stored.jobs[key]
        stored.jobs[key] = msgspec.structs.replace(job, due=due, retrying=True)
        board.retry(key, due, now)
    else:
        del stored.jobs[key]
        stored.over.append(key)
        board.finish(key, now)


@pytest.mark.parametrize("seed", range(300))
def test_groups_keep_their_order_whatever_fails(seed: int) -> None:
    chance = Random(seed)
    board, stored, now = JobScheduler(group_limit=3), Postgres(), 0.0
    pending = some_jobs(chance)
    for _ in range(5_000):
        for job in pending[: chance.randrange(3)]:
            pending.remove(job)
            stored.jobs[job.key] = job
            board.add(job, now)
        if stored.under_way and chance.random() < 0.3:
            end_one(board, stored, now, chance)
        taken = board.take(now, lambda _: True)
        if taken is None:
            if not pending and not stored.jobs:
                break
            now += 1.0
            look_up(board, stored, now)
        elif before := stored.before(stored.jobs[taken.key]):
            assert not all(one.key in board for one in before), "it knew that it is not next"
            board.drop(taken.key, now)
        else:
            stored.under_way.append(taken.key)
    assert not stored.jobs, "something was left"
    assert len(board) == 0
    assert len(set(stored.over)) == len(stored.over)
