"""Weekly partitions of a table that is only appended to, by the time in its ids.

Which partitions should exist, and which may go. A row for which there is no partition is stored in
the default partition, so a partition that is late loses nothing.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from core.shared.tsid import first_at

WEEK = 7 * 86_400
WEEKS_AHEAD = 4
MARGIN = 60.0
"""Seconds from now at which a partition begins if rows of its week are elsewhere already."""
_MONDAY = 4 * 86_400  # the first Monday after the epoch


class Partition(NamedTuple):
    """The ids from `first` up to, without, `end`."""

    name: str
    first: str
    end: str


def week_of(table: str, at: float) -> Partition:
    """Return the partition of the week that contains this time."""
    start = (int(at) - _MONDAY) // WEEK * WEEK + _MONDAY
    day = datetime.fromtimestamp(start, UTC)
    return Partition(f"{table}_{day:%Y%m%d}", first_at(start), first_at(start + WEEK))


def missing_partitions(
    table: str, existing: Iterable[Partition], now: float, newest_elsewhere: str | None = None
) -> list[Partition]:
    """List the partitions of this week and the next ones that do not exist.

    `newest_elsewhere` is the newest id in the default partition. Its rows stay there, and more may
    come while a partition is made, so one that begins among them begins a little later than now.
    """
    known = list(existing)
    wanted = (week_of(table, now + week * WEEK) for week in range(WEEKS_AHEAD + 1))
    missing = (one for one in wanted if not any(_overlap(one, other) for other in known))
    if newest_elsewhere is not None:
        missing = (_behind(one, newest_elsewhere, first_at(now + MARGIN)) for one in missing)
    return [one for one in missing if one.first < one.end]


def is_prepared(existing: Iterable[Partition], now: float) -> bool:
    """Return whether there is a partition for the ids that are made in a week."""
    then = first_at(now + WEEK)
    return any(one.first <= then < one.end for one in existing)


def expired_partitions(
    existing: Iterable[Partition], before: float, oldest_needed: str | None = None
) -> list[Partition]:
    """List the partitions with nothing but ids from before this time, the oldest first.

    Those from the one that contains the oldest needed id on stay.
    """
    bound = expiry_bound(before, oldest_needed)
    return sorted((one for one in existing if one.end <= bound), key=lambda one: one.first)


def expiry_bound(before: float, oldest_needed: str | None = None) -> str:
    """Return the id below which rows may go."""
    bound = first_at(before)
    return bound if oldest_needed is None else min(bound, oldest_needed)


def _overlap(one: Partition, other: Partition) -> bool:
    return one.first < other.end and other.first < one.end


def _behind(one: Partition, newest: str, soon: str) -> Partition:
    """Return what is left of a partition behind the newest id elsewhere, and behind `soon`."""
    if newest < one.first:
        return one
    # In the order of ids, this text comes directly behind the newest.
    return one._replace(first=min(max(soon, newest + "0"), one.end))
