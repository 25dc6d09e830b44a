"""Calls made once, within their limits and their time, and told to their correlation."""

import asyncio
import json
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from actors.gathers.admission import CallPoolLimits
from core.shared.address import Address
from core.shared.call_outcome import CallState
from core.waits.state import PENDING
from core.waits.strategy import Outcome, Status
from handlers.http.client import HttpFailure, HttpResponse
from tests.unit.actors.gathers.call_pool_fixtures import (
    ADDRESS,
    DIRECT,
    OK,
    ONE,
    TIMEOUT,
    CallPoolScenario,
    call,
    clock,
    limiter_snapshots,
    run_scenario,
)

# Once.


def test_a_call_that_is_told_twice_is_made_once() -> None:
    async def story(scene: CallPoolScenario) -> None:
        scene.gather("one", "two")
        scene.script[ONE.url] = (1.0, OK)
        one = call()
        answered = scene.begin(one, one)
        assert answered is not None
        assert len(answered) == 1
        assert scene.begin(one) == []
        assert scene.pool.is_known(ADDRESS.key, "one")
        await asyncio.sleep(2)
        assert scene.begin(one) == []
        scene.pool.forget()
        assert scene.pool.is_known(ADDRESS.key, "one")

    assert len(run_scenario(story).sent) == 1


def test_it_is_remembered_until_its_gather_is_over_and_not_made_after_that() -> None:
    async def story(scene: CallPoolScenario) -> None:
        scene.gather("one", "two")
        one = call()
        await scene.ask(one)
        await asyncio.sleep(TIMEOUT)
        scene.pool.forget()
        assert not scene.pool.is_known(ADDRESS.key, "one")
        assert await scene.ask(one) == [CallState.TIMEOUT]

    scene = run_scenario(story)
    assert len(scene.sent) == 1
    assert scene.end["one"]["calls"] == {"accepted": 1}


def test_the_same_resource_in_another_gather_is_another_call() -> None:
    async def story(scene: CallPoolScenario) -> None:
        other = Address(1, "g-2", "g-2")
        scene.gather("one", "two")
        scene.gather("one", "two", address=other)
        await scene.ask(call(), call(address=other), call("two"))
        assert not scene.pool.is_known(other.key, "two")

    assert len(run_scenario(story).sent) == 3


# Limits.


def test_calls_of_one_resource_wait_for_each_other_and_not_for_others() -> None:
    async def story(scene: CallPoolScenario) -> None:
        addresses = [Address(1, f"g-{n}", f"g-{n}") for n in range(4)]
        busy = replace(ONE, concurrency=2)
        scene.script[ONE.url] = (1.0, OK)
        for where in addresses:
            scene.gather("one", "two", address=where)
        free = replace(ONE, url="http://two.example")
        await scene.ask(
            *(call(address=where, resource=busy) for where in addresses),
            *(call("two", free, address=where) for where in addresses),
        )

    scene = run_scenario(story)
    start = scene.began[0]
    begun = {url: [] for url in (ONE.url, "http://two.example")}
    for request, at in zip(scene.sent, scene.began, strict=True):
        begun[request.url].append(at - start)
    assert begun == {ONE.url: [0, 0, 1, 1], "http://two.example": [0, 0, 0, 0]}


def test_the_same_name_of_another_tenant_is_another_resource() -> None:
    async def story(scene: CallPoolScenario) -> None:
        stranger = Address(2, "g-2", "g-2")
        scene.script[ONE.url] = (1.0, OK)
        scene.gather("one")
        scene.gather("one", address=stranger)
        single = replace(ONE, concurrency=1)
        await scene.ask(call(resource=single), call(resource=single, address=stranger))

    scene = run_scenario(story)
    assert scene.began[0] == scene.began[1]


def test_all_calls_together_are_not_more_than_the_pool_may_make() -> None:
    async def story(scene: CallPoolScenario) -> None:
        names = [f"r{n}" for n in range(5)]
        scene.gather(*names)
        scene.script[ONE.url] = (1.0, OK)
        await scene.ask(*(call(name) for name in names))

    scene = run_scenario(story, CallPoolLimits(places=4))
    assert [at - scene.began[0] for at in scene.began] == [0, 0, 1, 1, 2]


# Deadlines.


def test_a_call_that_hangs_ends_with_its_gather_and_counts_against_its_resource() -> None:
    async def story(scene: CallPoolScenario) -> None:
        scene.gather("one", "two")
        scene.script[ONE.url] = (1_000.0, OK)
        begun = clock()
        assert await scene.ask(call()) == [CallState.TIMEOUT]
        assert clock() - begun == pytest.approx(TIMEOUT)
        assert scene.said == []

    row = run_scenario(story).end["one"]
    assert (row["calls"], row["up"], row["seconds"]) == ({"TIMEOUT": 1}, False, TIMEOUT)


