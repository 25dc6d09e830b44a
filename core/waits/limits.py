"""The limits of one correlation: numbers of events and bytes."""

import msgspec


class WaitLimits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The limits of one correlation. An event that exceeds them is refused with a reason."""

    log_lines: int = 256
    """Entries in the log after which events that do not count are not logged."""
    early_events: int = 256
    """Events that are kept for an address that is not registered."""
    early_bytes: int = 4 * 1024 * 1024
    """Bytes of the events that are kept for an address that is not registered."""
    result_bytes: int = 8 * 1024 * 1024
    """Bytes of all received events of a wait together."""


DEFAULT_LIMITS = WaitLimits()
