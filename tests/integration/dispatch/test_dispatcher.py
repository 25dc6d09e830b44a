"""A dispatch pool with real Postgres and real receivers: all of it, once, in order, in time."""

import asyncio
import random
import time
from collections.abc import Callable

import pytest

from core.dispatch.job import Mode
from core.dispatch.job_actions import JobAction
from tests.support.pool_at_work import OK, ReceivedRequest, busiest, deferred, numbers
from tests.support.scenario_runner import ScenarioRunner, Scenarios

story = Scenarios()
BLOCK, NEXT = Mode.BLOCK_ON_ERROR, Mode.NEXT_ON_ERROR


async def test_a_rate_is_kept_used_and_changed(runner: ScenarioRunner) -> None:
    """Without company, because here times matter."""
    shop = await runner.open_tenant("rated", rate_limit=600, concurrency=50)
    async with shop.working() as actor:
        await shop.post([0], actor)
        await shop.done()
        await shop.post(range(1, 200), actor)
        await shop.until(lambda: len(shop.came) >= 81, 15)
        took = shop.came[80].at - shop.came[1].at
        # On a busy machine some requests come later than they started, and closer together: the
        # rate shows over all of them, and nothing comes in a crowd of fifty.
        assert 79 * 0.1 - 0.5 < took < 79 * 0.1 / 0.98 + 0.5
        assert busiest(shop.came, 0.95) <= 15
        await shop.change(rate_limit=None, concurrency=5)
        await shop.done(9)  # at the rate before it would be twelve
        shop.hooks.takes[shop.path] = 0.05
        await shop.post(range(200, 260), actor)
        await shop.done()
        assert shop.hooks.most[shop.path] == 5
        shop.hooks.most.clear()
        await shop.change(concurrency=2)
        await shop.until(lambda: actor._dispatcher.limits.concurrency == 2)
        await shop.post(range(300, 320), actor)
        await shop.done()
        assert shop.hooks.most[shop.path] == 2
    assert sorted(numbers(shop.came)) == [*range(260), *range(300, 320)]


# Those that wait longest come first.


@story
async def a_broken_target_is_left_alone_and_tried_by_the_first_of_its_group(
    runner: ScenarioRunner,
) -> None:
    shop = await runner.open_tenant("broken", concurrency=10)
    shop.answers(lambda _: (500, {}))
    async with shop.working() as actor:
        await shop.post(range(10), actor, max_retries=100)

        async def is_left_alone() -> bool:
            told = await actor.breakers(shop.tenant)
            return bool(told) and told[0]["state"] == "OPEN"

        await shop.until(is_left_alone)
        await asyncio.sleep(0.2)
        spent = len(shop.came)
        ids = await shop.post(
            range(100, 106), actor, message_group="g", mode=BLOCK, sequence=1, max_retries=100
        )
        await asyncio.sleep(1.0)
        assert len(shop.came) == spent
        (told,) = await actor.breakers(shop.tenant)
        assert told["target"] + "/" == shop.hooks.url("")
        shop.answers(lambda _: OK)
        others = await shop.post(
            range(200, 210), actor, target_url=shop.hooks.url("broken-elsewhere", "localhost")
        )
        await shop.until(lambda: len(shop.hooks.came("broken-elsewhere")) == 10, 3)
        await shop.done(20)
    grouped = [number for number in numbers(shop.came) if 100 <= number < 200]
    assert grouped == list(range(100, 106))
    assert [len(await shop.attempts(one)) for one in ids] == [1] * 6
    assert [await shop.status(one) for one in others] == ["COMPLETED"] * 10


@story
async def an_owner_dies_and_what_it_had_is_sent_again(runner: ScenarioRunner) -> None:
    shop = await runner.open_tenant("orphans", concurrency=10)
    shop.hooks.takes[shop.path] = 30.0
    async with shop.working() as first:
        await shop.post(range(5), first)
        await shop.post(range(10, 15), first, message_group="g", mode=BLOCK)
        await shop.until(lambda: len(shop.came) == 6)
    shop.hooks.takes.clear()
    lost = {one.job_id: one.headers for one in shop.came}
    await shop.database.execute(
        "update dispatch_jobs set lease_until = now() + interval '2 seconds'"
        " where tenant_id = $1 and status = 'IN_PROGRESS'",
        shop.tenant,
    )
    async with shop.working() as second:
        await asyncio.sleep(1.0)
        assert len(shop.came) == 6
        await shop.done(20)
        assert second._dispatcher.snapshot()["completed"] == 10
    again = shop.came[6:]
    assert sorted(one.job_id for one in again if one.job_id in lost) == sorted(lost)
    assert [n for n in numbers(again) if n >= 10] == list(range(10, 15))
    for job_id in lost:
        (attempt,) = await shop.attempts(job_id)
        assert (attempt.send_no, attempt.attempt_number) == (2, 1)


