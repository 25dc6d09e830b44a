"""The state of Kafka for one tenant: its topics and partitions, and the actors' state."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from core.kafka.topic_routing import TopicRouting, completion_topic
from core.shared.errors import NotFoundError
from core.shared.kafka_config import KafkaConfig
from serve_app.cluster_stats import ClusterStats, Report
from serve_app.http.models import Document, drop_none
from serve_app.kafka.models import TopicState
from services.shared.cache import Cache
from services.shared.database import Database
from storage.access import keys
from storage.kafka import dead_letters, named_topics
from storage.postgres.error_class import SERVER_ERRORS
from telemetry.kafka_metrics import PartitionLag
from telemetry.registry import MetricsSnapshot

log = structlog.get_logger("kafka")

INGEST, RELAY = "kafka-ingest", "kafka-relay"
SLUG_TTL = 3_600.0
DEAD_LETTERS_TTL = 15.0
MAX_TOPICS = 1_000

_COUNTS = {
    "records": "records",
    "batches": "batches",
    "largestBatch": "largest_batch",
    "inFlight": "in_flight",
    "heldBack": "held_back",
    "commits": "commits",
    "rebalances": "rebalances",
    "pauses": "pauses",
    "deadLetters": "dead_letters",
    "withoutIds": "unplaced",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSnapshot:
    """What the document for one tenant is made of."""

    config: KafkaConfig
    slug: str
    actors: Sequence[Report] = ()
    named: Sequence[str] = ()
    """Topics that this tenant's waits name."""
    letters: Mapping[str, int] = field(default_factory=dict)
    """This tenant's open dead letters by topic."""


