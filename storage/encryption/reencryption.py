"""Walks over every stored secret: counts them by key, or encrypts them under the current one.

A walk may be interrupted anywhere: the next one starts again and only reads what is done already.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import structlog

from storage.encryption.cipher import ENCRYPTION_ERRORS, key_ring
from storage.encryption.secret_tables import PLAIN, SECRET_TABLES, SecretTable
from storage.postgres.pool import Pool
from storage.postgres.queries import Q

log = structlog.get_logger("encryption")

BATCH = 500


@dataclass(slots=True)
class ReencryptionProgress:
    """What a walk has found so far."""

    seen: int = 0
    """Rows that were read."""
    renewed: int = 0
    """Rows whose secrets were encrypted again."""
    busy: int = 0
    """Rows that another process changed or locked; the next walk encrypts them."""
    passed: int = 0
    """Rows with values that no key decrypts, which stay as they are."""
    unreadable: Counter[str] = field(default_factory=Counter)
    """Secrets whose key is missing or that are damaged, by key."""


ShowProgress = Callable[[ReencryptionProgress], None]


async def count_by_key(pool: Pool, show: ShowProgress | None = None) -> dict[str, Counter[str]]:
    """Count the secrets of each table by the id of their key, or PLAIN."""
    found: dict[str, Counter[str]] = {table.name: Counter() for table in SECRET_TABLES}
    async for table, rows in _pages(pool, ReencryptionProgress(), show):
        for row in rows:
            keys = (column.find_key(row[column.name]) for column in table.columns)
            found[table.name].update(key for key in keys if key is not None)
    return found


async def encrypt_plain(pool: Pool) -> ReencryptionProgress:
    """Encrypt what was stored before encryption existed, pausing after each batch."""
    return await _renew_all(pool, lambda key: key == PLAIN)


async def reencrypt_all(pool: Pool, show: ShowProgress | None = None) -> ReencryptionProgress:
    """Encrypt everything that is not under the current key."""
    current = key_ring().current
    return await _renew_all(pool, lambda key: key != current, show)


async def _renew_all(
    pool: Pool, is_due: Callable[[str], bool], show: ShowProgress | None = None
) -> ReencryptionProgress:
    walk = ReencryptionProgress()
    async for table, rows in _pages(pool, walk, show):
        began = time.monotonic()
        await _renew(pool, table, rows, is_due, walk)
        await asyncio.sleep(time.monotonic() - began)
    return walk


async def _renew(
    pool: Pool,
    table: SecretTable,
    rows: Sequence[asyncpg.Record],
    is_due: Callable[[str], bool],
    walk: ReencryptionProgress,
) -> None:
    changes = []
    for row in rows:
        keys = [column.find_key(row[column.name]) for column in table.columns]
        if not any(key is not None and is_due(key) for key in keys):
            continue
        try:
            renewed = [
                column.renew(row[column.name], table.location(row, column))
                for column in table.columns
            ]
        except ENCRYPTION_ERRORS as error:
            log.warning("encryption.unreadable", table=table.name, error=str(error))
            walk.unreadable.update(key for key in keys if key is not None and is_due(key))
            continue
        old = [row[column.name] for column in table.columns]
        if renewed == old:
            log.warning("encryption.passed", table=table.name, tenant=row["tenant_id"])
            walk.passed += 1
            continue
        changes.append((*_key(table, row), *old, *renewed))
    if changes:
        done = await pool.fetch(
            Q[f"replace_{table.queries}"], *(list(column) for column in zip(*changes, strict=True))
        )
        walk.renewed += len(done)
        walk.busy += len(changes) - len(done)


async def _pages(
    pool: Pool, walk: ReencryptionProgress, show: ShowProgress | None
) -> AsyncIterator[tuple[SecretTable, Sequence[asyncpg.Record]]]:
    for table in SECRET_TABLES:
        after = table.first
        while rows := await pool.fetch(Q[f"{table.queries}_after"], *after, BATCH):
            walk.seen += len(rows)
            yield table, rows
            after = _key(table, rows[-1])
            if show is not None:
                show(walk)


def _key(table: SecretTable, row: asyncpg.Record) -> tuple[Any, ...]:
    """Return the primary key of a row: its columns come first."""
    return tuple(row)[: len(table.first)]