def test_a_call_that_never_had_its_turn_counts_against_nobody() -> None:
    async def story(scene: CallPoolScenario) -> None:
        scene.gather("one", "two")
        scene.script[ONE.url] = (1_000.0, OK)
        other = Address(1, "g-2", "g-2")
        single = replace(ONE, concurrency=1)
        await scene.ask(call(resource=single), call(resource=single, address=other))

    scene = run_scenario(story)
    assert len(scene.sent) == 1
    row = scene.end["one"]
    assert (row["calls"], row["under_way"], row["waiting"]) == ({"TIMEOUT": 1}, 0, 0)


# The shard.


def test_while_the_shard_is_away_it_is_told_again_until_it_has_it() -> None:
    async def story(scene: CallPoolScenario) -> None:
        world = scene.gather("one", "two")
        scene.away_until = clock() + 3
        assert await scene.ask(call(resource=DIRECT)) == [CallState.OK]
        assert world.waiting_or_ended.outcomes["one"] is Outcome.RECEIVED

    scene = run_scenario(story)
    assert len(scene.sent) == 1
    assert len({message.turn_id for message in scene.said}) == 1
    assert 3 < len(scene.said) < 20


def test_past_the_deadline_there_is_nobody_left_to_tell() -> None:
    async def story(scene: CallPoolScenario) -> None:
        scene.gather("one", "two")
        scene.away_until = clock() + 1_000
        begun = clock()
        await scene.ask(call(resource=DIRECT))
        assert clock() - begun == pytest.approx(TIMEOUT)
        said = len(scene.said)
        await asyncio.sleep(60)
        assert len(scene.said) == said

    row = run_scenario(story).end["one"]
    assert row["calls"] == {"ok": 1}


# Calling off.


def test_calling_off_stops_what_runs_and_what_waits_and_nothing_else() -> None:
    async def story(scene: CallPoolScenario) -> None:
        other = Address(1, "g-2", "g-2")
        scene.gather("one", "two", "three")
        world = scene.gather("one", address=other)
        scene.script[ONE.url] = (5.0, OK)
        single = replace(ONE, concurrency=1)
        first = scene.begin(
            *(call(name, single) for name in ("one", "two")),
            call(resource=single, address=other),
        )
        assert first is not None
        await asyncio.sleep(1)
        assert scene.pool.cancel_calls([ADDRESS.key, b"unknown"]) == 2
        assert await asyncio.gather(*first[:2]) == [CallState.TIMEOUT] * 2
        assert await first[2] is CallState.ACCEPTED
        assert world.waiting_or_ended.marks[0] != PENDING
        assert scene.pool.cancel_calls([ADDRESS.key]) == 0
        assert scene.begin(call()) == []

    scene = run_scenario(story)
    assert [at - scene.began[0] for at in scene.began] == [0, 0, 1]
    assert [message.address.correlation_id for message in scene.said] == ["g-2"]
    assert scene.end["one"]["under_way"] == 0


def test_closing_stops_everything() -> None:
    async def story(scene: CallPoolScenario) -> None:
        scene.gather("one", "two")
        scene.script[ONE.url] = (100.0, OK)
        scene.begin(call(), call("two"))
        await asyncio.sleep(1)
        assert scene.pool.snapshot()["under_way"] == 2
        await scene.pool.close()
        assert scene.pool.snapshot()["under_way"] == 0

    assert run_scenario(story).said == []


def test_a_call_that_breaks_takes_nothing_else_with_it() -> None:
    async def story(scene: CallPoolScenario) -> None:
        scene.gather("one", "two")
        scene.script["http://broken.example"] = (0.5, RuntimeError("a mistake of ours"))
        broken = replace(ONE, url="http://broken.example", concurrency=1)
        assert await scene.ask(call(resource=broken), call("two")) == [
            CallState.ERROR,
            CallState.ACCEPTED,
        ]

    assert run_scenario(story).end["one"]["under_way"] == 0


# What it holds.


