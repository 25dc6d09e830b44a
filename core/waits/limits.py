"""How much one correlation may hold: by number and in bytes."""

import msgspec


class WaitLimits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The bounds of one correlation. What exceeds them is refused with a reason."""

    log_lines: int = 256
    """From here on, events that only would be noted get no line."""
    early_events: int = 256
    """Most events that are kept for an address nobody has registered."""
    early_bytes: int = 4 * 1024 * 1024
    """Most bytes of these."""
    result_bytes: int = 8 * 1024 * 1024
    """Most bytes that all events of a wait have together."""


DEFAULT_LIMITS = WaitLimits()
