"""The Ray actor of maintenance: what no request waits for."""

from dataclasses import asdict
from functools import partial
from typing import Any

import structlog

from actors.maintenance.backlog_monitor import CHECK_INTERVAL, BacklogMonitor
from actors.maintenance.change_events import ChangeEventHost
from actors.maintenance.cleanup import Sweeper
from actors.maintenance.partitions import KEEP_INTERVAL, PartitionKeeper
from actors.messaging.shard_client import ShardClient
from actors.runtime.actor import Actor
from actors.runtime.directory import Directory
from actors.runtime.names import SUPERVISOR
from services.access.usage_writer import FLUSH_INTERVAL as USAGE_INTERVAL
from services.records.reindexer import Reindexer
from storage.encryption import keys, reencryption
from storage.encryption.cipher import key_ring
from storage.postgres.pool import Pool
from storage.records import change_outbox
from storage.records.change_outbox import ChangeBacklog
from storage.records.changes import RECORD_CHANGES

log = structlog.get_logger("encryption")
SUPERVISOR_INTERVAL = 2.0
COUNT_INTERVAL = 5.0


class EncryptionSweep:
    """May be interrupted at any time; a later round continues."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._is_done = False

    async def run(self) -> None:
        """Encrypt plain secrets unless that is done; skip locked rows until the next round."""
        if self._is_done:
            return
        if await keys.is_complete(self._pool):
            self._is_done = True
            return
        await keys.check(self._pool)
        walk = await reencryption.encrypt_plain(self._pool)
        log.info("encryption.swept", seen=walk.seen, encrypted=walk.renewed, busy=walk.busy)
        if not walk.renewed and not walk.busy:
            # No plain row was left: one that was stored meanwhile would have been found.
            await keys.complete(self._pool, key_ring().current)
            self._is_done = True


class MaintenanceActor(Actor[None]):
    """Runs background work. The supervisor starts it after all other actors."""

    kind = "maintenance"
    _keeper: PartitionKeeper | None = None
    _changes: ChangeEventHost | None = None
    _backlog = ChangeBacklog(0, 0.0)

    def _stats(self) -> dict[str, Any]:
        return {
            "tables": asdict(self._keeper.counters) if self._keeper else {},
            "change_events": asdict(self._changes.relay.counters) if self._changes else {},
            "backlog": asdict(self._backlog),
        }

    async def _start(self) -> None:
        config = self._config
        pool = await self._open_database(4)
        directory = Directory(config)
        router = ShardClient.open(config, directory)
        sweeper = Sweeper(config, pool, router.send_many, self._environment.now)
        self._every(config.sweep_every, sweeper.reoffer, "reoffer")
        self._every(config.sweep_every, sweeper.forget, "forget")
        self._every(config.sweep_every, EncryptionSweep(pool).run)
        self._every(config.sweep_every, Reindexer(pool).run, "reindex")
        self._every(CHECK_INTERVAL, BacklogMonitor(pool).check)
        self._keep_partitions(pool)
        self._follow_changes(pool, directory)
        # The supervisor checks all actors; this call checks the supervisor.
        self._every(SUPERVISOR_INTERVAL, partial(directory.call, SUPERVISOR, "report"))

    def _keep_partitions(self, pool: Pool) -> None:
        retentions = {RECORD_CHANGES: self._config.change_retention}
        keeper = self._keeper = PartitionKeeper(pool, retentions, self._environment.now)
        self._measure("partitions", lambda: keeper.progress.stalled_seconds)
        self._every(KEEP_INTERVAL, keeper.keep)

    def _follow_changes(self, pool: Pool, directory: Directory) -> None:
        host = self._changes = ChangeEventHost(
            self._config, pool, self._environment.clock, directory
        )
        self._measure("change_events", lambda: host.relay.progress.stalled_seconds)
        self._spawn(host.run_forever())
        self._spawn(host.notices.run_forever(self._config.dsn))
        self._every(USAGE_INTERVAL, host.flush_usage)
        self._every(COUNT_INTERVAL, partial(self._count_backlog, pool))

    async def _count_backlog(self, pool: Pool) -> None:
        self._backlog = await change_outbox.event_backlog(pool)
