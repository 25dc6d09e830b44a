"""API keys: their format, their hashes and their permissions."""

import hashlib
from enum import StrEnum


class Permission(StrEnum):
    """A permission of an API key. Each route requires one."""

    WAITS_READ = "waits:read"
    WAITS_WRITE = "waits:write"
    CALLBACKS_WRITE = "callbacks:write"
    INBOX_READ = "inbox:read"
    INBOX_WRITE = "inbox:write"
    DEAD_LETTERS_READ = "dead_letters:read"
    DEAD_LETTERS_WRITE = "dead_letters:write"
    KAFKA_READ = "kafka:read"
    GATHERS_READ = "gathers:read"
    GATHERS_WRITE = "gathers:write"
    RESOURCES_READ = "resources:read"
    RESOURCES_WRITE = "resources:write"
    EVENTS_READ = "events:read"
    EVENTS_WRITE = "events:write"
    EVENT_TYPES_READ = "event_types:read"
    EVENT_TYPES_WRITE = "event_types:write"
    SUBSCRIPTIONS_READ = "subscriptions:read"
    SUBSCRIPTIONS_WRITE = "subscriptions:write"
    DISPATCH_READ = "dispatch:read"
    DISPATCH_WRITE = "dispatch:write"
    COLLECTIONS_READ = "collections:read"
    COLLECTIONS_WRITE = "collections:write"
    RECORDS_READ = "records:read"
    RECORDS_WRITE = "records:write"
    WORKFLOWS_READ = "workflows:read"
    METRICS_READ = "metrics:read"
    KEYS_WRITE = "keys:write"
    AUDIT_READ = "audit:read"


ALL_PERMISSIONS = tuple(Permission)
MAX_PREFIX = 64


def compose_key(prefix: str, secret: str) -> str:
    """Return the full key, which is shown only once."""
    return f"mk_{prefix}_{secret}"


def split_key(key: str) -> tuple[str, bytes] | None:
    """Return the prefix and the hash of the secret, or None if the text cannot be a key."""
    kind, _, rest = key.partition("_")
    prefix, _, secret = rest.partition("_")
    if kind != "mk" or not 0 < len(prefix) <= MAX_PREFIX or not secret or not key.isascii():
        return None
    return prefix, hash_secret(secret)


def hash_secret(secret: str) -> bytes:
    """Hash a secret. Secrets are 32 random bytes, so a fast hash is enough."""
    return hashlib.sha256(secret.encode()).digest()
