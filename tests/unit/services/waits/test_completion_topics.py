from dataclasses import replace

import pytest

from core.shared.errors import InvalidError
from core.shared.kafka_config import KafkaConfig
from core.waits.config import WaitConfig
from services.waits.completion_topics import CompletionTopics

KAFKA = KafkaConfig(bootstrap="b:1", topics=("^acme[.].*=acme",))
SILENT = WaitConfig()
SHARED = "muster.correlation.completed"


def told_on(topic: str) -> WaitConfig:
    return WaitConfig.model_validate({"completionTopic": topic})


async def slug_of(tenant: int) -> str | None:
    return {1: "default", 2: "acme"}[tenant]


async def nobody(tenant: int) -> str | None:
    raise AssertionError("asked")


async def test_another_s_topic_is_refused() -> None:
    told = CompletionTopics(KAFKA, slug_of)
    await told.check(2, [told_on("acme.done"), SILENT])
    with pytest.raises(InvalidError, match=r"acme\.done"):
        await told.check(1, [SILENT, told_on("acme.done")])


async def test_nobody_is_asked_where_no_topic_is_named_or_there_is_no_kafka() -> None:
    await CompletionTopics(KAFKA, nobody).check(1, [SILENT])
    await CompletionTopics(None, nobody).check(1, [told_on("x")])


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"kafkaEvent": {"topic": SHARED}}, "data.kafkaEvent.topic"),
        (
            {"events": [{"name": "a"}, {"name": "b", "topic": "__consumer_offsets"}]},
            r"data.events\[1\].topic",
        ),
    ],
)
async def test_a_reserved_topic_is_refused_with_its_field(data: object, field: str) -> None:
    wait = WaitConfig.model_validate(data)
    with pytest.raises(InvalidError, match=field):
        await CompletionTopics(KAFKA, nobody).check(1, [SILENT, wait])
    await CompletionTopics(None, nobody).check(1, [wait])


async def test_ends_are_told_where_the_setting_says_for_this_tenant() -> None:
    assert await CompletionTopics(None, nobody).config_of(2) is None
    assert await CompletionTopics(KAFKA, nobody).config_of(2) is KAFKA
    apart = await CompletionTopics(
        replace(KAFKA, completion_topic="e.{tenant}"), slug_of
    ).config_of(2)
    assert apart is not None
    assert apart.completion_topic == "e.acme"
