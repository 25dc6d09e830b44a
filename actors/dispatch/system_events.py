"""Events about the product itself, stored and delivered like any other."""

import asyncio
import time
from functools import partial

import msgspec
from msgspec.structs import replace

from actors.dispatch.job_notifier import JobNotifier
from actors.runtime.directory import Directory
from core.dispatch.subscription import SubscriptionStatus
from core.events.event import Event
from core.shared.config import Config
from core.shared.media_types import JSON
from handlers.filters.cel import passes_filter
from services.events.subscription_cache import SubscriptionCache
from services.events.writer import EventWriter
from services.shared.change_listener import ChangeListener
from services.shared.ids import IdGenerator, IdLeases
from storage.dispatch import job_queue, subscriptions
from storage.events.event_store import EventStore
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import Pool, PoolOptions

SOURCE = "muster"
SUBSCRIPTION_DISABLED = "muster:dispatch:subscription:disabled"


class SystemEvents:
    """Stores system events. The writer is created with the first one: few pools ever need it."""

    def __init__(
        self,
        config: Config,
        pool: Pool,
        clock: DatabaseClock,
        changes: ChangeListener,
        directory: Directory,
    ) -> None:
        self._config = config
        self._pool = pool
        self._directory = directory
        self._clock = clock
        self._subscriptions = SubscriptionCache(
            partial(subscriptions.matching, pool), time.monotonic
        )
        changes.on_tenant_change(ChangeTopic.SUBSCRIPTIONS, self._subscriptions.clear)
        self._ids = IdGenerator(IdLeases(pool, "system events"), clock.now)
        self._writer: EventWriter | None = None
        self._putting = asyncio.Lock()

    async def subscription_disabled(
        self, tenant: int, subscription_id: str, reason: str, version: int | None = None
    ) -> bool:
        """Store the event that a subscription is being paused, once per failure; return whether.

        The event is stored before the subscription is paused, so that a crash in between does not
        lose it. Return False if the subscription is not to be paused: it is not active, does not
        fail, or has another version.
        """
        found = await subscriptions.read(self._pool, tenant, subscription_id)
        if found is None or found.failing_since is None or version not in (None, found.version):
            return False
        if found.status is not SubscriptionStatus.ACTIVE:
            return False
        data = {"subscriptionId": subscription_id, "code": found.code, "reason": reason}
        await self._put(
            Event(
                tenant=tenant,
                event_id="",
                type=SUBSCRIPTION_DISABLED,
                source=SOURCE,
                subject=f"subscription:{found.code}",
                time=self._clock.now(),
                data=msgspec.json.encode(data),
                content_type=JSON,
                deduplication_id=f"{SOURCE}/{subscription_id}/{found.failing_since:.0f}",
            )
        )
        return True

    async def _put(self, event: Event) -> None:
        async with self._putting:
            # Lease a number for this event only: there are many pools, and few numbers.
            await self._ids.start()
            try:
                writer = self._writer = self._writer or self._make_writer()
                await writer.put([replace(event, event_id=self._ids())])
            finally:
                await self._ids.close()

    def _make_writer(self) -> EventWriter:
        store = EventStore(PoolOptions(dsn=self._config.dsn, name="system events"))
        mark_pending = partial(job_queue.mark_pending, self._pool)
        notify = JobNotifier(self._directory.call, mark_pending).notify
        return EventWriter(store, self._subscriptions, self._ids, notify, passes_filter)
