"""Passivation: when an idle correlation may leave memory. Its row in Postgres stays."""


def should_passivate(
    *, unsaved: bool, ended: bool, idle: float, idle_after: float, crowded: bool
) -> bool:
    """Keep unsaved state; let others leave when ended, crowded out or idle for `idle_after`."""
    return not unsaved and (ended or crowded or idle >= idle_after)
