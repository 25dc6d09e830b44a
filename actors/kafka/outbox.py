"""The rows of the outbox and the completion events that they stand for."""

from collections.abc import Mapping, Sequence

from actors.kafka.topic_batch import PreparedMessage
from core.waits.completion_event import build_completion
from core.waits.state import Wait
from storage.kafka import outbox
from storage.kafka.outbox import OutgoingRow
from storage.postgres.advisory_locks import AdvisoryLock
from storage.postgres.pool import Connection, Pool
from storage.waits import waits

# The results that are read at once have at most this many bytes together.
BATCH_BYTES = 8 * 1024 * 1024


class Outbox:
    """The rows of the outbox, read by the connection that holds the claim on them."""

    lock = AdvisoryLock.RELAY

    def __init__(self, conn: Connection, pool: Pool, source: str) -> None:
        self._conn = conn
        self._pool = pool
        self._source = source

    async def upcoming(self, after: int, limit: int, without: Sequence[str]) -> list[OutgoingRow]:
        return await outbox.upcoming(self._conn, after, limit, without)

    async def messages(self, rows: Sequence[OutgoingRow]) -> list[PreparedMessage]:
        there = await waits.load_waits(self._pool, list({row.wait_key for row in rows}))
        rows = _first_of(rows, there)
        chosen = {row.wait_key for row in rows}
        counted = await waits.read_counted_of_all(
            self._pool, [wait for key, wait in there.items() if key in chosen]
        )
        made: list[PreparedMessage] = []
        for row in rows:
            wait, lines = there.get(row.wait_key), counted.get(row.wait_key, [])
            if wait is None:
                made.append(None)
                continue
            try:
                made.append(build_completion(wait, lines, row.topic, row.event_type, self._source))
            except Exception as error:  # one broken completion must not block the others
                made.append(error)
        return made

    async def confirm(self, outbox_ids: Sequence[int]) -> None:
        await outbox.confirm(self._conn, outbox_ids)


def _first_of(rows: Sequence[OutgoingRow], there: Mapping[bytes, Wait]) -> Sequence[OutgoingRow]:
    """Return the first rows, up to a number of bytes together but at least one."""
    size = 0
    for index, row in enumerate(rows):
        wait = there.get(row.wait_key)
        size += sum(mark.size for mark in wait.marks) if wait is not None else 0
        if index and size > BATCH_BYTES:
            return rows[:index]
    return rows
