"""Compares the schema of a database with the one that this version of the code needs."""

import time
from typing import Any

import asyncpg
import structlog

from core.shared.schema_version import schema_problem
from storage.postgres.migration_files import known
from storage.postgres.queries import Q

log = structlog.get_logger("schema")

LOG_EVERY = 10.0


class SchemaMismatchError(ConnectionError):
    """This version cannot run on the database's schema.

    It is a ConnectionError, so that callers retry until version and schema match.
    """


class _MismatchLog:
    """Logs a mismatch at most once in `LOG_EVERY` seconds, however many connections find it."""

    def __init__(self) -> None:
        self._written_at = float("-inf")

    def write(self, problem: str) -> None:
        if time.monotonic() - self._written_at > LOG_EVERY:
            self._written_at = time.monotonic()
            log.error("schema.mismatch", problem=problem)


_mismatch_log = _MismatchLog()


async def applied_migrations(conn: Any) -> dict[str, str | None]:
    """Read the applied migrations, each with the oldest compatible schema; may be empty."""
    try:
        rows = await conn.fetch(Q["applied_migrations"])
    except asyncpg.UndefinedTableError:
        return {}
    return {row["name"]: row["compatible_from"] for row in rows}


async def check_schema(conn: Any) -> None:
    """Raise SchemaMismatchError if this version must not run on the connection's database."""
    problem = schema_problem([one.name for one in known()], await applied_migrations(conn))
    if problem is not None:
        _mismatch_log.write(problem)
        raise SchemaMismatchError(problem)
