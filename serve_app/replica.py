"""All that one ingress replica holds."""

import asyncio
import random
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import structlog

from actors.addressing import Addressing
from actors.cache import Cache
from actors.event_writer import Bounds, EventWriter
from actors.gateway import LISTING_CONNECTIONS, Gateway
from actors.ids import IdLeases, Ids
from actors.ingest import Means
from actors.notices import Notices
from actors.process import mint
from actors.profiles import Profiles
from actors.quota_watch import QuotaWatch, usage_source
from actors.subscription_cache import SubscriptionCache
from actors.usage_writer import EVERY as TELL_USAGE_EVERY
from actors.usage_writer import UsageWriter
from actors.warning_book import WarningBook
from core.event_type import Admission
from core.quotas import Quota
from core.tokens import CALLBACK, STREAM
from core.usage_counter import UsageCounter
from handlers.filters import tally, wanted
from serve_app.auth import Keys, Tokens
from serve_app.census import Census, Rate
from serve_app.channels import Hub
from serve_app.conformity import Conformity
from serve_app.count_quotas import CountQuotas
from serve_app.database import Database
from serve_app.dispatch_view import DispatchSight
from serve_app.event_desk import EventDesk
from serve_app.gate import Gate
from serve_app.gatherer import Gatherer
from serve_app.health import Health
from serve_app.intake import Intake
from serve_app.kafka_view import SLUG_TTL, KafkaSight
from serve_app.listings import Listings
from serve_app.named_topics import NamedTopics
from serve_app.options import IngressOptions
from serve_app.pool_bell import PoolBell
from serve_app.redrive import InboxStore, Redrive
from serve_app.registrar import Registrar
from serve_app.told_topics import ToldTopics
from storage import (
    access,
    dispatch_warnings,
    encryption_keys,
    event_types,
    subscriptions,
    topics,
    usage,
    waits,
)
from storage.changes import Topic
from storage.dispatch_warnings import NewWarning, Severity
from storage.error_class import SERVER_ERRORS
from storage.event_store import EventStore
from storage.pool import PoolOptions
from telemetry.metrics import Metrics

log = structlog.get_logger("replica")

WRITE_USED_EVERY = 30.0
TELL_DENIALS_EVERY = 5.0


