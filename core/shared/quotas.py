"""The quotas of a tenant: storage per day and in total, and the number of things it may define."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

DAY = 86_400.0


class StoredKind(StrEnum):
    """Kinds of rows that are counted when they are stored."""

    WAITS = "waits"
    WAIT_EVENTS = "wait_events"
    INBOX = "inbox"
    EVENTS = "events"
    JOBS = "jobs"
    DEAD_LETTERS = "dead_letters"


class Quota(StrEnum):
    """A quota of a tenant, by its name in the API."""

    ROWS_PER_DAY = "rowsPerDay"
    BYTES_PER_DAY = "bytesPerDay"
    STORED_ROWS = "storedRows"
    STORED_BYTES = "storedBytes"
    KEYS = "keys"
    RESOURCES = "resources"
    EVENT_TYPES = "eventTypes"
    SCHEMAS = "schemas"
    SUBSCRIPTIONS = "subscriptions"
    TOPICS = "topics"
    COLLECTIONS = "collections"

    @property
    def field(self) -> str:
        return self.name.lower()

    @property
    def setting(self) -> str:
        """The setting that limits every tenant."""
        return f"tenant_{self.field}"


PER_DAY: Final = frozenset({Quota.ROWS_PER_DAY, Quota.BYTES_PER_DAY})
STORED: Final = frozenset({Quota.STORED_ROWS, Quota.STORED_BYTES})
COUNTED: Final = tuple(quota for quota in Quota if quota not in PER_DAY | STORED)
"""Numbers of things, counted in their table when one more is created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLimits:
    """The limits of a tenant; 0 means no limit."""

    rows_per_day: int = 1_000_000_000
    bytes_per_day: int = 500_000_000_000
    stored_rows: int = 2_000_000_000
    stored_bytes: int = 1_000_000_000_000
    keys: int = 1_000
    resources: int = 10_000
    event_types: int = 10_000
    schemas: int = 50_000
    subscriptions: int = 50_000
    topics: int = 1_000
    collections: int = 1_000

    def of(self, quota: Quota) -> int | None:
        """Return one limit, or None if there is none."""
        value: int = getattr(self, quota.field)
        return value or None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUsage:
    """Rows and bytes that a tenant stored today, and that are stored; by the names of quotas."""

    rows_per_day: int = 0
    bytes_per_day: int = 0
    stored_rows: int = 0
    stored_bytes: int = 0

    def of(self, quota: Quota) -> int:
        """Return what counts against a storage quota."""
        used: int = getattr(self, quota.field)
        return used


def limit_of(quota: Quota, limits: QuotaLimits, own: Mapping[str, int]) -> int | None:
    """Return the tenant's own limit if it has one, else the common one; None means no limit."""
    value = own.get(quota.value)
    return limits.of(quota) if value is None else value or None


def exhausted_quota(
    usage: StorageUsage, limits: QuotaLimits, own: Mapping[str, int]
) -> tuple[Quota, int] | None:
    """Return the first storage quota that is used up, with its limit."""
    for quota in (*sorted(STORED), *sorted(PER_DAY)):
        limit = limit_of(quota, limits, own)
        if limit is not None and usage.of(quota) >= limit:
            return quota, limit
    return None


def days_kept(early_ttl: float, retention: float) -> dict[StoredKind, int]:
    """Return for how many days rows of each kind may be stored after the day they were written.

    Whole days: rows of yesterday morning count until tonight.
    """
    kept = {kind: math.ceil(retention / DAY) for kind in StoredKind}
    kept[StoredKind.INBOX] = math.ceil(early_ttl / DAY)
    return kept