# Once, and with a record.


@story
async def everything_is_delivered_once_with_its_attempt(runner: ScenarioRunner) -> None:
    shop = await runner.open_tenant("plain", concurrency=20)
    found = await shop.post(range(50))  # nobody tells the pool
    async with shop.working() as actor:
        told = await shop.post(range(50, 300), actor)
        await shop.done()
        stats = (await actor.report())["stats"]
    assert sorted(numbers(shop.came)) == list(range(300))
    assert shop.hooks.most[shop.path] <= 20
    assert stats["completed"] == 300
    for job_id in (*found[:5], *told[:5]):
        (attempt,) = await shop.attempts(job_id)
        assert (attempt.status, attempt.response_code, attempt.attempt_number) == (
            "SUCCESS",
            200,
            1,
        )
    row = await shop.database.fetchrow(
        "select count(*) filter (where status = 'COMPLETED' and standing = 'done'"
        " and attempt_count = 1 and completed_at is not null and owner is null) as good,"
        " count(*) as jobs from dispatch_jobs where tenant_id = $1",
        shop.tenant,
    )
    assert row is not None
    assert tuple(row) == (300, 300)


@story
async def a_send_that_raises_is_a_failed_attempt(runner: ScenarioRunner) -> None:
    shop = await runner.open_tenant("raising")
    async with shop.working() as actor:

        async def crash(_: object) -> None:
            raise RuntimeError("a bug")

        services = actor._dispatcher._deliveries._services
        send, services.send = services.send, crash
        (job_id,) = await shop.post([1], actor, max_retries=2)

        async def was_tried() -> bool:
            return len(await shop.attempts(job_id)) == 1

        await shop.until(was_tried)
        services.send = send
        await shop.done()
    first, second = await shop.attempts(job_id)
    assert (first.status, first.error_type) == ("CONNECTION_ERROR", "TRANSIENT")
    assert "RuntimeError" in (first.error_message or "")
    assert second.status == "SUCCESS"
    assert len(shop.came) == 1


# Order.


def unreliable(seed: int) -> Callable[[ReceivedRequest], tuple[int, object]]:
    """Defers a third of all jobs once or twice."""
    chance, left = random.Random(seed), {}

    def answer(arrival: ReceivedRequest) -> tuple[int, object]:
        patience = left.setdefault(arrival.job_id, chance.choice([0, 0, 0, 0, 1, 2]))
        left[arrival.job_id] = patience - 1
        return OK if patience <= 0 else deferred()

    return answer


