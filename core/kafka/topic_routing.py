"""Which topics are read, and whose events are on them.

A tenant sees only what is on its own topics: naming somebody else's topic in a wait is not enough.
What Muster writes for several tenants is nobody's: it is read only where an entry names it in full.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from core.shared.errors import InvalidError
from core.shared.kafka_config import KafkaConfig

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
TENANT_PLACEHOLDER = "{tenant}"
"""In the name of a topic: the tenant's."""


@dataclass(frozen=True, slots=True)
class TopicRule:
    """One entry of the configured list: a name or a pattern, and the tenant it belongs to."""

    pattern: re.Pattern[str]
    tenant: str | None
    exact: str | None

    @classmethod
    def parse(cls, text: str) -> "TopicRule":
        """Read `NAME`, `^PATTERN`, or either with `=TENANT` behind it.

        Raises:
            ValueError: It is neither a name nor a pattern.
        """
        subject, equals, tenant = text.strip().rpartition("=")
        if not equals:
            subject, tenant = tenant, ""
        if equals and not tenant:
            raise ValueError(f"{text!r} names no tenant behind the =")
        if subject.startswith("^"):
            try:
                return cls(re.compile(subject), tenant or None, None)
            except re.error as error:
                raise ValueError(f"{subject!r} is no pattern: {error}") from error
        if not TOPIC_NAME.fullmatch(subject):
            raise ValueError(f"{subject!r} is no topic name; a pattern begins with ^")
        return cls(re.compile(re.escape(subject)), tenant or None, subject)

    def fits(self, topic: str) -> bool:
        """Whether this entry means the topic."""
        return self.pattern.fullmatch(topic) is not None


@dataclass(frozen=True, slots=True)
class TopicRouting:
    """All entries; the first that fits decides."""

    rules: tuple[TopicRule, ...]
    tenant: str
    own: frozenset[str] = frozenset()
    """What Muster itself writes, for whichever tenant: nobody's, and read by no pattern."""
    completions: str | None = None
    """Where the ends of waits are told, unless they say otherwise; `{tenant}` stands for whose."""

    @classmethod
    def parse(cls, entries: Iterable[str], tenant: str, own: Iterable[str] = ()) -> "TopicRouting":
        """Read the configured list. `tenant` owns every topic that no entry gives to another."""
        return cls(tuple(TopicRule.parse(entry) for entry in entries), tenant, frozenset(own))

    @classmethod
    def of(cls, config: KafkaConfig) -> "TopicRouting":
        """The book of one configuration."""
        shared = [config.dead_letter_topic]
        if TENANT_PLACEHOLDER not in config.completion_topic:
            shared.append(config.completion_topic)
        book = cls.parse(config.topics, config.tenant, filter(None, shared))
        return replace(book, completions=config.completion_topic)

    @property
    def names(self) -> list[tuple[str, str]]:
        """The topics that entries name in full, with whose they are."""
        exact = [rule.exact for rule in self.rules if rule.exact is not None]
        return [(topic, self.tenant_of(topic)) for topic in exact]

    def tenant_of(self, topic: str) -> str:
        """Whose events are on this topic."""
        told = self._completion_tenant(topic)
        for rule in self.rules:
            # What one tenant is told does not become another's by a pattern that fits many.
            if rule.tenant is not None and rule.fits(topic) and (told is None or rule.exact):
                return rule.tenant
        return told or self.tenant

    def _completion_tenant(self, topic: str) -> str | None:
        """The tenant whose ends of waits are told on this topic, if they are told apart."""
        if self.completions is None or TENANT_PLACEHOLDER not in self.completions:
            return None
        before, _, behind = self.completions.partition(TENANT_PLACEHOLDER)
        slug = topic.removeprefix(before).removesuffix(behind).replace("_", "@")
        return slug if completion_topic(self.completions, slug) == topic else None

    def topics_to_read(
        self, existing: Iterable[str], named: Iterable[tuple[str, str]], tenants: Iterable[str]
    ) -> set[str]:
        """The topics to read.

        Args:
            existing: The topics the cluster has. One that is missing is read once it is there.
            named: Topics that waits name, with the tenant whose waits they are.
            tenants: The tenants there are: events of others would have nowhere to go.
        """
        known = set(tenants)
        asked = {
            topic
            for topic, tenant in named
            if self.tenant_of(topic) == tenant and not self.is_reserved(topic)
        }
        return {
            topic
            for topic in existing
            if (topic in asked or self._is_listed(topic)) and self.tenant_of(topic) in known
        }

    def _is_listed(self, topic: str) -> bool:
        for rule in self.rules:
            told = (
                topic in self.own
                or topic.startswith("__")
                or self._completion_tenant(topic) is not None
            )
            if rule.exact == topic or (rule.fits(topic) and not told):
                return True
        return False

    def is_reserved(self, topic: str) -> bool:
        """Whether a topic is no tenant's: Muster's own or the brokers', and no entry names it."""
        is_internal = topic in self.own or topic.startswith("__")
        return is_internal and not any(rule.exact == topic for rule in self.rules)

    def check_awaited(self, topics: Iterable[tuple[str, str]]) -> None:
        """No wait may await what is no tenant's. Takes pairs of field and topic.

        Raises:
            InvalidError: A topic is Muster's own, or the brokers'.
        """
        for field, topic in topics:
            if self.is_reserved(topic):
                raise InvalidError(
                    field,
                    f"a topic of this tenant; {topic} is for several tenants, and is read only "
                    "where MUSTER_KAFKA_TOPICS names it",
                )

    def check_completion_topics(self, topics: Iterable[str], tenant: str | None) -> None:
        """A tenant's waits may be told of on its own topics, and on the one that is for all.

        Raises:
            InvalidError: A topic is another's.
        """
        for topic in topics:
            if topic == self.completions:
                continue
            if self.tenant_of(topic) != tenant or self.is_reserved(topic):
                raise InvalidError(
                    "data.completionTopic", f"a topic of this tenant; {topic} is not one of them"
                )

    def foreign_topics(self, named: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
        """Topics that waits name although they are not theirs: the topic, who names it, whose."""
        return [
            (topic, tenant, self.tenant_of(topic))
            for topic, tenant in named
            if self.tenant_of(topic) != tenant or self.is_reserved(topic)
        ]


def completion_topic(template: str, slug: str) -> str:
    """Where the ends of a tenant's waits are told; @, which no topic has, is written _."""
    return template.replace(TENANT_PLACEHOLDER, slug.replace("@", "_"))
