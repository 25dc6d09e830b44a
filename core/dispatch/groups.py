"""The state of a message group: its first job, and why the group waits."""

from dataclasses import dataclass
from enum import StrEnum

from core.dispatch.job import JobStatus, Mode


class GroupState(StrEnum):
    """The state of a message group."""

    PARKED = "parked"
    """An operator has parked the group."""
    BLOCKED = "blocked"
    """A job failed permanently, and the jobs behind it must not pass it."""
    DELIVERING = "delivering"
    WAITING = "waiting"
    """The first job is not due: it is delayed, or it failed and waits for a retry."""
    READY = "ready"
    FAILED = "failed"
    """Only failed jobs are left, and they block no others."""
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One of the first jobs of a group."""

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
        """Return the sort key of the job in its group."""
        return self.sequence, self.position


def is_blocked(failed: GroupMember | None, next_up: GroupMember | None) -> bool:
    """Return whether a failed job blocks the next job, or any job that will come.

    A BLOCK_ON_ERROR job waits only for jobs of the same mode, so `failed` must be the first failed
    job of this mode, if the group has one.
    """
    if failed is None or failed.mode is not Mode.BLOCK_ON_ERROR:
        return False
    if next_up is None:
        return True
    return failed.place < next_up.place and next_up.mode is Mode.BLOCK_ON_ERROR


def head_of(failed: GroupMember | None, next_up: GroupMember | None) -> GroupMember | None:
    """Return the job that the others in the group wait for."""
    return failed if next_up is None or is_blocked(failed, next_up) else next_up


def state_of(
    failed: GroupMember | None, next_up: GroupMember | None, *, parked: bool, now: float
) -> GroupState:
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