def test_lanes_that_nobody_uses_are_let_go_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.gathers.call_pool.MAX_RESOURCES", 4)

    async def story(scene: CallPoolScenario) -> None:
        names = [f"r{n}" for n in range(6)]
        scene.gather(*names)
        other = Address(1, "g-2", "g-2")
        scene.gather(*names, address=other)
        scene.script["http://slow.example"] = (5.0, OK)
        slow, rare = replace(ONE, url="http://slow.example"), replace(ONE, rate_per_minute=1)
        scene.begin(call("r0", slow), call("r1", rare), call("r1", rare, address=other))
        for name in names[2:]:
            await asyncio.sleep(0.1)
            scene.begin(call(name))
        await asyncio.sleep(0.1)
        scene.pool.forget()
        # One is being called, for one somebody waits; of the others the longest unused go.
        assert list(limiter_snapshots(scene.pool)) == ["r0", "r1", "r5"]
        await scene.pool.close()

    run_scenario(story)


def test_a_gather_ends_when_the_last_of_its_calls_has_been_told() -> None:
    async def story(scene: CallPoolScenario) -> None:
        answers: Sequence[HttpResponse | HttpFailure] = (
            OK,
            HttpResponse(401, b"", "", 0.1),
            HttpFailure(CallState.TIMEOUT, "no answer", 0.1),
        )
        names = ("one", "two", "three")
        world = scene.gather(*names)
        for name, answer in zip(names, answers, strict=True):
            scene.script[f"http://{name}.example"] = (1.0, answer)
        await scene.ask(*(call(n, replace(DIRECT, url=f"http://{n}.example")) for n in names))
        assert world.waiting_or_ended.status is Status.COMPLETED
        assert list(world.waiting_or_ended.outcomes.values()) == [
            "received",
            "rejected",
            "timed_out",
        ]

    run_scenario(story)


def test_one_that_came_with_a_request_shares_nothing_with_a_registered_one() -> None:
    async def story(scene: CallPoolScenario) -> None:
        other = Address(1, "g-2", "g-2")
        scene.gather("one", "two")
        scene.gather("one", "two", address=other)
        scene.script[ONE.url] = (1.0, OK)
        single = replace(ONE, concurrency=1)
        stranger = replace(ONE, url="http://else.example")
        await scene.ask(call(resource=single), call(resource=stranger, address=other, inline=True))

    scene = run_scenario(story)
    assert scene.began[0] == scene.began[1]
    # Names of requests are without number, so nothing is told by them.
    assert scene.end["one"]["calls"] == {"accepted": 1}


def test_what_is_called_off_before_it_is_begun_is_not_begun() -> None:
    async def story(scene: CallPoolScenario) -> None:
        scene.gather("one", "two")
        scene.pool.forget()
        scene.pool.cancel_calls([ADDRESS.key])
        assert scene.begin(call()) == []
        scene.pool.forget()
        assert await scene.ask(call()) == [CallState.ACCEPTED]

    assert len(run_scenario(story).sent) == 1


# What it takes.


def test_beyond_its_bound_it_takes_no_calls_until_others_are_over() -> None:
    async def story(scene: CallPoolScenario) -> None:
        others = [Address(1, f"g-{n}", f"g-{n}") for n in range(3)]
        for where in others:
            scene.gather("one", "two", address=where)
        scene.script[ONE.url] = (5.0, OK)
        first, second, third = ((call(address=a), call("two", address=a)) for a in others)
        assert scene.begin(*first) is not None
        assert scene.begin(*second) is not None
        assert scene.begin(*third) is None
        assert not scene.pool.is_known(others[2].key, "one")
        assert not scene.pool.has_room(1)
        assert scene.begin(*first) == []  # what it has already needs no room
        await asyncio.sleep(6)
        assert scene.begin(*third) is not None
        await asyncio.sleep(6)

    assert len(run_scenario(story, CallPoolLimits(queue=8)).sent) == 6


def test_all_who_are_called_are_told_the_context_that_came_once() -> None:
    async def story(scene: CallPoolScenario) -> None:
        scene.gather("one", "two")
        scene.begin(call(), call("two"), context=b'{"case": 7}')
        await asyncio.sleep(1)

    told = [json.loads(request.body) for request in run_scenario(story).sent]
    assert [(one["resource"], one["context"]) for one in told] == [
        ("one", {"case": 7}),
        ("two", {"case": 7}),
    ]


def test_one_tenant_that_asks_without_end_leaves_the_others_their_places() -> None:
    async def story(scene: CallPoolScenario) -> None:
        names = [f"r{n}" for n in range(20)]
        other = Address(2, "g-2", "g-2")
        scene.gather(*names)
        scene.gather("one", address=other)
        scene.script[ONE.url] = (5.0, OK)
        scene.begin(*(call(name) for name in names))
        await asyncio.sleep(1)
        assert len(scene.sent) == 2
        scene.begin(call(address=other))
        await asyncio.sleep(1)
        assert len(scene.sent) == 3
        await scene.pool.close()

    run_scenario(story, CallPoolLimits(places=4))
