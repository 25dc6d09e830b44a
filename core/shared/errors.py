"""Every error the product raises on purpose.

Constructors pass their arguments up unchanged, so an error keeps its type when Ray pickles it.
"""

from typing import NamedTuple


class Denial(NamedTuple):
    """Why a caller was not let in, for the log and the counters."""

    reason: str
    key: str = ""
    """The prefix of the API key in the request, if such a key exists."""
    tenant: int = 0
    """The tenant of that key."""


class MusterError(Exception):
    retryable = False


class InvalidError(MusterError):
    """The request breaks a rule; `field` names the place, `expected` says what would be right."""

    def __init__(self, field: str, expected: str, status: int = 422) -> None:
        super().__init__(field, expected, status)
        self.field, self.expected, self.status = field, expected, status

    def __str__(self) -> str:
        return f"{self.field}: {self.expected}"


class NotFoundError(MusterError):
    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} does not exist"


class ConflictError(MusterError):
    """The request contradicts what is stored."""


class DeniedError(MusterError):
    """The caller may not do this; `detail` is for the caller, `denial` for the operator."""

    def __init__(self, detail: str, denial: Denial = Denial("other")) -> None:  # noqa: B008  a constant
        super().__init__(detail, denial)
        self.detail, self.denial = detail, denial

    def __str__(self) -> str:
        return self.detail


class UnauthenticatedError(DeniedError):
    """The caller did not prove its identity."""


class ForbiddenError(DeniedError):
    """The caller is known but lacks the permission."""


class QuotaExceededError(MusterError):
    """The tenant has used up the quota that `quota` names."""

    def __init__(self, quota: str, limit: int, retry_after: int | None = None) -> None:
        super().__init__(quota, limit, retry_after)
        self.quota, self.limit, self.retry_after = quota, limit, retry_after

    def __str__(self) -> str:
        return f"this tenant has used up its quota {self.quota}, which is {self.limit}"


class TransientError(MusterError):
    """The same request may succeed after `retry_after` seconds."""

    retryable = True

    def __init__(self, detail: str, retry_after: int = 1) -> None:
        super().__init__(detail, retry_after)
        self.detail, self.retry_after = detail, retry_after

    def __str__(self) -> str:
        return self.detail


class OverloadedError(TransientError):
    """A queue is full; nothing was accepted."""


class UnavailableError(TransientError):
    """A part of Muster did not answer in time; the request may or may not have been accepted."""
