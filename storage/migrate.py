"""Numbered migrations, each applied once, under one lock, in one transaction."""

from dataclasses import dataclass
from importlib.resources import files

import asyncpg

from core.errors import MusterError
from storage.pool import Connection
from storage.queries import Q

_LOCK = 0x6D75_7374  # any constant; it keeps two migrating processes apart


class MigrationError(MusterError):
    """The schema is not one that this version can work with."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    name: str
    sql: str


def known() -> list[Migration]:
    """The migrations this version brings, in order."""
    folder = files("storage").joinpath("migrations")
    found = [f for f in folder.iterdir() if f.name.endswith(".sql")]
    return [
        Migration(f.name.removesuffix(".sql"), f.read_text(encoding="utf-8"))
        for f in sorted(found, key=lambda f: f.name)
    ]


async def pending(dsn: str) -> list[str]:
    """The names that `migrate` would apply."""
    conn = await asyncpg.connect(dsn)
    try:
        await conn.execute(Q["create_migrations"])
        return [migration.name for migration in await _missing(conn)]
    finally:
        await conn.close()


async def migrate(dsn: str) -> list[str]:
    """Bring the schema up to date; the names that were applied."""
    conn = await asyncpg.connect(dsn)
    try:
        await conn.execute(Q["lock_migrations"], _LOCK)
        await conn.execute(Q["create_migrations"])
        applied = []
        for migration in await _missing(conn):
            async with conn.transaction():
                await conn.execute(migration.sql)
                await conn.execute(
                    "insert into schema_migrations (name) values ($1)", migration.name
                )
            applied.append(migration.name)
        return applied
    finally:
        await conn.close()


async def _missing(conn: Connection) -> list[Migration]:
    rows = await conn.fetch(Q["applied_migrations"])
    applied = {row["name"] for row in rows}
    unknown = sorted(applied - {migration.name for migration in known()})
    if unknown:
        raise MigrationError(
            f"the database was migrated by a newer version of Muster ({unknown[-1]}): "
            "use that version or another database"
        )
    return [migration for migration in known() if migration.name not in applied]
