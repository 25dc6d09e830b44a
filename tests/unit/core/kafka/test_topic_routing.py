from dataclasses import replace

import pytest

from core.kafka.topic_routing import TopicRouting, TopicRule, completion_topic
from core.shared.errors import InvalidError
from core.shared.kafka_config import KafkaConfig

BOOK = TopicRouting.parse(["orders", r"^acme\..*=acme", "shared=beta"], "default")
EXISTING = ["orders", "orders2", "acme.a", "acme.b", "shared", "other", "xacme.c"]
TENANTS = ["default", "acme", "beta"]


def test_names_and_patterns_are_read() -> None:
    assert BOOK.topics_to_read(EXISTING, [], TENANTS) == {"orders", "acme.a", "acme.b", "shared"}


def test_a_topic_that_a_wait_names_is_read_once_it_exists() -> None:
    named = [("other", "default"), ("later", "default")]
    assert BOOK.topics_to_read(EXISTING, named, TENANTS) >= {"other"}
    assert "later" not in BOOK.topics_to_read(EXISTING, named, TENANTS)
    assert "later" in BOOK.topics_to_read([*EXISTING, "later"], named, TENANTS)


def test_naming_another_s_topic_opens_nothing() -> None:
    named = [("other", "acme"), ("acme.z", "acme"), ("shared", "default")]
    assert BOOK.topics_to_read(["other", "acme.z"], named, TENANTS) == {"acme.z"}
    assert BOOK.foreign_topics(named) == [
        ("other", "acme", "default"),
        ("shared", "default", "beta"),
    ]


def test_a_tenant_is_told_on_its_own_topics_and_on_the_one_for_all() -> None:
    config = KafkaConfig(bootstrap="b:1", topics=("^acme[.].*=acme",), completion_topic="ends")
    book = TopicRouting.of(config)
    book.check_completion_topics(["acme.done", "ends"], "acme")
    book.check_completion_topics(["mine", "ends"], "default")
    for topic, tenant in (("mine", "acme"), ("acme.done", "default"), ("mine", None)):
        with pytest.raises(InvalidError, match=rf"data.completionTopic: .*{topic}"):
            book.check_completion_topics([topic], tenant)


def test_a_topic_of_a_tenant_that_does_not_exist_is_left_alone() -> None:
    assert BOOK.topics_to_read(EXISTING, [], ["default"]) == {"orders"}


def test_the_first_entry_that_names_a_tenant_decides() -> None:
    book = TopicRouting.parse(["^a.*", "^ab.*=two", "abc=three"], "one")
    assert [book.tenant_of(topic) for topic in ("a", "ab", "abc", "z")] == [
        "one",
        "two",
        "two",
        "one",
    ]


@pytest.mark.parametrize("entry", ["", "=x", "orders=", "a b", "^(", "a/b"])
def test_what_is_no_topic_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|tenant"):
        TopicRule.parse(entry)


def test_a_pattern_fits_whole_names_and_may_hold_an_equals_sign() -> None:
    assert TopicRule.parse("^a.").fits("ab")
    assert not TopicRule.parse("^a.").fits("abc")
    assert TopicRule.parse("^a(?=b)b=acme").tenant == "acme"


def test_a_pattern_does_not_make_it_read_its_own_words() -> None:
    existing = ["__consumer_offsets", "orders", "done"]
    every = TopicRouting.parse(["^.*"], "one", own=["done"])
    assert every.topics_to_read(existing, [], ["one"]) == {"orders"}
    asked = TopicRouting.parse(["^.*", "done"], "one", own=["done"])
    assert asked.topics_to_read(existing, [], ["one"]) == {"orders", "done"}


def test_the_book_of_a_configuration_leaves_out_its_own_topics() -> None:
    config = KafkaConfig(
        bootstrap="b:1", topics=("^.*", "x=two"), tenant="one", dead_letter_topic="dead"
    )
    book = TopicRouting.of(config)
    assert book.own == {"muster.correlation.completed", "dead", "emf.record.changed"}
    assert book.names == [("x", "two")]
    own = TopicRouting.of(KafkaConfig(bootstrap="b:1", change_topic="changes")).own
    assert own == {"muster.correlation.completed", "changes"}


SHARED = KafkaConfig(bootstrap="b:1", tenant="one", dead_letter_topic="dead")
RESERVED = ("muster.correlation.completed", "dead", "emf.record.changed", "__consumer_offsets")


@pytest.mark.parametrize("topic", RESERVED)
def test_what_is_for_several_tenants_is_nobodys_to_wait_on(topic: str) -> None:
    book = TopicRouting.of(SHARED)
    named = [(topic, "one")]
    assert book.topics_to_read([topic], named, ["one"]) == set()
    assert book.foreign_topics(named) == [(topic, "one", "one")]
    with pytest.raises(InvalidError, match=rf"data.kafkaEvent.topic: .*{topic}"):
        book.check_awaited([("data.kafkaEvent.topic", topic)])


@pytest.mark.parametrize("topic", RESERVED)
@pytest.mark.parametrize("pattern", ["^.*", "^.*=one"])
def test_no_pattern_gives_it_to_a_tenant(topic: str, pattern: str) -> None:
    book = TopicRouting.of(replace(SHARED, topics=(pattern,)))
    assert book.topics_to_read([topic], [(topic, "one")], ["one"]) == set()
    with pytest.raises(InvalidError):
        book.check_awaited([("data.kafkaEvent.topic", topic)])


@pytest.mark.parametrize("topic", RESERVED)
def test_an_entry_that_names_it_in_full_does(topic: str) -> None:
    book = TopicRouting.of(replace(SHARED, topics=(f"{topic}=two",)))
    book.check_awaited([("data.kafkaEvent.topic", topic)])
    assert book.topics_to_read([topic], [], ["one", "two"]) == {topic}
    assert book.tenant_of(topic) == "two"
    assert book.foreign_topics([(topic, "one")]) == [(topic, "one", "two")]


@pytest.mark.parametrize("topic", ["dead", "__consumer_offsets"])
def test_no_wait_is_told_of_there(topic: str) -> None:
    book = TopicRouting.of(SHARED)
    book.check_completion_topics(["muster.correlation.completed"], "one")
    with pytest.raises(InvalidError, match="completionTopic"):
        book.check_completion_topics([topic], "one")


def test_a_topic_for_each_tenant_is_that_tenants() -> None:
    book = TopicRouting.of(
        replace(SHARED, completion_topic="ends.{tenant}.v1", topics=("^.*=one", "ends.x.v1=y"))
    )
    assert completion_topic("ends.{tenant}.v1", "@anchor") == "ends._anchor.v1"
    owners = {
        "ends.one.v1": "one",
        "ends.two.v1": "two",
        "ends._anchor.v1": "@anchor",
        "ends.x.v1": "y",
        "ends.two.v2": "one",
        "other": "one",
    }
    assert {topic: book.tenant_of(topic) for topic in owners} == owners
    every = list(owners)
    tenants = ["one", "two", "y"]
    assert book.topics_to_read(every, [], tenants) == {"ends.x.v1", "ends.two.v2", "other"}
    named = [("ends.two.v1", "two"), ("ends.two.v1", "one"), ("ends.one.v1", "two")]
    assert book.topics_to_read(every, named, tenants) >= {"ends.two.v1"}
    assert "ends.one.v1" not in book.topics_to_read(every, named, tenants)
    book.check_awaited([("data.kafkaEvent.topic", "ends.two.v1")])
    book.check_completion_topics(["ends.two.v1"], "two")
    with pytest.raises(InvalidError):
        book.check_completion_topics(["ends.two.v1"], "one")
