"""What has changed, told to every process that keeps a copy (actors/notices.py listens)."""

from enum import StrEnum

from storage.pool import Connection
from storage.queries import Q

CHANNEL = "muster_changes"


class Topic(StrEnum):
    """What kind of thing has changed."""

    SUBSCRIPTIONS = "subscriptions"
    POOLS = "pools"
    EVENT_TYPES = "event_types"


async def notify(conn: Connection, topic: Topic) -> None:
    """Say so when the transaction of this connection is committed, and not if it is not."""
    await conn.execute(Q["notify_change"], topic.value)
