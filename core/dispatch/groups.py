"""How a group of jobs stands: which of them is its head, and what keeps it."""

from dataclasses import dataclass
from enum import StrEnum

from core.dispatch.job import JobStatus, Mode


class GroupState(StrEnum):
    """What a group does."""

    PARKED = "parked"
    """A person holds it back."""
    BLOCKED = "blocked"
    """A job failed for good, and those behind it must not pass."""
    DELIVERING = "delivering"
    WAITING = "waiting"
    """Its head is not due: it was delayed, or failed and will be tried again."""
    READY = "ready"
    FAILED = "failed"
    """What is left failed, and holds nobody."""
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A job at the front of its group."""

    job_id: str
    status: JobStatus
    mode: Mode
    sequence: int
    position: int
    created_at: float
    scheduled_for: float | None = None
    attempt_count: int = 0
    last_error: str | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands in its group."""
        return self.sequence, self.position


def is_blocked(failed: GroupMember | None, next_up: GroupMember | None) -> bool:
    """Whether what failed holds the first that waits, or will hold whatever comes.

    One that blocks on error waits only for those that do so, too: so `failed` is the first of them,
    if the group has any.
    """
    if failed is None or failed.mode is not Mode.BLOCK_ON_ERROR:
        return False
    if next_up is None:
        return True
    return failed.place < next_up.place and next_up.mode is Mode.BLOCK_ON_ERROR


def head_of(failed: GroupMember | None, next_up: GroupMember | None) -> GroupMember | None:
    """The job that everybody in the group waits for."""
    return failed if next_up is None or is_blocked(failed, next_up) else next_up


def state_of(
    failed: GroupMember | None, next_up: GroupMember | None, *, parked: bool, now: float
) -> GroupState:
    """What the group does, in one word."""
    if parked:
        return GroupState.PARKED
    if is_blocked(failed, next_up):
        return GroupState.BLOCKED
    if next_up is None:
        return GroupState.EMPTY if failed is None else GroupState.FAILED
    if next_up.status is JobStatus.IN_PROGRESS:
        return GroupState.DELIVERING
    if next_up.scheduled_for is not None and next_up.scheduled_for > now:
        return GroupState.WAITING
    return GroupState.READY
