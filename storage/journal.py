"""A shard's writes: everything since the last flush in one statement, each row checked."""

from collections.abc import Sequence
from typing import Any

import msgspec

from core.judgement import Status
from core.spec import encode_spec
from core.wait import Entry, Parked, Wait
from storage.pool import Connection
from storage.queries import Q
from storage.rows import json_of

NEW = 0


class Change(msgspec.Struct, gc=False):
    """What one correlation needs written: its last state, and all that hangs on it."""

    key: bytes
    tenant: int
    seen: int
    """The version the stored row must have; NEW if there must be none."""
    wait: Wait | None = None
    entries: list[Entry] = []
    parked: list[Parked] = []
    unparked: list[str] = []


async def flush(
    conn: Connection, changes: Sequence[Change], owner: str, early_ttl: float
) -> set[bytes]:
    """Write all changes; the keys whose state was kept. The rest lost their row to another owner.

    Parked events are rare, so only a flush that has some pays for a transaction of two statements.
    """
    arguments = _arguments(changes, owner)
    if not any(change.parked for change in changes):
        return await _write(conn, arguments)
    async with conn.transaction():
        kept = await _write(conn, arguments)
        await park(conn, _still_valid(changes, kept), early_ttl)
        return kept


async def park(conn: Connection, events: Sequence[tuple[bytes, Parked]], early_ttl: float) -> None:
    """Keep events in the inbox under their correlation's key (empty if an id was missing)."""
    if not events:
        return
    columns = _columns(
        [
            (
                key,
                event.event_id,
                event.address.tenant,
                event.address.execution_id or None,
                event.address.correlation_id or None,
                event.turn_id,
                event.source,
                event.label,
                event.content_type,
                event.payload,
                event.outcome,
                event.verdict,
                event.reason,
                json_of(event.clause),
                event.at,
            )
            for key, event in events
        ],
        width=15,
    )
    await conn.execute(Q["park"], *columns, early_ttl)


async def _write(conn: Connection, arguments: list[Any]) -> set[bytes]:
    if not arguments[0] and not arguments[17]:
        return set()
    rows = await conn.fetch(Q["flush"], *arguments)
    return {row["wait_key"] for row in rows}


def _still_valid(changes: Sequence[Change], kept: set[bytes]) -> list[tuple[bytes, Parked]]:
    """Leave out what was decided on a state that another owner had moved on."""
    return [
        (change.key, event)
        for change in changes
        if change.wait is None or change.key in kept
        for event in change.parked
    ]


def _arguments(changes: Sequence[Change], owner: str) -> list[Any]:
    opened = [_opened(c.key, c.wait) for c in changes if c.wait and c.seen == NEW]
    saved = [_saved(c.key, c.seen, c.wait) for c in changes if c.wait and c.seen != NEW]
    lines = [_line(c, entry) for c in changes for entry in c.entries]
    unparked = [(c.key, event_id) for c in changes for event_id in c.unparked]
    return [
        *_columns(opened, width=17),
        *_columns(saved, width=9),
        *_columns(lines, width=11),
        *_columns(unparked, width=2),
        owner,
    ]


def _opened(key: bytes, wait: Wait) -> tuple[Any, ...]:
    return (
        key,
        wait.address.tenant,
        wait.address.execution_id,
        wait.address.correlation_id,
        wait.node_id,
        wait.spec.strategy,
        wait.status,
        wait.version,
        wait.log_length,
        encode_spec(wait.spec).decode(),
        json_of(wait.marks),
        json_of(wait.ending),
        wait.registered_by,
        wait.opened_at,
        wait.expires_at,
        wait.due_at,
        _resumed_at(wait),
    )


def _saved(key: bytes, seen: int, wait: Wait) -> tuple[Any, ...]:
    return (
        key,
        seen,
        wait.version,
        wait.log_length,
        wait.status,
        json_of(wait.marks),
        json_of(wait.ending),
        wait.due_at,
        _resumed_at(wait),
    )


def _line(change: Change, entry: Entry) -> tuple[Any, ...]:
    return (
        change.key,
        entry.event_id,
        change.tenant,
        entry.seq,
        entry.kind,
        entry.event,
        entry.source,
        entry.label,
        entry.content_type,
        entry.payload,
        entry.at,
    )


def _resumed_at(wait: Wait) -> float | None:
    """Set in the same write that completes the wait, so that no second resume can happen."""
    ending = wait.ending
    return ending.at if ending and ending.status is Status.COMPLETED else None


def _columns(rows: list[tuple[Any, ...]], width: int) -> list[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [[] for _ in range(width)]
