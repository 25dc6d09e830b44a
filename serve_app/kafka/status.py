"""The state of Kafka for one tenant: its topics and partitions, and the actors' state."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from core.kafka.topic_routing import TopicRouting, completion_topic
from core.shared.errors import NotFoundError
from core.shared.kafka_config import KafkaConfig
from serve_app.cluster_stats import ClusterStats, Report
from serve_app.http.models import View
from serve_app.kafka.models import (
    IngestView,
    KafkaView,
    PartitionView,
    RelayView,
    TopicState,
    TopicView,
)
from services.shared.cache import Cache
from services.shared.database import Database
from storage.access import keys
from storage.kafka import dead_letters, named_topics
from storage.postgres.error_class import SERVER_ERRORS
from telemetry.actor_metrics import stats_of
from telemetry.kafka_metrics import INGEST, RELAY, PartitionLag, verdicts_of
from telemetry.registry import MetricsSnapshot

log = structlog.get_logger("kafka")

SLUG_TTL = 3_600.0
DEAD_LETTERS_TTL = 15.0
MAX_TOPICS = 1_000


class KafkaStatusReader:
    """Reads the state of Kafka for one tenant at a time."""

    def __init__(
        self,
        config: KafkaConfig | None,
        cluster_stats: ClusterStats,
        database: Database,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._book = TopicRouting.of(config) if config is not None else None
        self._cluster_stats = cluster_stats
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

    async def read(self, tenant: int) -> KafkaView:
        letters = await self._letters.refresh(tenant)
        if self._config is None:
            return KafkaView(configured=False, dead_letters=sum(letters.values()))
        slug, report, named = await asyncio.gather(
            self._slug(tenant),
            self._cluster_stats.report(),
            self._database.query(named_topics.named_by, tenant, MAX_TOPICS),
        )
        return kafka_view(self._config, slug, report["actors"], named=named, letters=letters)

    async def extend_snapshot(self, snapshot: MetricsSnapshot, tenant: int) -> MetricsSnapshot:
        """Add a tenant's dead letters and lags to a snapshot, unless Postgres is down."""
        try:
            letters = await self._letters.get(tenant)
            slug = await self._slug(tenant)
        except SERVER_ERRORS as error:
            log.warning("kafka.letters_unknown", error=type(error).__name__)
            return snapshot
        rows = partitions_of(self._book, slug, snapshot.actors) if self._book else []
        lags = tuple(
            PartitionLag(row.topic, row.partition, row.lag) for row in rows if row.lag is not None
        )
        return replace(snapshot, letters=letters, lags=lags)

    async def _slug(self, tenant: int) -> str:
        slug = await self._slugs.get(tenant)
        if slug is None:
            raise NotFoundError(f"tenant {tenant}")
        return slug


def kafka_view(
    config: KafkaConfig,
    slug: str,
    actors: Sequence[Report],
    *,
    named: Sequence[str],
    letters: Mapping[str, int],
) -> KafkaView:
    """Render the state of Kafka for a tenant, with the topics that its waits name.

    `letters` counts the tenant's open dead letters by topic.
    """
    book = TopicRouting.of(config)
    readers = [actor for actor in actors if actor["kind"] == INGEST]
    relays = [actor for actor in actors if actor["kind"] == RELAY]
    partitions = partitions_of(book, slug, readers)
    parts: dict[str, list[PartitionView]] = {}
    for partition in partitions:
        parts.setdefault(partition.topic, []).append(partition)
    return KafkaView(
        configured=True,
        connected=bool(readers) and all(is_connected(actor) for actor in [*readers, *relays]),
        bootstrap=config.bootstrap,
        security_protocol=config.security_protocol,
        group=config.group,
        client_id=config.client_id,
        tenant=slug,
        completion_topic=completion_topic(config.completion_topic, slug),
        topics=[
            TopicView(
                topic=topic,
                state=state,
                partitions=len(parts.get(topic, ())),
                lag=sum(one.lag or 0 for one in parts.get(topic, ())),
                dead_letters=letters.get(topic, 0),
            )
            for topic, state in sorted(_topics(book, slug, readers, named, letters).items())
        ],
        partitions=partitions,
        ingest=[_ingest(actor) for actor in readers],
        relay=_relay(relays[0]) if relays else None,
        dead_letters=sum(letters.values()),
    )


def partitions_of(book: TopicRouting, slug: str, readers: Iterable[Report]) -> list[PartitionView]:
    """Render the tenant's partitions; a live actor's report replaces that of a dead one."""
    rows: dict[tuple[str, int], PartitionView] = {}
    for actor in sorted(readers, key=lambda one: bool(one.get("alive"))):
        for row in stats_of(actor).get("partitions") or ():
            if book.tenant_of(row["topic"]) == slug:
                view = PartitionView.of({**row, "actor": actor["name"]})
                rows[view.topic, view.partition] = view
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
    return error_of(actor) is None


def _topics(
    book: TopicRouting,
    slug: str,
    readers: Sequence[Report],
    named: Sequence[str],
    letters: Iterable[str],
) -> dict[str, TopicState]:
    followed = {topic for one in readers for topic in stats_of(one).get("following") or ()}
    own = {topic for topic in followed if book.tenant_of(topic) == slug}
    wanted = {topic for topic, tenant in book.names if tenant == slug} | {*named}
    foreign = {topic for topic, *_ in book.foreign_topics((topic, slug) for topic in named)}
    has_looked = any(is_connected(actor) for actor in readers)
    return {
        **dict.fromkeys(letters, TopicState.NOT_FOLLOWED),
        **dict.fromkeys(wanted, TopicState.MISSING if has_looked else TopicState.UNKNOWN),
        **dict.fromkeys(own, TopicState.FOLLOWED),
        **dict.fromkeys(foreign, TopicState.NOT_YOURS),
    }


def _ingest(actor: Report) -> IngestView:
    stats = stats_of(actor)
    own = {
        "partitions": len(stats.get("partitions") or ()),
        "without_ids": stats.get("unplaced", 0),
        "verdicts": verdicts_of(stats),
    }
    return IngestView.of(_counts(IngestView, actor) | own)


def _relay(actor: Report) -> RelayView:
    oldest = round(float(stats_of(actor).get("oldest", 0.0)), 3)
    return RelayView.of(_counts(RelayView, actor) | {"oldest_seconds": oldest})


def _counts(view: type[View], actor: Report) -> dict[str, Any]:
    """Return the state of an actor, and its counters by the names of a view's fields."""
    stats = stats_of(actor)
    return {name: stats.get(name, 0) for name in view.model_fields} | {
        "name": actor["name"],
        "alive": bool(actor.get("alive")),
        "connected": is_connected(actor),
        "error": error_of(actor),
        "restarts": actor.get("restarts", 0),
    }
