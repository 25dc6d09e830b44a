"""Why somebody was not let in."""

from typing import NamedTuple


class Denial(NamedTuple):
    """Why somebody was not let in, for the log and the counters."""

    reason: str
    key: str = ""
    """The prefix of the key that was named, if there is such a key."""
    tenant: int = 0
    """Whose key that is."""
