"""The frozen Kafka configuration that every process is given."""

from dataclasses import dataclass, field
from enum import StrEnum


class StartOffset(StrEnum):
    """Where reading begins on a topic that has no committed offset."""

    EARLIEST = "earliest"
    LATEST = "latest"


class CompletionPolicy(StrEnum):
    """Which waits publish their end to Kafka."""

    ASKED = "asked"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConfig:
    """One cluster and one consumer group."""

    bootstrap: str
    group: str = "muster"
    client_id: str = "muster"
    topics: tuple[str, ...] = ()
    """Topics to read in addition to those that waits name; see core/kafka/topic_routing.py."""
    tenant: str = "default"
    """The tenant that owns the events of a topic without a tenant."""
    start: StartOffset = StartOffset.EARLIEST
    ingest: int = 1
    batch: int = 2_000
    completions: CompletionPolicy = CompletionPolicy.ASKED
    completion_topic: str = "muster.correlation.completed"
    change_topic: str = "emf.record.changed"
    """The topic of record changes, shared by all tenants."""
    dead_letter_topic: str | None = None
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
