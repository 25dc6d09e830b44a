"""Passivation: when an idle correlation may leave memory. Its row in Postgres stays."""

from enum import StrEnum


class PassivationDecision(StrEnum):
    """Whether a correlation stays in memory."""

    KEEP = "keep"
    LEAVE = "leave"


def decide_passivation(
    *, unsaved: bool, ended: bool, idle: float, idle_after: float, crowded: bool
) -> PassivationDecision:
    """Keep unsaved state; let others leave when ended, crowded out or idle for `idle_after`."""
    if unsaved:
        return PassivationDecision.KEEP
    return (
        PassivationDecision.LEAVE
        if ended or crowded or idle >= idle_after
        else PassivationDecision.KEEP
    )
