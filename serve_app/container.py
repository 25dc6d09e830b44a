"""The container of one ingress replica: it builds the services that routes call."""

import asyncio
import random
import time
from collections.abc import Iterable
from functools import partial

import structlog

from actors.client import LISTING_CONNECTIONS, ActorClient
from core.access.tokens import CALLBACK, STREAM
from core.access.usage_counter import UsageCounter
from core.events.event_type import Admission
from core.records.validation import MASK
from core.shared.quotas import Quota
from handlers.filters.cel import filter_counters, passes_filter
from serve_app.cluster_stats import ClusterStats, RateMeter
from serve_app.dispatch.status import DispatchStatusReader
from serve_app.gathers.service import GatherService
from serve_app.http.auth import ApiKeyVerifier, TokenSigner
from serve_app.kafka.status import SLUG_TTL, KafkaStatusReader
from serve_app.limits.load_limiter import LoadLimiter
from serve_app.operations.health_checks import Health
from serve_app.streams.hub import StreamHub
from serve_app.waits.registration import WaitRegistrar
from services.access.quota_monitor import CountQuotas, QuotaWatch, usage_source
from services.access.usage_writer import FLUSH_INTERVAL as USAGE_INTERVAL
from services.access.usage_writer import UsageWriter
from services.dispatch.pool_notifier import PoolNotifier
from services.events.intake import CloudEventIntake
from services.events.subscription_cache import SubscriptionCache
from services.events.validator import EventValidator
from services.events.writer import EventWriter, EventWriterLimits
from services.kafka.ingest import IngestDeps
from services.kafka.ingest_store import RedriveStore
from services.kafka.redrive import Redrive
from services.operations.warning_writer import WarningWriter
from services.records.definition_changes import DefinitionChanges
from services.records.path_services import PathServices
from services.records.record_collections import RecordCollections
from services.records.record_deletion import RecordDeletion
from services.records.record_numbers import AutoNumbers
from services.records.record_writer import RecordWriter
from services.shared.cache import Cache
from services.shared.change_listener import ChangeListener
from services.shared.database import Database
from services.shared.ids import IdGenerator, IdLeases
from services.shared.listings import Listings
from services.shared.process import new_turn_id, repeat
from services.shared.retry import skip_during_outage
from services.waits.completion_topics import CompletionTopics
from services.waits.intake import CorrelationResolver, EventIntake, IdFieldRegistry
from services.waits.wait_topics import WaitTopics
from settings.ingress import IngressOptions
from storage.access import keys as access
from storage.access import usage
from storage.dispatch import subscriptions
from storage.encryption import keys
from storage.encryption.secret_values import encrypt_record_field
from storage.events import event_types
from storage.events.event_store import EventStore
from storage.kafka import named_topics
from storage.operations import warnings
from storage.operations.warnings import NewWarning, Severity
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import PoolOptions
from storage.records import collections, records
from storage.waits import waits
from telemetry.registry import Metrics

log = structlog.get_logger("replica")

KEY_USE_INTERVAL = 30.0
DENIAL_LOG_INTERVAL = 5.0


