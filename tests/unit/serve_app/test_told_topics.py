import pytest

from core.errors import InvalidError
from core.kafka_config import KafkaConfig
from serve_app.told_topics import ToldTopics

KAFKA = KafkaConfig(bootstrap="b:1", topics=("^acme[.].*=acme",))


async def slug_of(tenant: int) -> str | None:
    return {1: "default", 2: "acme"}[tenant]


async def test_another_s_topic_is_refused() -> None:
    told = ToldTopics(KAFKA, slug_of)
    await told.check(2, ["acme.done", None])
    with pytest.raises(InvalidError, match=r"acme\.done"):
        await told.check(1, [None, "acme.done"])


async def test_nobody_is_asked_where_no_topic_is_named_or_there_is_no_kafka() -> None:
    async def nobody(tenant: int) -> str | None:
        raise AssertionError("asked")

    await ToldTopics(KAFKA, nobody).check(1, [None])
    await ToldTopics(None, nobody).check(1, ["x"])
