"""Notifies every process that caches rows when they change.

services/shared/change_listener.py listens.
"""

from enum import StrEnum

from storage.postgres.pool import Connection
from storage.postgres.queries import Q

CHANNEL = "muster_changes"


class ChangeTopic(StrEnum):
    """The kind of rows that changed."""

    SUBSCRIPTIONS = "subscriptions"
    TARGETS = "targets"
    POOLS = "pools"
    EVENT_TYPES = "event_types"
    COLLECTIONS = "collections"
    SIGNING_SECRETS = "signing_secrets"


async def notify(conn: Connection, topic: ChangeTopic, tenant: int | None = None) -> None:
    """Notify listeners when the transaction of this connection commits, and not if it rolls back.

    Name the tenant if only its rows changed, so that other tenants' cached rows remain valid.
    """
    await conn.execute(Q["notify_change"], topic.value if tenant is None else f"{topic} {tenant}")


def read_notice(text: str) -> tuple[str, int | None]:
    topic, _, whose = text.partition(" ")
    return topic, int(whose) if whose.isdecimal() else None
