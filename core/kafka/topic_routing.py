"""Which Kafka topics are read, and which tenant owns each.

A wait receives events only from topics of its tenant. A topic that Muster writes for several
tenants belongs to none, and is read only if an entry of the configuration names it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from core.shared.errors import InvalidError
from core.shared.kafka_config import KafkaConfig

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
TENANT_PLACEHOLDER = "{tenant}"
"""The placeholder for the tenant's name in the name of a topic."""


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
            ValueError: The text is neither a name nor a pattern.
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
        return self.pattern.fullmatch(topic) is not None


@dataclass(frozen=True, slots=True)
class TopicRouting:
    """All entries; the first that fits a topic decides."""

    rules: tuple[TopicRule, ...]
    tenant: str
    own: frozenset[str] = frozenset()
    """Topics that Muster writes for several tenants; no pattern selects them."""
    completions: str | None = None
    """The default topic of completion events; may contain `{tenant}`."""

    @classmethod
    def parse(cls, entries: Iterable[str], tenant: str, own: Iterable[str] = ()) -> "TopicRouting":
        """Read the configured list. `tenant` owns every topic that no entry gives to another."""
        return cls(tuple(TopicRule.parse(entry) for entry in entries), tenant, frozenset(own))

    @classmethod
    def of(cls, config: KafkaConfig) -> "TopicRouting":
        shared = [config.dead_letter_topic, config.change_topic]
        if TENANT_PLACEHOLDER not in config.completion_topic:
            shared.append(config.completion_topic)
        routing = cls.parse(config.topics, config.tenant, filter(None, shared))
        return replace(routing, completions=config.completion_topic)

    @property
    def names(self) -> list[tuple[str, str]]:
        """Return the topics that entries name in full, each with its tenant."""
        exact = [rule.exact for rule in self.rules if rule.exact is not None]
        return [(topic, self.tenant_of(topic)) for topic in exact]

    def tenant_of(self, topic: str) -> str:
        completions_of = self._completion_tenant(topic)
        for rule in self.rules:
            # A pattern must not give one tenant's completion events to another tenant.
            may_own = completions_of is None or rule.exact
            if rule.tenant is not None and rule.fits(topic) and may_own:
                return rule.tenant
        return completions_of or self.tenant

    def _completion_tenant(self, topic: str) -> str | None:
        """Return the tenant whose completion events are on this topic, if each has its own."""
        if self.completions is None or TENANT_PLACEHOLDER not in self.completions:
            return None
        before, _, behind = self.completions.partition(TENANT_PLACEHOLDER)
        slug = topic.removeprefix(before).removesuffix(behind).replace("_", "@")
        return slug if completion_topic(self.completions, slug) == topic else None

    def topics_to_read(
        self, existing: Iterable[str], named: Iterable[tuple[str, str]], tenants: Iterable[str]
    ) -> set[str]:
        """Select those of the cluster's topics that entries list or that waits, by tenant, name."""
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
            is_written_by_muster = (
                topic in self.own
                or topic.startswith("__")
                or self._completion_tenant(topic) is not None
            )
            if rule.exact == topic or (rule.fits(topic) and not is_written_by_muster):
                return True
        return False

    def is_reserved(self, topic: str) -> bool:
        """Return True if a topic is Muster's or the brokers' and no entry names it."""
        is_internal = topic in self.own or topic.startswith("__")
        return is_internal and not any(rule.exact == topic for rule in self.rules)

    def check_awaited(self, topics: Iterable[tuple[str, str]]) -> None:
        """Refuse a wait that names a reserved topic; the pairs are fields and topics."""
        for field, topic in topics:
            if self.is_reserved(topic):
                raise InvalidError(
                    field,
                    f"a topic of this tenant; {topic} is shared by tenants and is read only "
                    "if MUSTER_KAFKA_TOPICS names it",
                )

    def check_completion_topics(self, topics: Iterable[str], tenant: str | None) -> None:
        """Refuse completion events on topics that are neither the tenant's nor the default one."""
        for topic in topics:
            if topic == self.completions:
                continue
            if self.tenant_of(topic) != tenant or self.is_reserved(topic):
                raise InvalidError(
                    "data.completionTopic", f"a topic of this tenant; {topic} is not one of them"
                )

    def foreign_topics(self, named: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
        """List topics that waits of another tenant name: the topic, that tenant, the owner."""
        return [
            (topic, tenant, self.tenant_of(topic))
            for topic, tenant in named
            if self.tenant_of(topic) != tenant or self.is_reserved(topic)
        ]


def completion_topic(template: str, slug: str) -> str:
    """Return a tenant's topic of completion events; _ replaces @, which no topic may contain."""
    return template.replace(TENANT_PLACEHOLDER, slug.replace("@", "_"))