class Replica:
    """The parts that routes call. Made in the event loop that serves the requests."""

    def __init__(
        self, gateway: Gateway, options: IngressOptions, gate: Gate, metrics: Metrics
    ) -> None:
        self.gateway = gateway
        self.config = gateway.config
        self.options = options
        self.gate = gate
        self.metrics = metrics
        patience = gateway.config.request_timeout
        self.database = Database(gateway.pool, patience)
        self.listings = Listings(
            Database(gateway.listing_pool, patience), LISTING_CONNECTIONS, patience
        )
        self.new_id = Ids(IdLeases(gateway.pool, "ingress"), gateway.clock.now)
        asker = self.database.asker
        # When a key was last used is not worth waiting for.
        touch = partial(access.touch_keys, gateway.pool)
        self.keys = Keys(asker(access.find_key), asker(access.live_prefixes), touch)
        secrets = asker(access.signing_secrets)
        self.tokens = {purpose: Tokens(secrets, purpose) for purpose in (CALLBACK, STREAM)}
        profiles = Profiles(asker(access.list_profiles), asker(access.create_profile))
        self.usage = UsageCounter()
        self._usage_writer = UsageWriter(self.usage, partial(usage.add, gateway.pool))
        self.quotas = QuotaWatch(gateway.config.quotas, usage_source(gateway.pool, gateway.config))
        refused = metrics.quotas.refused = self.quotas.refused
        self.count_quotas = CountQuotas(self.database, gateway.config.quotas, refused)
        self.intake = Intake(gateway, self.database, profiles, self.usage)
        named = NamedTopics(self._name_topics, gateway.clock.now)
        # Tenants keep their names: asked for once.
        slugs = Cache(asker(access.slug_of), ttl=lambda _: SLUG_TTL, monotonic=time.monotonic)
        told = ToldTopics(gateway.config.kafka, slugs.get)
        self.registrar = Registrar(gateway, profiles, named, told, self.tokens[CALLBACK])
        self.hub = Hub(gateway, options.heartbeat)
        self.gatherer = Gatherer(gateway, self.database, self.tokens)
        self.census = Census(gateway)
        self.health = Health(gateway, self.census, lambda: metrics.gathers.streams)
        self.kafka = KafkaSight(gateway.config.kafka, self.census, self.database)
        self.redrive = self._make_redrive(profiles)
        self.conformity = Conformity(
            asker(event_types.read),
            asker(event_types.compiled),
            allow_unknown=options.event_types is Admission.OPEN,
        )
        self.notices = Notices()
        # It may be another server, or one that was put back: nothing is known of it.
        for forget in (named.forget, profiles.forget, slugs.clear, self.kafka.forget):
            self.notices.on_connect(forget)
        self.notices.on_connect(self.new_id.renew_soon)
        self.notices.on_tenants(Topic.EVENT_TYPES, self.conformity.clear)
        self.wishes = SubscriptionCache(asker(subscriptions.matching), time.monotonic)
        self.notices.on_tenants(Topic.SUBSCRIPTIONS, self.wishes.clear)
        for tokens in self.tokens.values():
            self.notices.on(Topic.SIGNING_SECRETS, tokens.forget)
        metrics.events.filtered = tally.counts
        self.events = self._make_writer()
        self.health.stalled["store_events"] = lambda: self.events.progress.stalled_seconds
        metrics.stalled = self.health.stalled
        self.event_desk = EventDesk(
            self.conformity,
            self.events,
            gateway.send_many,
            metrics,
            self.config.request_timeout,
        )
        self.bell = PoolBell(gateway.ask_pool)
        self.dispatch = DispatchSight(
            self.census, self.database, gateway.ask_pool, gateway.clock.now
        )
        self.flush_rate = Rate()
        self._tasks = (
            asyncio.create_task(self._write_used_forever()),
            asyncio.create_task(self._tell_denials_forever()),
            asyncio.create_task(self._tell_usage_forever()),
            asyncio.create_task(self.notices.run_forever(self.config.dsn)),
            asyncio.create_task(self._make_warnings().run_forever()),
        )

    def _make_warnings(self) -> WarningBook:
        write = partial(dispatch_warnings.warn, self.gateway.pool)
        return WarningBook(write, lambda: map(unfiltered, tally.oversized().items()))

    def _make_writer(self) -> EventWriter:
        options = PoolOptions(
            dsn=self.config.dsn, name="events", statement_timeout=self.config.request_timeout
        )
        bounds = Bounds(patience=self.config.request_timeout)
        hand_over = self.gateway.hand_over
        return EventWriter(
            EventStore(options, self.usage), self.wishes, self.new_id, hand_over, wanted, bounds
        )

    def _make_redrive(self, profiles: Profiles) -> Redrive:
        means = Means(
            addressing=Addressing(profiles, self.database.asker(waits.load_waits)),
            send_many=self.gateway.send_many,
            store=InboxStore(self.database, self.config.early_ttl, self.usage),
            now=self.gateway.clock.now,
            chance=random.random,
            mint=mint,
        )
        patience = self.config.request_timeout
        return Redrive(means, self.database, self.listings, self.config.max_body, patience)

    async def start(self) -> None:
        """What has to be asked of Postgres before the first request, if it is there."""
        with suppress(*SERVER_ERRORS):
            await encryption_keys.check(self.gateway.pool)
        await self.new_id.start()

    async def close(self) -> None:
        """Store what is still in memory, then let go."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._write_used()
        await self.events.close()
        await self._tell_usage()
        await self.health.close()
        await self.new_id.close()
        self.conformity.close()
        await self.hub.close()
        await self.bell.close()
        await self.gateway.close()

    async def _write_used_forever(self) -> None:
        while True:
            await asyncio.sleep(WRITE_USED_EVERY)
            await self._write_used()

    async def _tell_denials_forever(self) -> None:
        while True:
            await asyncio.sleep(TELL_DENIALS_EVERY)
            self.metrics.denials.tell_rest()

    async def _tell_usage_forever(self) -> None:
        while True:
            await self._tell_usage()
            await asyncio.sleep(TELL_USAGE_EVERY)

    async def _tell_usage(self) -> None:
        """Tell what was stored here, and read what tenants have stored anywhere."""
        try:
            async with asyncio.timeout(self.config.request_timeout):
                await self._usage_writer.flush()
                await self.quotas.refresh()
        except SERVER_ERRORS as error:
            log.warning("quotas.database_away", error=type(error).__name__)
        except Exception:
            log.exception("quotas.not_read")

    async def _name_topics(self, tenant: int, named: Iterable[str], last: float) -> None:
        chosen = sorted(named)
        await self.count_quotas.check_declared(tenant, Quota.TOPICS, chosen)
        await self.database.ask(topics.name_topics, tenant, chosen, last)

    async def _write_used(self) -> None:
        try:
            async with asyncio.timeout(self.config.request_timeout):
                await self.keys.write_used()
        except SERVER_ERRORS as error:
            log.warning("keys.use_not_stored", error=type(error).__name__)


def unfiltered(missed: tuple[tuple[int, str], str]) -> NewWarning:
    """What a subscription's owner is told of an event that its filter was not asked about."""
    (tenant, subscription_id), type_ = missed
    return NewWarning(
        tenant=tenant,
        category="CONFIGURATION",
        severity=Severity.WARNING,
        source=f"{subscription_id}/filter",
        message=f"an event of type {type_} is too large for the filter, and was not delivered",
    )
