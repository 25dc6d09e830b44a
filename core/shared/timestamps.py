"""Points in time as people and programs outside read them."""

from datetime import UTC, datetime


def to_iso(at: float) -> str:
    """An instant in ISO 8601, in UTC, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")[:-6] + "Z"
