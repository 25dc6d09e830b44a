"""Jobs that were taken are started soon, or given back."""

from actors.dispatch.start_queue import MAX_WAIT, PoolLimits, StartQueue
from core.dispatch.claim import ClaimedJob
from core.dispatch.job import Kind


class World:
    """A pool whose clock is moved by hand."""

    def __init__(self) -> None:
        self.time = 1_000.0
        self.begun: list[str] = []
        self.given_back: list[str] = []
        self.starter = StartQueue(self._begin, lambda job: self.given_back.append(job.job_id), self)
        self.starter.set_limits(PoolLimits(concurrency=1))

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def chance(self) -> float:
        return 0.5

    def _begin(self, job: ClaimedJob) -> bool:
        self.begun.append(job.job_id)
        return True


def job(name: str) -> ClaimedJob:
    return ClaimedJob(
        tenant=1,
        job_id=name,
        send_no=1,
        attempt_count=0,
        max_retries=3,
        timeout_seconds=30,
        kind=Kind.EVENT,
        code="a:b:c:d",
        target_url="http://127.0.0.1:9/",
        data_only=True,
        created_at=0.0,
    )


async def test_what_is_taken_is_started_when_there_is_a_place() -> None:
    world = World()
    world.starter.put([job("first"), job("second")], world.time)
    world.time += MAX_WAIT
    world.starter.ended(1.0)
    assert world.begun == ["first", "second"]
    world.starter.close()


async def test_a_pool_that_stood_still_starts_nothing_that_may_be_anothers() -> None:
    """Its group may have gone on without it: an old job would come after newer ones."""
    world = World()
    world.starter.put([job("first"), job("second"), job("third")], world.time)
    world.time += 60.0
    world.starter.ended(60.0)
    assert world.begun == ["first"]
    assert world.given_back == ["second", "third"]
    world.starter.close()


async def test_a_claim_that_was_answered_late_is_not_begun() -> None:
    """It is ours from the moment it was asked for."""
    world = World()
    world.starter.put([job("late")], world.time - 60.0)
    assert world.begun == []
    assert world.given_back == ["late"]
    world.starter.close()
