"""When an idle correlation may leave memory. Its row stays, so nothing is lost by it."""

from enum import StrEnum


class Stay(StrEnum):
    """What to do with one activation."""

    KEEP = "keep"
    LEAVE = "leave"


def judge_stay(
    *, unsaved: bool, ended: bool, idle: float, idle_after: float, crowded: bool
) -> Stay:
    """Unsaved state stays; finished or crowded out leaves at once; the rest after `idle_after`."""
    if unsaved:
        return Stay.KEEP
    return Stay.LEAVE if ended or crowded or idle >= idle_after else Stay.KEEP
