from collections.abc import Iterable

from core.waits.spec import Expected, Source, WaitSpec
from services.waits.wait_topics import MARGIN, NamedTopics


def spec(*topics: str, timeout: float = 60.0) -> WaitSpec:
    events = [Expected(name=t, source=Source.KAFKA, label=t) for t in topics]
    return WaitSpec(events=(*events, Expected(name="a", source=Source.API)), timeout=timeout)


async def test_a_topic_is_told_once_until_a_wait_outlives_what_was_told() -> None:
    told: list[tuple[int, list[str], float]] = []

    async def name(tenant: int, topics: Iterable[str], last: float) -> None:
        told.append((tenant, sorted(topics), last))

    topics = NamedTopics(name, lambda: 1_000.0)
    await topics.remember(1, [spec("b", "a"), spec("a", timeout=90.0)])
    await topics.remember(1, [spec("a"), spec()])
    await topics.remember(1, [spec("shop:orders:order:paid")])  # the type of an event
    await topics.remember(2, [spec("a")])
    await topics.remember(1, [spec("a", timeout=2 * MARGIN)])
    assert told == [
        (1, ["a", "b"], 1_090.0 + MARGIN),
        (2, ["a"], 1_060.0 + MARGIN),
        (1, ["a"], 1_000.0 + 3 * MARGIN),
    ]
