"""Refusals: values that say why a request cannot be met, to programs and to people."""

from enum import Enum


class RefusalReason(Enum):
    """What kind of obstacle a refusal names; the HTTP edge maps each to a status."""

    NOT_FOUND = "not found"
    CONFLICT = "conflict"
    FORBIDDEN = "forbidden"
    INVALID = "invalid"
    STALE = "stale"


NOT_FOUND = RefusalReason.NOT_FOUND
CONFLICT = RefusalReason.CONFLICT
FORBIDDEN = RefusalReason.FORBIDDEN
INVALID = RefusalReason.INVALID
STALE = RefusalReason.STALE


class Refusal(Enum):
    """Why a request cannot be met. A member is a reason, and a sentence that says the remedy."""

    def __init__(self, reason: RefusalReason, sentence: str) -> None:
        self.reason = reason
        self.sentence = sentence

    @property
    def code(self) -> str:
        """Return the word for programs; it stays the same over versions."""
        return self.name.lower()
