"""Writes all changes of a shard since its last flush in one statement that checks each row."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple

from core.waits.completion_event import OutgoingEvent
from core.waits.state import ParkedEvent, Wait, WaitLogEntry
from core.waits.strategy import Status
from storage.postgres.pool import Connection
from storage.postgres.queries import Q
from storage.waits.spec_cache import KnownSpecs, SpecRow
from storage.waits.wait_rows import json_of

NO_VERSION = 0
# The number of refused events that are stored for each correlation.
REFUSED_KEPT = 256
REFUSED_BYTES = 4 * 1024 * 1024


class WaitChange(msgspec.Struct, gc=False):
    """The changes of one correlation to write: its latest state, log entries and events."""

    key: bytes
    tenant: int
    stored_version: int
    """The version the stored row must have; NEW if there must be none."""
    wait: Wait | None = None
    entries: list[WaitLogEntry] = []
    parked: list[ParkedEvent] = []
    taken_from_inbox: list[str] = []
    outgoing: list[OutgoingEvent] = []


class FlushWriter:
    def __init__(self, owner: str, early_ttl: float) -> None:
        self._owner = owner
        self._early_ttl = early_ttl
        self._specs = KnownSpecs()

    def forget(self) -> None:
        """Forget which specs are stored: the server may be another or a restored one."""
        self._specs = KnownSpecs()

    async def flush(self, conn: Connection, changes: Sequence[WaitChange]) -> set[bytes]:
        """Write all changes; return the keys whose state was stored.

        The other rows belong to another owner by now.
        Only a flush with parked events needs a transaction of two statements; such events are rare.
        """
        specs = self._specs.unknown_to_postgres(
            change.wait
            for change in changes
            if change.wait is not None and change.stored_version == NO_VERSION
        )
        if any(change.parked for change in changes):
            async with conn.transaction():
                kept = await self._write(conn, specs, changes)
                await write_parked(conn, _still_valid(changes, kept), self._early_ttl)
        else:
            kept = await self._write(conn, specs, changes)
        self._specs.remember(specs)
        return kept

    async def _write(
        self, conn: Connection, specs: list[SpecRow], changes: Sequence[WaitChange]
    ) -> set[bytes]:
        opened: list[tuple[Any, ...]] = []
        saved: list[tuple[Any, ...]] = []
        lines: list[tuple[Any, ...]] = []
        taken: list[tuple[bytes, str]] = []
        outgoing: list[tuple[Any, ...]] = []
        for change in changes:
            key, wait = change.key, change.wait
            if wait is None:
                continue  # nothing but parked events
            if change.stored_version == NO_VERSION:
                opened.append(_opened(key, wait))
            else:
                saved.append(_saved(key, change.stored_version, wait))
            lines += [(key, change.tenant, *astuple(entry)) for entry in change.entries]
            taken += [(key, event_id) for event_id in change.taken_from_inbox]
            outgoing += [(key, change.tenant, o.topic, o.key, o.type) for o in change.outgoing]
        if not opened and not saved:
            return set()
        arguments = (specs, opened, saved, lines, taken, outgoing, self._owner)
        rows = await conn.fetch(Q["flush"], *arguments)
        return {row[0] for row in rows}


async def write_parked(
    conn: Connection, events: Sequence[tuple[bytes, ParkedEvent]], early_ttl: float
) -> None:
    """Store events in the inbox under their correlation's key (empty if an id is missing)."""
    if not events:
        return
    # A statement may touch a row only once: of two copies of an event, the later verdict is stored.
    last = {(key, event.address.tenant, event.event_id): (key, event) for key, event in events}
    rows = [_parked(key, event) for key, event in last.values()]
    await conn.execute(Q["park"], rows, early_ttl, REFUSED_KEPT, REFUSED_BYTES)


def _still_valid(
    changes: Sequence[WaitChange], kept: set[bytes]
) -> list[tuple[bytes, ParkedEvent]]:
    """Leave out events that were decided on a state that another owner has changed."""
    return [
        (change.key, event)
        for change in changes
        if change.wait is None or change.key in kept
        for event in change.parked
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
        wait.spec.digest,
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


def _resumed_at(wait: Wait) -> float | None:
    """Return the resume time, which is stored with the completion so that no wait resumes twice."""
    ending = wait.ending
    return ending.at if ending and ending.status is Status.COMPLETED else None


def _parked(key: bytes, event: ParkedEvent) -> tuple[Any, ...]:
    return (
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