class Replica:
    """The services that routes call. Made in the event loop that serves the requests."""

    def __init__(
        self, client: ActorClient, options: IngressOptions, gate: LoadLimiter, metrics: Metrics
    ) -> None:
        self.client = client
        self.config = client.config
        self.options = options
        self.gate = gate
        self.metrics = metrics
        timeout = client.config.request_timeout
        self.database = Database(client.pool, timeout)
        self.listings = Listings(
            Database(client.listing_pool, timeout), LISTING_CONNECTIONS, timeout
        )
        self.paths, self.definition_changes = (
            PathServices(self.listings, MASK),
            DefinitionChanges(self.database, timeout),
        )
        self.new_id = IdGenerator(IdLeases(client.pool, "ingress"), client.clock.now)
        bound = self.database.bind
        # Requests do not wait until the time of a key's last use is stored.
        touch = partial(access.touch_keys, client.pool)
        self.keys = ApiKeyVerifier(bound(access.find_key), bound(access.live_prefixes), touch)
        secrets = bound(access.signing_secrets)
        self.tokens = {purpose: TokenSigner(secrets, purpose) for purpose in (CALLBACK, STREAM)}
        profiles = IdFieldRegistry(bound(access.list_profiles), bound(access.create_profile))
        self.usage = UsageCounter()
        self._usage_writer = UsageWriter(self.usage, partial(usage.add, client.pool))
        self.quotas = QuotaWatch(client.config.quotas, usage_source(client.pool, client.config))
        refused = metrics.quotas.refused = self.quotas.refused
        self.count_quotas = CountQuotas(self.database, client.config.quotas, refused)
        self.intake = EventIntake(
            self.database,
            profiles,
            now=client.clock.now,
            new_turn_id=new_turn_id,
            early_ttl=client.config.early_ttl,
            usage=self.usage,
        )
        named = WaitTopics(self._name_topics, client.clock.now)
        # A tenant's slug does not change.
        slugs = Cache(bound(access.slug_of), ttl=lambda _: SLUG_TTL, monotonic=time.monotonic)
        completion_topics = CompletionTopics(client.config.kafka, slugs.get)
        self.registrar = WaitRegistrar(
            client, profiles, named, completion_topics, self.tokens[CALLBACK]
        )
        self.hub = StreamHub(client, options.heartbeat)
        self.gather_service = GatherService(client, self.database, self.tokens)
        self.cluster_stats = ClusterStats(client)
        self.health = Health(client, self.cluster_stats, lambda: metrics.gathers.streams)
        self.kafka = KafkaStatusReader(client.config.kafka, self.cluster_stats, self.database)
        self.redrive = self._make_redrive(profiles)
        self.event_validator = EventValidator(
            bound(event_types.read),
            bound(event_types.compiled),
            allow_unknown=options.event_types is Admission.OPEN,
        )
        self.notices = ChangeListener()
        # The server may be another one or a restored backup: cached rows may be wrong.
        for forget in (
            named.forget,
            profiles.forget,
            slugs.clear,
            self.kafka.forget,
            self.new_id.renew_soon,
        ):
            self.notices.on_connect(forget)
        self.notices.on_tenant_change(ChangeTopic.EVENT_TYPES, self.event_validator.clear)
        self.subscription_cache = SubscriptionCache(bound(subscriptions.matching), time.monotonic)
        self.notices.on_tenant_change(ChangeTopic.SUBSCRIPTIONS, self.subscription_cache.clear)
        for tokens in self.tokens.values():
            self.notices.on_change(ChangeTopic.SIGNING_SECRETS, tokens.forget)
        metrics.events.filtered = filter_counters.counts
        self.events = self._make_writer()
        self.health.stalled["store_events"] = lambda: self.events.progress.stalled_seconds
        metrics.stalled = self.health.stalled
        self.event_intake = CloudEventIntake(
            self.event_validator,
            self.events,
            client.send_many,
            new_turn_id,
            metrics,
            self.config.request_timeout,
        )
        self.record_collections, self.records, self.record_deletion = self._make_records()
        self.pool_notifier = PoolNotifier(client.ask_pool)
        self.dispatch = DispatchStatusReader(
            self.cluster_stats, self.database, client.ask_pool, client.clock.now
        )
        self.flush_rate = RateMeter()
        oversized = WarningWriter(
            partial(warnings.warn, client.pool),
            lambda: map(oversized_event_warning, filter_counters.oversized().items()),
        )
        self._tasks = (
            asyncio.create_task(repeat("keys", KEY_USE_INTERVAL, self._write_used)),
            asyncio.create_task(repeat("denials", DENIAL_LOG_INTERVAL, metrics.denials.flush_log)),
            asyncio.create_task(repeat("quotas", USAGE_INTERVAL, self._write_usage)),
            asyncio.create_task(self.notices.run_forever(self.config.dsn)),
            asyncio.create_task(oversized.run_forever()),
        )

    def _make_writer(self) -> EventWriter:
        options = PoolOptions(
            dsn=self.config.dsn, name="events", statement_timeout=self.config.request_timeout
        )
        bounds = EventWriterLimits(patience=self.config.request_timeout)
        hand_over = self.client.notify_pools
        return EventWriter(
            EventStore(options, self.usage),
            self.subscription_cache,
            self.new_id,
            hand_over,
            passes_filter,
            bounds,
        )

    def _make_records(self) -> tuple[RecordCollections, RecordWriter, RecordDeletion]:
        bound = self.database.bind
        known = RecordCollections(bound(collections.read), bound(collections.referring))
        self.notices.on_tenant_change(ChangeTopic.COLLECTIONS, known.forget)
        numbers = AutoNumbers(bound(records.lease_numbers))
        send = self.client.send_many
        writer = RecordWriter(known, send, numbers, encrypt_record_field, self.new_id, new_turn_id)
        find = (bound(records.details), bound(records.version))
        return known, writer, RecordDeletion(known, writer, *find)

    def _make_redrive(self, profiles: IdFieldRegistry) -> Redrive:
        deps = IngestDeps(
            resolver=CorrelationResolver(profiles, self.database.bind(waits.load_waits)),
            send_many=self.client.send_many,
            store=RedriveStore(self.client.pool, self.config.early_ttl, self.usage),
            now=self.client.clock.now,
            chance=random.random,
            new_turn_id=new_turn_id,
        )
        patience = self.config.request_timeout
        return Redrive(deps, self.database, self.listings, self.config.max_body, patience)

    async def start(self) -> None:
        """Check the encryption key and prepare ids before the first request, if Postgres is up."""
        with skip_during_outage("ingress"):
            await keys.check(self.client.pool)
        await self.new_id.start()

    async def close(self) -> None:
        """Store what is still in memory, then close the services."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._write_used()
        await self.events.close()
        await self._write_usage()
        await self.health.close()
        await self.new_id.close()
        self.event_validator.close()
        await self.hub.close()
        await self.pool_notifier.close()
        await self.client.close()

    async def _write_usage(self) -> None:
        """Store what each tenant used here, and read what tenants use on all replicas."""
        try:
            with skip_during_outage("quotas"):
                async with asyncio.timeout(self.config.request_timeout):
                    await self._usage_writer.flush()
                    await self.quotas.refresh()
        except Exception:
            log.exception("quotas.not_read")

    async def _name_topics(self, tenant: int, named: Iterable[str], last: float) -> None:
        chosen = sorted(named)
        await self.count_quotas.check_declared(tenant, Quota.TOPICS, chosen)
        await self.database.query(named_topics.name_topics, tenant, chosen, last)

    async def _write_used(self) -> None:
        with skip_during_outage("keys"):
            async with asyncio.timeout(self.config.request_timeout):
                await self.keys.write_used()


def oversized_event_warning(missed: tuple[tuple[int, str], str]) -> NewWarning:
    """Warn a subscription's owner that an event was too large for the filter."""
    (tenant, subscription_id), type_ = missed
    source = f"{subscription_id}/filter"
    message = f"an event of type {type_} is too large for the filter, and was not delivered"
    return NewWarning(tenant, "CONFIGURATION", Severity.WARNING, source, message)
