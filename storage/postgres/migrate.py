"""Applies migrations, each once, beside a running Muster, without holding locks for long.

A statement that waits for a table lock blocks all later statements on that table. So it waits two
seconds at most, lets the others proceed, and tries again. Indexes are built concurrently, outside a
transaction; an index whose build was interrupted is dropped and built again.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from core.shared.backoff import backoff
from core.shared.errors import MusterError
from core.shared.schema_version import schema_problem
from storage.postgres.advisory_locks import AdvisoryLock
from storage.postgres.migration_files import Migration, known
from storage.postgres.pool import Connection
from storage.postgres.queries import Q
from storage.postgres.schema_check import applied_migrations

_CONCURRENT_INDEX = re.compile(
    r"create\s+(?:unique\s+)?index\s+concurrently\s+if\s+not\s+exists\s+(\w+)", re.IGNORECASE
)
_PASSING = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)


class MigrationError(MusterError):
    """The schema cannot be migrated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationOptions:
    """How long a migration waits, in seconds, and where it reports its progress."""

    lock_timeout: float = 2.0
    give_up_after: float = 600.0
    longest_pause: float = 5.0
    progress: Callable[[str], None] = lambda _: None


async def pending(dsn: str, migrations: Sequence[Migration] | None = None) -> list[str]:
    """Return the names of the migrations that `migrate` would apply."""
    async with _connected(dsn) as conn:
        return [one.name for one in await _missing(conn, migrations or known())]


async def migrate(
    dsn: str,
    options: MigrationOptions | None = None,
    migrations: Sequence[Migration] | None = None,
) -> list[str]:
    """Apply all missing migrations and return their names.

    Raises:
        MigrationError: The database is too new, or a lock was unavailable for too long.
    """
    run = _Run(options or MigrationOptions())
    async with _connected(dsn) as conn:
        while not await conn.fetchval(Q["try_lock_migrations"], AdvisoryLock.MIGRATE):
            await run.wait(conn, "another migration is under way")
        await conn.execute(Q["create_migrations"])
        await run.insist(conn, lambda: conn.execute(Q["mark_migrations"]), "schema_migrations")
        applied = []
        for migration in await _missing(conn, migrations or known()):
            run.options.progress(f"applying {migration.name}")
            await run.apply(conn, migration)
            applied.append(migration.name)
        return applied


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[Connection]:
    conn = await asyncpg.connect(dsn, server_settings={"statement_timeout": "0"})
    try:
        yield conn
    finally:
        await conn.close()


class _Run:
    """One run over all missing migrations."""

    def __init__(self, options: MigrationOptions) -> None:
        self.options = options
        self._attempt = 0
        self._waiting_since: float | None = None

    async def apply(self, conn: Connection, migration: Migration) -> None:
        if migration.is_transaction:
            await self.insist(conn, lambda: self._in_transaction(conn, migration), migration.name)
            return
        for statement in migration.statements:
            await self._alone(conn, statement, migration.name)
        await _record(conn, migration)

    async def insist(
        self, conn: Connection, work: Callable[[], Awaitable[object]], name: str
    ) -> None:
        """Repeat work that takes locks until it gets them, with pauses in which others proceed."""
        await conn.execute(f"set lock_timeout = {int(self.options.lock_timeout * 1000)}")
        while True:
            try:
                await work()
            except _PASSING:
                await self.wait(conn, f"{name} waits for a lock")
            else:
                self._attempt, self._waiting_since = 0, None
                return

    async def wait(self, conn: Connection, why: str) -> None:
        """Pause, and report the reason and the transactions that may block."""
        now = time.monotonic()
        since = self._waiting_since = self._waiting_since or now
        holders = "; ".join(
            f"{row['application_name'] or 'somebody'} (pid {row['pid']}, {row['state']}) has been "
            f"in a transaction for {row['seconds']:.0f} s"
            for row in await conn.fetch(Q["longest_transactions"])
        )
        said = f"{why}{': ' if holders else ''}{holders}"
        if now - since > self.options.give_up_after:
            raise MigrationError(f"gave up after {now - since:.0f} s: {said}")
        self.options.progress(said)
        self._attempt += 1
        cap = self.options.longest_pause
        await asyncio.sleep(backoff(min(self._attempt, 10), base=0.25, cap=cap, jitter=0.5))

    async def _in_transaction(self, conn: Connection, migration: Migration) -> None:
        async with conn.transaction():
            await conn.execute(migration.sql)
            await _record(conn, migration)

    async def _alone(self, conn: Connection, statement: str, name: str) -> None:
        index = _CONCURRENT_INDEX.search(statement)
        if index is None:
            await self.insist(conn, lambda: conn.execute(statement), name)
            return
        # It takes no lock that blocks writers, but waits for old transactions.
        await conn.execute("set lock_timeout = 0")
        broken = await conn.fetchval(Q["find_invalid_index"], index.group(1))
        if broken is not None:
            self.options.progress(f"removing {broken}, whose building was broken off")
            await conn.execute(f"drop index concurrently {broken}")
        self.options.progress(f"building {index.group(1)} beside running traffic")
        await conn.execute(statement)


async def _record(conn: Connection, migration: Migration) -> None:
    await conn.execute(Q["record_migration"], migration.name, migration.compatible_from)


async def _missing(conn: Connection, migrations: Sequence[Migration]) -> list[Migration]:
    applied = await applied_migrations(conn)
    own = [one.name for one in migrations]
    # As if it were applied: is there something newer that this version cannot work behind?
    problem = schema_problem(own, {**dict.fromkeys(own), **applied})
    if problem is not None:
        raise MigrationError(problem)
    return [migration for migration in migrations if migration.name not in applied]
