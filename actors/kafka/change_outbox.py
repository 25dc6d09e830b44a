"""The outbox of record changes and the messages that its rows stand for."""

from collections.abc import Sequence

from actors.kafka.topic_batch import PreparedMessage
from core.records.change_event import ChangedCollection, StoredChange, event_of, kafka_message
from storage.postgres.advisory_locks import AdvisoryLock
from storage.postgres.pool import Connection, Pool
from storage.records import change_outbox, changes
from storage.records.change_outbox import ChangeMessageRow

# The documents that are read at once have at most this many bytes together.
BATCH_BYTES = 8 * 1024 * 1024


class ChangeOutbox:
    """The rows of the outbox, read by the connection that holds the claim on them."""

    lock = AdvisoryLock.CHANGE_RELAY

    def __init__(self, conn: Connection, pool: Pool, source: str) -> None:
        self._conn = conn
        self._pool = pool
        self._source = source

    async def upcoming(
        self, after: int, limit: int, without: Sequence[str]
    ) -> list[ChangeMessageRow]:
        return await change_outbox.next_messages(self._conn, after, limit, without)

    async def messages(self, rows: Sequence[ChangeMessageRow]) -> list[PreparedMessage]:
        found = await changes.read(self._pool, [row.change for row in rows], BATCH_BYTES)
        collections = await changes.read_collections(
            self._pool, (row.change.collection_no for row in rows)
        )
        return [
            self._prepare(row.topic, change, collections.get(row.change.collection_no))
            for row, change in zip(rows, found, strict=False)
        ]

    async def confirm(self, outbox_ids: Sequence[int]) -> None:
        await change_outbox.confirm_messages(self._conn, outbox_ids)

    def _prepare(
        self, topic: str, change: StoredChange | None, collection: ChangedCollection | None
    ) -> PreparedMessage:
        if change is None or collection is None:
            return None
        try:
            return kafka_message(event_of(change, collection), topic, self._source)
        except Exception as error:  # one broken document must not block the others
            return error
