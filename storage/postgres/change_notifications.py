"""What has changed, told to every process that keeps a copy.

services/shared/change_listener.py listens.
"""

from enum import StrEnum

from storage.postgres.pool import Connection
from storage.postgres.queries import Q

CHANNEL = "muster_changes"


class ChangeTopic(StrEnum):
    """What kind of thing has changed."""

    SUBSCRIPTIONS = "subscriptions"
    TARGETS = "targets"
    POOLS = "pools"
    EVENT_TYPES = "event_types"
    SIGNING_SECRETS = "signing_secrets"


async def notify(conn: Connection, topic: ChangeTopic, tenant: int | None = None) -> None:
    """Say so when the transaction of this connection is committed, and not if it is not.

    Whose it is, if it is one tenant's, spares the copies of the others.
    """
    await conn.execute(Q["notify_change"], topic.value if tenant is None else f"{topic} {tenant}")


def read_notice(text: str) -> tuple[str, int | None]:
    """The topic and the tenant of what was said."""
    topic, _, whose = text.partition(" ")
    return topic, int(whose) if whose.isdecimal() else None
