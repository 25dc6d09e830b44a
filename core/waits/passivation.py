"""When an idle correlation may leave memory. Its row stays, so nothing is lost by it."""

from enum import StrEnum


class PassivationDecision(StrEnum):
    """What to do with one activation."""

    KEEP = "keep"
    LEAVE = "leave"


def decide_passivation(
    *, unsaved: bool, ended: bool, idle: float, idle_after: float, crowded: bool
) -> PassivationDecision:
    """Unsaved state stays; finished or crowded out leaves at once; the rest after `idle_after`."""
    if unsaved:
        return PassivationDecision.KEEP
    return (
        PassivationDecision.LEAVE
        if ended or crowded or idle >= idle_after
        else PassivationDecision.KEEP
    )
