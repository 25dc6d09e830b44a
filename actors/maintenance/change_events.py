"""Hosts what makes events of record changes: the writer of events and all that it needs."""

import time
from functools import partial

from actors.dispatch.job_notifier import JobNotifier
from actors.runtime.directory import Directory
from core.access.usage_counter import UsageCounter
from core.shared.config import Config
from handlers.filters.cel import passes_filter
from services.access.usage_writer import UsageWriter
from services.events.change_events import ChangeEventRelay
from services.events.subscription_cache import SubscriptionCache
from services.events.writer import EventWriter
from services.shared.change_listener import ChangeListener
from services.shared.ids import IdGenerator, IdLeases
from storage.access import usage
from storage.dispatch import job_queue, subscriptions
from storage.events.event_store import EventStore
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import Pool, PoolOptions

NAME = "change events"


class ChangeEventHost:
    """It must be created in the loop that it runs in."""

    def __init__(
        self, config: Config, pool: Pool, clock: DatabaseClock, directory: Directory
    ) -> None:
        self._options = PoolOptions(dsn=config.dsn, name=NAME)
        self.notices = ChangeListener()
        cache = SubscriptionCache(partial(subscriptions.matching, pool), time.monotonic)
        self.notices.on_tenant_change(ChangeTopic.SUBSCRIPTIONS, cache.clear)
        self._ids = IdGenerator(IdLeases(pool, NAME), clock.now)
        self.notices.on_connect(self._ids.renew_soon)
        counter = UsageCounter()
        self.flush_usage = UsageWriter(counter, partial(usage.add, pool)).flush
        notify = JobNotifier(directory.call, partial(job_queue.mark_pending, pool)).notify
        store = EventStore(self._options, counter)
        self._writer = EventWriter(store, cache, self._ids, notify, passes_filter)
        self.relay = ChangeEventRelay(pool, self._writer.put)

    async def run_forever(self) -> None:
        await self._ids.start()
        await self.relay.run_forever(self._options)