class KafkaStatusReader:
    """Reads the state of Kafka for one tenant at a time."""

    def __init__(
        self,
        config: KafkaConfig | None,
        census: ClusterStats,
        database: Database,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._book = TopicRouting.of(config) if config is not None else None
        self._cluster_stats = census
        self._database = database
        self._slugs = Cache(
            database.bind(keys.slug_of), ttl=lambda _: SLUG_TTL, monotonic=monotonic
        )
        self._letters = Cache(
            database.bind(dead_letters.count), ttl=lambda _: DEAD_LETTERS_TTL, monotonic=monotonic
        )

    def forget(self) -> None:
        """Drop cached names, because the database may have been restored from a backup."""
        self._slugs.clear()
        self._letters.clear()

    async def read(self, tenant: int) -> Document:
        """Return the document for one tenant."""
        letters = await self._letters.refresh(tenant)
        if self._config is None:
            return {"configured": False, "deadLetters": sum(letters.values())}
        slug, report, named = await asyncio.gather(
            self._slug(tenant),
            self._cluster_stats.report(),
            self._database.query(named_topics.named_by, tenant, MAX_TOPICS),
        )
        return kafka_document(
            KafkaSnapshot(
                config=self._config,
                slug=slug,
                actors=report["actors"],
                named=named,
                letters=letters,
            )
        )

    async def extend_snapshot(self, snapshot: MetricsSnapshot, tenant: int) -> MetricsSnapshot:
        """Add a tenant's dead letters and lags to a snapshot, unless Postgres is down."""
        try:
            letters = await self._letters.get(tenant)
            slug = await self._slug(tenant)
        except SERVER_ERRORS as error:
            log.warning("kafka.letters_unknown", error=type(error).__name__)
            return snapshot
        rows = partitions_of(self._book, slug, snapshot.actors) if self._book else []
        lags = tuple(PartitionLag(r["topic"], r["partition"], r["lag"]) for r in rows if "lag" in r)
        return replace(snapshot, letters=letters, lags=lags)

    async def _slug(self, tenant: int) -> str:
        slug = await self._slugs.get(tenant)
        if slug is None:
            raise NotFoundError(f"tenant {tenant}")
        return slug


def kafka_document(observed: KafkaSnapshot) -> Document:
    """Render the state of Kafka."""
    config, book = observed.config, TopicRouting.of(observed.config)
    readers = [actor for actor in observed.actors if actor["kind"] == INGEST]
    relays = [actor for actor in observed.actors if actor["kind"] == RELAY]
    partitions = partitions_of(book, observed.slug, readers)
    return {
        "configured": True,
        "connected": bool(readers) and all(is_connected(actor) for actor in [*readers, *relays]),
        "bootstrap": config.bootstrap,
        "securityProtocol": config.security_protocol,
        "group": config.group,
        "clientId": config.client_id,
        "tenant": observed.slug,
        "completionTopic": completion_topic(config.completion_topic, observed.slug),
        "topics": _topics(observed, book, readers, partitions),
        "partitions": partitions,
        "ingest": [_reader(actor) for actor in readers],
        "relay": _relay(relays[0]) if relays else None,
        "deadLetters": sum(observed.letters.values()),
    }


def partitions_of(book: TopicRouting, slug: str, readers: Iterable[Report]) -> list[Document]:
    """Render the tenant's partitions; a live actor's report replaces that of a dead one."""
    rows: dict[tuple[str, int], Document] = {}
    for actor in sorted(readers, key=lambda one: bool(one.get("alive"))):
        for row in stats_of(actor).get("partitions") or ():
            if book.tenant_of(row["topic"]) == slug:
                rows[row["topic"], row["partition"]] = drop_none({**row, "actor": actor["name"]})
    return [rows[place] for place in sorted(rows)]


def error_of(actor: Report) -> str | None:
    """Return why an actor does not read or publish; None if it does."""
    if not actor.get("alive"):
        return "does not answer"
    stats = stats_of(actor)
    if stats.get("error"):
        return str(stats["error"])
    return None if stats.get("connected") else "is not connected yet"


def is_connected(actor: Report) -> bool:
    """Return whether an actor reads or publishes."""
    return error_of(actor) is None


def stats_of(actor: Report) -> Mapping[str, Any]:
    return actor.get("stats") or {}


def _topics(
    observed: KafkaSnapshot,
    book: TopicRouting,
    readers: Sequence[Report],
    partitions: Sequence[Document],
) -> list[Document]:
    followed = {topic for one in readers for topic in stats_of(one).get("following") or ()}
    own = {topic for topic in followed if book.tenant_of(topic) == observed.slug}
    wanted = {topic for topic, tenant in book.names if tenant == observed.slug} | {*observed.named}
    strangers = {
        topic
        for topic, *_ in book.foreign_topics((topic, observed.slug) for topic in observed.named)
    }
    has_looked = any(is_connected(actor) for actor in readers)

    def state(topic: str) -> TopicState:
        if topic in strangers:
            return TopicState.NOT_YOURS
        if topic in own:
            return TopicState.FOLLOWED
        if topic not in wanted:
            return TopicState.NOT_FOLLOWED
        return TopicState.MISSING if has_looked else TopicState.UNKNOWN

    rows = []
    for topic in sorted(own | wanted | {*observed.letters}):
        parts = [row for row in partitions if row["topic"] == topic]
        rows.append(
            {
                "topic": topic,
                "state": state(topic),
                "partitions": len(parts),
                "lag": sum(row.get("lag", 0) for row in parts),
                "deadLetters": observed.letters.get(topic, 0),
            }
        )
    return rows


def _reader(actor: Report) -> Document:
    stats = stats_of(actor)
    document = _state(actor) | {name: stats.get(stat, 0) for name, stat in _COUNTS.items()}
    verdicts = {
        name.removeprefix("verdict_"): count
        for name, count in stats.items()
        if name.startswith("verdict_")
    }
    return document | {"partitions": len(stats.get("partitions") or ()), "verdicts": verdicts}


def _relay(actor: Report) -> Document:
    stats = stats_of(actor)
    return _state(actor) | {
        "published": stats.get("published", 0),
        "failures": stats.get("failures", 0),
        "vanished": stats.get("vanished", 0),
        "heldTopics": stats.get("held_topics", 0),
        "refused": stats.get("refused", 0),
        "backlog": stats.get("backlog", 0),
        "oldestSeconds": round(float(stats.get("oldest", 0.0)), 3),
    }


def _state(actor: Report) -> Document:
    return drop_none(
        {
            "name": actor["name"],
            "alive": bool(actor.get("alive")),
            "connected": is_connected(actor),
            "error": error_of(actor),
            "restarts": actor.get("restarts", 0),
        }
    )
