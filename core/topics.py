"""Which topics are read, and whose events are on them.

A tenant sees only what is on its own topics: naming somebody else's topic in a wait is not enough.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from core.errors import InvalidError
from core.kafka_config import KafkaConfig

NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


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
        if not NAME.fullmatch(subject):
            raise ValueError(f"{subject!r} is no topic name; a pattern begins with ^")
        return cls(re.compile(re.escape(subject)), tenant or None, subject)

    def fits(self, topic: str) -> bool:
        """Whether this entry means the topic."""
        return self.pattern.fullmatch(topic) is not None


@dataclass(frozen=True, slots=True)
class TopicBook:
    """All entries; the first that fits decides."""

    rules: tuple[TopicRule, ...]
    tenant: str
    own: frozenset[str] = frozenset()
    """What Muster itself writes: no pattern makes it read that again."""
    shared: str | None = None
    """Where the ends of all tenants' waits are told, unless they say otherwise."""

    @classmethod
    def parse(cls, entries: Iterable[str], tenant: str, own: Iterable[str] = ()) -> "TopicBook":
        """Read the configured list. `tenant` owns every topic that no entry gives to another."""
        return cls(tuple(TopicRule.parse(entry) for entry in entries), tenant, frozenset(own))

    @classmethod
    def of(cls, config: KafkaConfig) -> "TopicBook":
        """The book of one configuration."""
        own = filter(None, (config.completion_topic, config.dead_letter_topic))
        book = cls.parse(config.topics, config.tenant, own)
        return replace(book, shared=config.completion_topic)

    @property
    def names(self) -> list[tuple[str, str]]:
        """The topics that entries name in full, with whose they are."""
        exact = [rule.exact for rule in self.rules if rule.exact is not None]
        return [(topic, self.tenant_of(topic)) for topic in exact]

    def tenant_of(self, topic: str) -> str:
        """Whose events are on this topic."""
        for rule in self.rules:
            if rule.tenant is not None and rule.fits(topic):
                return rule.tenant
        return self.tenant

    def wanted(
        self, existing: Iterable[str], named: Iterable[tuple[str, str]], tenants: Iterable[str]
    ) -> set[str]:
        """The topics to read.

        Args:
            existing: The topics the cluster has. One that is missing is read once it is there.
            named: Topics that waits name, with the tenant whose waits they are.
            tenants: The tenants there are: events of others would have nowhere to go.
        """
        known = set(tenants)
        asked = {topic for topic, tenant in named if self.tenant_of(topic) == tenant}
        return {
            topic
            for topic in existing
            if (topic in asked or self._is_listed(topic)) and self.tenant_of(topic) in known
        }

    def _is_listed(self, topic: str) -> bool:
        for rule in self.rules:
            private = topic in self.own or topic.startswith("__")
            if rule.exact == topic or (rule.fits(topic) and not private):
                return True
        return False

    def check_told(self, topics: Iterable[str], tenant: str | None) -> None:
        """A tenant's waits may be told of on its own topics, and on the one that is for all.

        Raises:
            InvalidError: A topic is another's.
        """
        for topic in topics:
            if topic != self.shared and self.tenant_of(topic) != tenant:
                raise InvalidError(
                    "data.completionTopic", f"a topic of this tenant; {topic} is not one of them"
                )

    def strangers(self, named: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
        """Topics that waits name although they are another's: the topic, who names it, whose."""
        return [
            (topic, tenant, self.tenant_of(topic))
            for topic, tenant in named
            if self.tenant_of(topic) != tenant
        ]
