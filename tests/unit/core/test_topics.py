import pytest

from core.errors import InvalidError
from core.kafka_config import KafkaConfig
from core.topics import TopicBook, TopicRule

BOOK = TopicBook.parse(["orders", r"^acme\..*=acme", "shared=beta"], "default")
EXISTING = ["orders", "orders2", "acme.a", "acme.b", "shared", "other", "xacme.c"]
TENANTS = ["default", "acme", "beta"]


def test_names_and_patterns_are_read() -> None:
    assert BOOK.wanted(EXISTING, [], TENANTS) == {"orders", "acme.a", "acme.b", "shared"}


def test_a_topic_that_a_wait_names_is_read_once_it_exists() -> None:
    named = [("other", "default"), ("later", "default")]
    assert BOOK.wanted(EXISTING, named, TENANTS) >= {"other"}
    assert "later" not in BOOK.wanted(EXISTING, named, TENANTS)
    assert "later" in BOOK.wanted([*EXISTING, "later"], named, TENANTS)


def test_naming_another_s_topic_opens_nothing() -> None:
    named = [("other", "acme"), ("acme.z", "acme"), ("shared", "default")]
    assert BOOK.wanted(["other", "acme.z"], named, TENANTS) == {"acme.z"}
    assert BOOK.strangers(named) == [("other", "acme", "default"), ("shared", "default", "beta")]


def test_a_tenant_is_told_on_its_own_topics_and_on_the_one_for_all() -> None:
    config = KafkaConfig(bootstrap="b:1", topics=("^acme[.].*=acme",), completion_topic="ends")
    book = TopicBook.of(config)
    book.check_told(["acme.done", "ends"], "acme")
    book.check_told(["mine", "ends"], "default")
    for topic, tenant in (("mine", "acme"), ("acme.done", "default"), ("mine", None)):
        with pytest.raises(InvalidError, match=rf"data.completionTopic: .*{topic}"):
            book.check_told([topic], tenant)


def test_a_topic_of_a_tenant_that_does_not_exist_is_left_alone() -> None:
    assert BOOK.wanted(EXISTING, [], ["default"]) == {"orders"}


def test_the_first_entry_that_names_a_tenant_decides() -> None:
    book = TopicBook.parse(["^a.*", "^ab.*=two", "abc=three"], "one")
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
    every = TopicBook.parse(["^.*"], "one", own=["done"])
    assert every.wanted(existing, [], ["one"]) == {"orders"}
    asked = TopicBook.parse(["^.*", "done"], "one", own=["done"])
    assert asked.wanted(existing, [], ["one"]) == {"orders", "done"}


def test_the_book_of_a_configuration_leaves_out_its_own_topics() -> None:
    config = KafkaConfig(
        bootstrap="b:1", topics=("^.*", "x=two"), tenant="one", dead_letter_topic="dead"
    )
    book = TopicBook.of(config)
    assert book.own == {"muster.correlation.completed", "dead"}
    assert book.names == [("x", "two")]
    assert TopicBook.of(KafkaConfig(bootstrap="b:1")).own == {"muster.correlation.completed"}
