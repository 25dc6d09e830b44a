"""Formats points in time for people and other programs."""

from datetime import UTC, datetime


def to_iso(at: float) -> str:
    """Format seconds since the epoch as ISO 8601 in UTC, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")[:-6] + "Z"
