"""How a call to a resource or a webhook target ended."""

from enum import StrEnum


class CallState(StrEnum):
    """The state of one call, in the words that the API shows."""

    CALLING = "calling"
    ACCEPTED = "accepted"
    OK = "ok"
    REJECTED = "REJECTED"
    TIMEOUT = "TIMEOUT"
    CONNECTION_CLOSED = "CONNECTION_CLOSED"
    ERROR = "ERROR"
