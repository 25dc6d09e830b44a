"""Subscriptions that fail for too long are noticed, with few questions to Postgres."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from actors.dispatch.subscription_health import (
    MAX_SUBSCRIPTIONS,
    MIN_FAILURES,
    SubscriptionHealthMonitor,
    SubscriptionRef,
)
from core.dispatch.attempt import DeliveryAttempt, read_answer
from tests.simulation.clockwork import simulate
from tests.support.deliveries import delivery, task
from tests.unit.actors.dispatch.dispatcher_fixtures import BAD, NO, OK, later
from tests.unit.actors.dispatch.job_table import clock

PATIENCE = 3_600.0
GONE = read_answer(410, {}, b"", 0.0)
KEY = (1, "sub_0SUB000000001")


class Scene:
    """A watch, and what it has had written."""

    def __init__(self) -> None:
        self.said: list[tuple[str, SubscriptionRef]] = []
        self.since: dict[SubscriptionRef, float | None] = {KEY: None}
        self.is_away = False
        self.reasons: list[tuple[str, int | None]] = []
        self.watch = SubscriptionHealthMonitor(
            self.failing, self.well, self.disable, clock, PATIENCE
        )

    async def failing(self, keys: list[SubscriptionRef]) -> dict[SubscriptionRef, float]:
        (key,) = keys
        self._say("failing", key)
        if key not in self.since:
            return {}
        since = self.since[key] = self.since[key] or clock()
        return {key: clock() - since}

    async def well(self, keys: list[SubscriptionRef]) -> None:
        (key,) = keys
        self._say("well", key)
        self.since[key] = None

    async def disable(self, key: SubscriptionRef, reason: str, version: int | None) -> None:
        self.reasons.append((reason, version))
        self._say("disabled", key)

    def _say(self, word: str, key: SubscriptionRef) -> None:
        if self.is_away:
            raise ConnectionRefusedError
        self.said.append((word, key))

    async def see(self, *sent: DeliveryAttempt, **fields: Any) -> None:
        for one in sent:
            self.watch.record_delivery(delivery(**fields), one)
        await asyncio.sleep(0.01)

    @property
    def words(self) -> list[str]:
        return [word for word, _ in self.said]


def play(story: Callable[[Scene], Awaitable[None]]) -> Scene:
    async def run() -> Scene:
        scene = Scene()
        running = asyncio.create_task(scene.watch.run_forever())
        await story(scene)
        assert not running.done()
        return scene

    with capture_logs():
        return simulate(run())


def test_what_stays_as_it_is_is_not_written_again() -> None:
    async def story(scene: Scene) -> None:
        await scene.see(*[OK] * 100)
        await scene.see(*[OK] * 100)
        await scene.see(*[BAD] * 100)
        await scene.see(*[NO] * 100)
        await scene.see(OK)

    assert play(story).words == ["well", "failing", "well"]


def test_one_that_fails_for_too_long_is_paused_once() -> None:
    async def story(scene: Scene) -> None:
        await scene.see(*[BAD] * MIN_FAILURES)
        await asyncio.sleep(PATIENCE - 1)
        await scene.see(BAD)
        assert scene.words == ["failing"]
        await asyncio.sleep(2)
        await scene.see(BAD)

    assert play(story).words == ["failing", "failing", "disabled"]


def test_one_that_is_seldom_used_is_not_judged_by_two_failures() -> None:
    async def story(scene: Scene) -> None:
        await scene.see(BAD)
        await asyncio.sleep(PATIENCE + 1)
        await scene.see(BAD)

    assert "disabled" not in play(story).words


def test_what_another_pool_has_seen_counts() -> None:
    async def story(scene: Scene) -> None:
        await scene.see(BAD)
        await asyncio.sleep(PATIENCE)
        scene.since[KEY] = clock() - 5  # it was well in between, and it was not told here
        await scene.see(BAD)
        assert scene.words == ["failing", "failing"]
        await asyncio.sleep(PATIENCE - 10)
        await scene.see(BAD)
        assert scene.words == ["failing", "failing"]

    play(story)


@pytest.mark.parametrize("sent", [later(5), None])
def test_a_receiver_that_asks_for_patience_is_neither_well_nor_ill(
    sent: DeliveryAttempt | None,
) -> None:
    async def story(scene: Scene) -> None:
        scene.watch.record_delivery(delivery(), sent)
        scene.watch.record_delivery(task(), BAD)  # has no subscription
        await asyncio.sleep(0.01)

    assert play(story).words == []


def test_one_that_is_gone_is_forgotten() -> None:
    async def story(scene: Scene) -> None:
        scene.since.clear()
        await scene.see(BAD)
        await scene.see(BAD)
        assert scene.watch._since == {}

    assert play(story).words == ["failing", "failing"]


def test_what_could_not_be_written_is_written_with_the_next_delivery() -> None:
    async def story(scene: Scene) -> None:
        scene.is_away = True
        await scene.see(BAD)
        await asyncio.sleep(2)
        scene.is_away = False
        await scene.see(BAD)

    assert play(story).words == ["failing"]


def test_no_more_are_remembered_than_may_be() -> None:
    async def story(scene: Scene) -> None:
        for at in range(MAX_SUBSCRIPTIONS + 10):
            scene.watch.record_delivery(delivery(subscription_id=f"sub_{at}"), OK)
        await asyncio.sleep(0.01)
        assert len(scene.watch._since) <= MAX_SUBSCRIPTIONS + 1

    assert len(play(story).said) == MAX_SUBSCRIPTIONS + 10


def test_one_whose_target_is_gone_is_paused_at_once() -> None:
    async def story(scene: Scene) -> None:
        await scene.see(OK)
        await scene.see(GONE, subscription_version=3)

    scene = play(story)
    assert scene.words == ["well", "failing", "disabled"]
    assert scene.reasons == [("its target answered HTTP 410 (Gone)", 3)]


def test_an_older_target_that_is_gone_says_so_of_its_own_version() -> None:
    async def story(scene: Scene) -> None:
        await scene.see(BAD)
        await scene.see(GONE, subscription_version=None)
        await scene.see(GONE, subscription_version=1)

    scene = play(story)
    assert scene.words == ["failing", "failing", "disabled"]
    assert scene.reasons[0][1] == 1
