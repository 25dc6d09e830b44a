"""Calls of one resource: in order, not too many at once, nor a minute. Time is simulated."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.gathers.admission import CallPoolLimits, ConcurrencyLimiter
from actors.gathers.resource_limiter import MINUTE, RECENT, ResourceLimiter
from core.gathers.gather import Resource
from core.shared.call_outcome import CallState
from tests.simulation.clockwork import simulate

PLACE = Resource(url="http://one.example", concurrency=1)


@dataclass
class Scene:
    """A lane and what its callers saw."""

    limiter: ResourceLimiter = field(
        default_factory=lambda: ResourceLimiter(_now, ConcurrencyLimiter(CallPoolLimits()), 1)
    )
    came: list[str] = field(default_factory=list)
    began: dict[str, float] = field(default_factory=dict)
    busy: int = 0
    most: int = 0

    async def call(self, name: str, resource: Resource, lasts: float) -> None:
        self.came.append(name)
        async with self.limiter.slot(resource):
            self.began[name] = _now()
            self.busy += 1
            self.most = max(self.most, self.busy)
            try:
                await asyncio.sleep(lasts)
            finally:
                self.busy -= 1

    def begin(self, name: str, resource: Resource, lasts: float = 1.0) -> "asyncio.Task[None]":
        return asyncio.create_task(self.call(name, resource, lasts))


def _now() -> float:
    return asyncio.get_running_loop().time()


def play(story: Callable[[Scene], Awaitable[None]]) -> Scene:
    """Run a story to its end; afterwards the lane must be as it was."""

    async def run() -> Scene:
        scene = Scene()
        await story(scene)
        assert (scene.limiter.under_way, scene.limiter.snapshot()["waiting"]) == (0, 0)
        return scene

    return simulate(run())


def limited(concurrency: int = 1, rate: int | None = None) -> Resource:
    return replace(PLACE, concurrency=concurrency, rate_per_minute=rate)


# Places.


def test_calls_go_in_the_order_they_came() -> None:
    async def story(scene: Scene) -> None:
        await asyncio.gather(*(scene.begin(f"c{n}", limited(1)) for n in range(5)))

    scene = play(story)
    start = scene.began["c0"]
    assert scene.began == {f"c{n}": start + n for n in range(5)}
    assert scene.most == 1


def test_a_free_place_is_no_reason_to_push_in() -> None:
    """Whoever comes at the moment a place becomes free stands behind those who wait."""

    async def story(scene: Scene) -> None:
        first, second = scene.begin("first", limited(1)), scene.begin("second", limited(1))
        first.add_done_callback(lambda _: scene.begin("third", limited(1)))
        await asyncio.gather(first, second)
        await asyncio.sleep(2)

    assert list(play(story).began) == ["first", "second", "third"]


def test_one_who_leaves_the_queue_leaves_its_place_to_the_next() -> None:
    async def story(scene: Scene) -> None:
        first, second, third = (scene.begin(name, limited(1)) for name in ("a", "b", "c"))
        await asyncio.sleep(0.5)
        second.cancel()
        await asyncio.sleep(0)
        assert scene.limiter.snapshot()["waiting"] == 1
        await asyncio.gather(first, third)

    assert list(play(story).began) == ["a", "c"]


def test_one_who_is_let_in_while_it_leaves_gives_the_place_back() -> None:
    async def story(scene: Scene) -> None:
        async with scene.limiter.slot(limited(1)):
            second, third = (scene.begin(name, limited(1)) for name in ("b", "c"))
            await asyncio.sleep(1)
        # The second has been told by now, and is called off before it can go on.
        second.cancel()
        await third

    assert list(play(story).began) == ["c"]


def test_a_broken_call_gives_its_place_back() -> None:
    async def story(scene: Scene) -> None:
        broken = scene.begin("a", limited(1), 100.0)
        waiting = scene.begin("b", limited(1))
        await asyncio.sleep(1)
        broken.cancel()
        await waiting

    scene = play(story)
    assert scene.began["b"] == scene.began["a"] + 1


def test_more_room_lets_those_in_who_wait_already() -> None:
    async def story(scene: Scene) -> None:
        calls = [scene.begin(f"c{n}", limited(1), 10.0) for n in range(3)]
        await asyncio.sleep(1)
        calls.append(scene.begin("c3", limited(3), 10.0))
        await asyncio.gather(*calls)

    scene = play(story)
    start = scene.began["c0"]
    assert scene.began == {"c0": start, "c1": start + 1, "c2": start + 1, "c3": start + 10}


def test_less_room_holds_until_enough_have_left() -> None:
    async def story(scene: Scene) -> None:
        calls = [scene.begin(f"c{n}", limited(3), 1.0 + n) for n in range(3)]
        await asyncio.sleep(0.5)
        calls.append(scene.begin("last", limited(1)))
        await asyncio.gather(*calls)

    scene = play(story)
    assert scene.began["last"] == scene.began["c0"] + 3


_calls = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 20), st.integers(0, 40)), min_size=1, max_size=12
)


@given(st.integers(1, 4), _calls)
@example(2, [(0, 1, 1), (0, 1, 1), (1, 1, 1), (1, 1, 0)])
def test_never_more_at_once_than_there_are_places(
    places: int, calls: list[tuple[int, int, int]]
) -> None:
    """Each comes at its time, lasts for a while, and has its own patience for all of it."""

    async def one(scene: Scene, name: str, call: tuple[int, int, int]) -> None:
        arrival, lasts, patience = call
        await asyncio.sleep(arrival)
        try:
            async with asyncio.timeout(patience):
                await scene.call(name, limited(places), lasts)
        except TimeoutError:
            pass

    async def story(scene: Scene) -> None:
        await asyncio.gather(*(one(scene, f"c{n}", call) for n, call in enumerate(calls)))

    scene = play(story)
    assert scene.most <= places
    assert list(scene.began) == [name for name in scene.came if name in scene.began]


# The rate.


def test_so_many_a_minute_and_still_in_order() -> None:
    async def story(scene: Scene) -> None:
        await asyncio.gather(*(scene.begin(f"c{n}", limited(100, rate=2)) for n in range(7)))

    scene = play(story)
    start = scene.began["c0"]
    assert list(scene.began) == [f"c{n}" for n in range(7)]
    assert [begun - start for begun in scene.began.values()] == [0, 0, 60, 60, 120, 120, 180]


@settings(max_examples=30)
@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 300), st.sampled_from((20, 1000))), max_size=15),
)
def test_no_minute_has_more_starts_than_allowed_whoever_comes_and_goes(
    places: int, rate: int, calls: list[tuple[int, int]]
) -> None:
    async def one(scene: Scene, name: str, arrival: int, patience: int) -> None:
        await asyncio.sleep(arrival)
        try:
            async with asyncio.timeout(patience):
                await scene.call(name, limited(places, rate), 3.0)
        except TimeoutError:
            pass

    async def story(scene: Scene) -> None:
        await asyncio.gather(*(one(scene, f"c{n}", *call) for n, call in enumerate(calls)))

    scene = play(story)
    starts = list(scene.began.values())
    for start in starts:
        assert sum(start <= other < start + MINUTE for other in starts) <= rate


def test_one_who_loses_patience_uses_nothing_up() -> None:
    async def story(scene: Scene) -> None:
        first = scene.begin("a", limited(9, rate=1))
        second, third = (scene.begin(name, limited(9, rate=1)) for name in ("b", "c"))
        await asyncio.sleep(30)
        second.cancel()
        await asyncio.gather(first, third)

    scene = play(story)
    assert scene.began == {"a": scene.began["a"], "c": scene.began["a"] + 60}


def test_a_call_without_a_limit_does_not_wait_and_forgets_nothing() -> None:
    """A resource that comes with a request may have the name of a registered one."""

    async def story(scene: Scene) -> None:
        for name, rate in (("a", 1), ("b", None), ("c", 1)):
            await scene.begin(name, limited(1, rate))

    scene = play(story)
    start = scene.began["a"]
    assert scene.began == {"a": start, "b": start + 1, "c": start + 60}


# What all resources share.


def test_whoever_waits_for_others_has_not_started() -> None:
    """Else those who were held up would start together with those whose minute has come."""

    async def story(scene: Scene) -> None:
        places = ConcurrencyLimiter(CallPoolLimits(places=1))
        await places.take(1, 0)
        scene.limiter = ResourceLimiter(_now, places, 1)
        calls = [scene.begin(f"c{n}", limited(9, rate=1)) for n in range(3)]
        await asyncio.sleep(90)
        assert scene.began == {}
        places.leave(1, 0)
        await asyncio.gather(*calls)
        await places.take(1, 0)

    scene = play(story)
    assert [begun - scene.began["c0"] for begun in scene.began.values()] == [0, 60, 120]


def test_a_shared_place_is_given_back_by_all_who_leave() -> None:
    async def story(scene: Scene) -> None:
        places = ConcurrencyLimiter(CallPoolLimits(places=1))
        scene.limiter = ResourceLimiter(_now, places, 1)
        whole, broken, waiting = (scene.begin(f"c{n}", limited(9), 5.0) for n in range(3))
        await whole
        await asyncio.sleep(1)
        waiting.cancel()
        broken.cancel()
        await asyncio.sleep(0.5)
        await places.take(1, 0)

    assert list(play(story).began) == ["c0", "c1"]


# How it fares.


def counted(*states: CallState) -> ResourceLimiter:
    limiter = ResourceLimiter(lambda: 0.0, ConcurrencyLimiter(CallPoolLimits()), 1)
    for state in states:
        limiter.count(state, 0.5)
    return limiter


def test_calls_are_counted_by_how_they_went() -> None:
    limiter = counted(CallState.OK, CallState.OK, CallState.ERROR)
    assert limiter.snapshot() == {
        "calls": {"ok": 2, "ERROR": 1},
        "seconds": 1.5,
        "under_way": 0,
        "waiting": 0,
        "up": True,
    }


def test_a_resource_is_up_while_most_of_its_latest_calls_are_answered() -> None:
    answers = (CallState.OK, CallState.ACCEPTED, CallState.REJECTED)
    failures = (CallState.TIMEOUT, CallState.CONNECTION_CLOSED, CallState.ERROR)
    assert counted().is_up is None
    assert all(counted(state).is_up is True for state in answers)
    assert all(counted(state).is_up is False for state in failures)
    assert counted(*failures, *answers).is_up is False
    assert counted(*failures, *answers, CallState.OK).is_up is True
    assert counted(*failures * 9, *(CallState.OK,) * 6).is_up is True


def test_old_calls_say_nothing() -> None:
    clock: dict[str, Any] = {"now": 0.0}
    limiter = ResourceLimiter(lambda: clock["now"], ConcurrencyLimiter(CallPoolLimits()), 1)
    limiter.count(CallState.ERROR, 1.0)
    clock["now"] = RECENT - 1
    assert limiter.is_up is False
    clock["now"] = RECENT
    assert limiter.is_up is None
