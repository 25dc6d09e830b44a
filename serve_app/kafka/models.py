"""The responses of /api/kafka."""

from enum import StrEnum

from pydantic import Field

from core.waits.messages import Verdict
from serve_app.http.fields import optional
from serve_app.http.models import View


class TopicState(StrEnum):
    """Whether ingest reads a topic."""

    FOLLOWED = "followed"
    MISSING = "missing"
    NOT_YOURS = "not_yours"
    NOT_FOLLOWED = "not_followed"
    UNKNOWN = "unknown"


class TopicView(View):
    """A topic that is read for this tenant, or that the tenant's waits name."""

    topic: str
    state: TopicState = Field(
        description="missing: the cluster has no such topic (yet). not_yours: waits name it, but "
        "it belongs to another tenant. not_followed: only its dead letters are left. unknown: the "
        "cluster was not reached."
    )
    partitions: int = Field(description="Partitions that are being read.")
    lag: int = Field(description="Records that are there and not stored yet.")
    dead_letters: int


class PartitionView(View):
    """How far one partition is stored."""

    topic: str
    partition: int
    stored: int | None = optional("The offset behind the last stored record.")
    end: int | None = optional("The offset behind the last record there is.")
    lag: int | None = optional()
    held: bool = Field(False, description="Not read: a quota of the tenant is used up.")
    actor: str = Field(description="Who reads it.")


class KafkaActorView(View):
    """One actor that talks to Kafka."""

    name: str
    alive: bool
    connected: bool
    error: str | None = optional()
    restarts: int


class IngestView(KafkaActorView):
    """A consumer of the group; its counters start with the process."""

    partitions: int
    records: int
    batches: int
    largest_batch: int
    in_flight: int = Field(description="Batches that are being stored.")
    held_back: int = Field(description="Batches that wait for shards that are behind.")
    commits: int
    rebalances: int
    pauses: int
    dead_letters: int
    without_ids: int = Field(description="Events that went to the inbox without an address.")
    verdicts: dict[Verdict, int]


class RelayView(KafkaActorView):
    """The publisher of the outbox."""

    published: int
    failures: int
    vanished: int = Field(description="Events whose wait was gone before they were sent.")
    held_topics: int = Field(description="Topics that take nothing at present, of all tenants.")
    refused: int = Field(description="Events that their topics will not take, of all tenants.")
    backlog: int = Field(description="Events that the broker has not confirmed.")
    oldest_seconds: float = Field(description="How long the oldest of them has waited.")


class KafkaView(View):
    """The state of Kafka for this tenant. Without Kafka only the first and last field are set."""

    configured: bool
    connected: bool | None = optional()
    bootstrap: str | None = optional()
    security_protocol: str | None = optional()
    group: str | None = optional()
    client_id: str | None = optional()
    tenant: str | None = optional()
    completion_topic: str | None = optional()
    topics: list[TopicView] | None = optional()
    partitions: list[PartitionView] | None = optional()
    ingest: list[IngestView] | None = optional()
    relay: RelayView | None = optional()
    dead_letters: int = Field(description="Open ones of this tenant.")
