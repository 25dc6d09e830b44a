"""The Ray actor of maintenance: cleanup, encryption of old rows, backlog warnings."""

from functools import partial

from actors.maintenance.backlog_monitor import CHECK_INTERVAL, BacklogMonitor
from actors.maintenance.cleanup import Sweeper
from actors.maintenance.encryption_sweep import EncryptionSweep
from actors.messaging.shard_client import ShardClient
from actors.runtime.actor import Actor
from actors.runtime.directory import Directory
from actors.runtime.names import SUPERVISOR
from storage.postgres.pool import PoolOptions

SUPERVISOR_INTERVAL = 2.0


class MaintenanceActor(Actor):
    """Runs background work. The supervisor starts it after all other actors."""

    kind = "maintenance"

    async def _start(self) -> None:
        config = self._config
        options = PoolOptions(dsn=config.dsn, name=self._name, max_size=2)
        pool = await self._open_database(options)
        directory = Directory(config)
        router = ShardClient.open(config, directory)
        sweeper = Sweeper(config, pool, router.send_many, self._environment.now)
        self._every(config.sweep_every, sweeper.reoffer, "reoffer")
        self._every(config.sweep_every, sweeper.forget, "forget")
        self._every(config.sweep_every, EncryptionSweep(pool).run)
        self._every(CHECK_INTERVAL, BacklogMonitor(pool).check)
        # The supervisor checks all actors; this call checks the supervisor.
        self._every(SUPERVISOR_INTERVAL, partial(directory.report, SUPERVISOR))
