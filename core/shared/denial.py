"""Why a caller was not let in."""

from typing import NamedTuple


class Denial(NamedTuple):
    """Why a caller was not let in, for the log and the counters."""

    reason: str
    key: str = ""
    """The prefix of the API key in the request, if such a key exists."""
    tenant: int = 0
    """The tenant of that key."""