@story
async def groups_that_block_keep_their_order(runner: ScenarioRunner) -> None:
    shop = await runner.open_tenant("blocking", concurrency=20)
    shop.answers(unreliable(1))
    async with shop.working() as actor:
        for group in range(12):
            await shop.post(
                range(group * 100, group * 100 + 8), actor, message_group=f"g{group}", mode=BLOCK
            )
        await shop.done(40)
    for group in range(12):
        own = [n for n in numbers(shop.came) if n // 100 == group]
        assert own == sorted(own)
        assert len(set(own)) == 8
    assert len(shop.came) > 96


@story
async def groups_that_do_not_block_are_tried_in_order(runner: ScenarioRunner) -> None:
    shop = await runner.open_tenant("passing", concurrency=20)
    shop.answers(unreliable(2))
    async with shop.working() as actor:
        for group in range(12):
            await shop.post(
                range(group * 100, group * 100 + 10), actor, message_group=f"g{group}", mode=NEXT
            )
        await shop.done(30)
    for group in range(12):
        own = [n for n in numbers(shop.came) if n // 100 == group]
        assert list(dict.fromkeys(own)) == [group * 100 + at for at in range(10)]


@story
async def a_board_smaller_than_the_backlog_and_a_group_larger_than_its_share(
    runner: ScenarioRunner,
) -> None:
    shop = await runner.open_tenant("crowded", concurrency=20)
    await shop.post(range(300), message_group="large", mode=BLOCK)
    for group in range(5):
        first = 1_000 * (group + 1)
        await shop.post(range(first, first + 40), message_group=f"g{group}", mode=BLOCK)
    async with shop.working(dispatch_buffer=60) as actor:
        await shop.post(range(300, 350), actor, message_group="large", mode=BLOCK)
        await shop.done(40)
    came = numbers(shop.came)
    assert [n for n in came if n < 1_000] == list(range(350))
    for group in range(5):
        first = 1_000 * (group + 1)
        own = [n for n in came if first <= n < first + 1_000]
        assert own == list(range(first, first + 40))


@story
async def two_owners_send_nothing_twice_and_keep_the_order(runner: ScenarioRunner) -> None:
    shop = await runner.open_tenant("twins", concurrency=10)
    shop.hooks.takes[shop.path] = 0.005
    async with shop.working() as first, shop.working() as second:
        for at in range(0, 200, 20):
            actor = (first, second)[at // 20 % 2]
            await shop.post(range(at, at + 20), actor, message_group=f"g{at % 3}", mode=BLOCK)
            await shop.post(range(1_000 + at, 1_020 + at), actor)
        await shop.done(40)
        shares = [one._dispatcher.snapshot()["completed"] for one in (first, second)]
    came = numbers(shop.came)
    assert sorted(came) == [*range(200), *range(1_000, 1_200)]
    for group in range(3):
        own = [n for n in came if n < 1_000 and n // 20 * 20 % 3 == group]
        assert own == sorted(own)
    assert sum(shares) == 400
    assert min(shares) > 0


# In time.


@story
async def jobs_come_not_before_their_time_and_not_after_it(runner: ScenarioRunner) -> None:
    shop = await runner.open_tenant("timed")
    async with shop.working() as actor:
        now: float = await shop.database.fetchval("select extract(epoch from now())::float8")
        began = time.monotonic()
        await shop.post([1], actor, scheduled_for=now + 1.5)
        await shop.post([2], scheduled_for=now + 1.5)
        late = await shop.post([3], actor, scheduled_for=now + 1.5, expires_at=now + 0.5)
        await shop.post([4], actor, expires_at=now + 60)
        await shop.done()
    times = {one.number: one.at - began for one in shop.came}
    assert sorted(times) == [1, 2, 4]
    assert 1.2 < times[1] < 10
    assert 1.2 < times[2] < 10
    assert times[4] < min(times[1], times[2])
    assert await shop.status(late[0]) == "EXPIRED"
    assert await shop.attempts(late[0]) == []


@story
async def what_is_past_its_time_ends_behind_a_job_that_blocks(runner: ScenarioRunner) -> None:
    shop = await runner.open_tenant("expiring")
    shop.answers(lambda arrival: (400, {}) if arrival.number == 1 else (200, {}))
    async with shop.working() as actor:
        now: float = await shop.database.fetchval("select extract(epoch from now())::float8")
        (failing,) = await shop.post([1], actor, message_group="g", mode=BLOCK)
        (late,) = await shop.post([2], actor, expires_at=now + 1, message_group="g", mode=BLOCK)
        (last,) = await shop.post([3], actor, message_group="g", mode=BLOCK)

        async def is_expired() -> bool:
            return await shop.status(late) == "EXPIRED"

        await shop.until(is_expired, 10)
        assert await shop.status(failing) == "ERROR"
        assert await shop.status(last) == "QUEUED", "what blocks still blocks"
        assert (await actor.report())["stats"]["expired"] == 1
        await shop.do(JobAction.IGNORE, failing)
        await shop.done(10)
        assert numbers(shop.came) == [1, 3]
        assert await shop.attempts(late) == []


@story
async def a_head_that_waits_to_be_tried_again_does_not_outlive_its_time(
    runner: ScenarioRunner,
) -> None:
    shop = await runner.open_tenant("impatient")
    shop.answers(lambda arrival: deferred(60) if arrival.number == 1 else (200, {}))
    async with shop.working() as actor:
        now: float = await shop.database.fetchval("select extract(epoch from now())::float8")
        (head,) = await shop.post([1], actor, expires_at=now + 1.5, message_group="g", mode=BLOCK)
        await shop.post([2], actor, message_group="g", mode=BLOCK)
        await shop.done(10)
        assert await shop.status(head) == "EXPIRED"
        assert numbers(shop.came) == [1, 2]


# Targets.


@story
async def a_target_has_so_many_and_others_go_past_it(runner: ScenarioRunner) -> None:
    shop = await runner.open_tenant("narrow", concurrency=10)
    shop.hooks.takes |= {shop.path: 0.2, "narrow-other": 0.2}
    async with shop.working(target_limit=2) as actor:
        await shop.post(range(10), actor)
        await shop.post(range(10), actor, target_url=shop.hooks.url("narrow-other", "localhost"))
        await shop.done()
    narrow, other = (shop.hooks.came(path) for path in (shop.path, "narrow-other"))
    assert other[0].at < narrow[-1].at
    assert [shop.hooks.most[path] for path in (shop.path, "narrow-other")] == [2, 2]


@pytest.mark.parametrize("name", story)
async def test_story(runner: ScenarioRunner, name: str) -> None:
    await runner.play(story)[name]
