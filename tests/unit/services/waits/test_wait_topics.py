from collections.abc import Iterable

from core.waits.spec import ExpectedEvent, Source, WaitSpec
from services.waits.wait_topics import FOLLOW_MARGIN_SECONDS, WaitTopics


def spec(*topics: str, timeout: float = 60.0) -> WaitSpec:
    events = [ExpectedEvent(name=t, source=Source.KAFKA, label=t) for t in topics]
    return WaitSpec(events=(*events, ExpectedEvent(name="a", source=Source.API)), timeout=timeout)


async def test_a_topic_is_told_once_until_a_wait_outlives_what_was_told() -> None:
    told: list[tuple[int, list[str], float]] = []

    async def name(tenant: int, topics: Iterable[str], last: float) -> None:
        told.append((tenant, sorted(topics), last))

    topics = WaitTopics(name, lambda: 1_000.0)
    await topics.remember(1, [spec("b", "a"), spec("a", timeout=90.0)])
    await topics.remember(1, [spec("a"), spec()])
    await topics.remember(1, [spec("shop:orders:order:paid")])  # the type of an event
    await topics.remember(2, [spec("a")])
    await topics.remember(1, [spec("a", timeout=2 * FOLLOW_MARGIN_SECONDS)])
    assert told == [
        (1, ["a", "b"], 1_090.0 + FOLLOW_MARGIN_SECONDS),
        (2, ["a"], 1_060.0 + FOLLOW_MARGIN_SECONDS),
        (1, ["a"], 1_000.0 + 3 * FOLLOW_MARGIN_SECONDS),
    ]
