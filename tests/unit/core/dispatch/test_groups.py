"""How a group stands."""

import pytest

from core.dispatch.groups import GroupMember, GroupState, head_of, is_blocked, state_of
from core.dispatch.job import JobStatus, Mode

NOW = 1_000.0
BLOCK, NEXT = Mode.BLOCK_ON_ERROR, Mode.NEXT_ON_ERROR


def member(
    position: int,
    status: JobStatus = JobStatus.QUEUED,
    mode: Mode = BLOCK,
    scheduled_for: float | None = None,
    sequence: int = 99,
) -> GroupMember:
    return GroupMember(
        job_id=f"job-{position}",
        status=status,
        mode=mode,
        sequence=sequence,
        position=position,
        created_at=NOW - 10,
        scheduled_for=scheduled_for,
    )


def failed(position: int, mode: Mode = BLOCK) -> GroupMember:
    return member(position, JobStatus.ERROR, mode)


@pytest.mark.parametrize(
    ("first_failed", "next_up", "blocked"),
    [
        (None, None, False),
        (None, member(1), False),
        (failed(1), None, True),
        (failed(1, NEXT), None, False),
        (failed(1), member(2), True),
        (failed(1, NEXT), member(2), False),
        (failed(1), member(2, mode=NEXT), False),
        (failed(2), member(1), False),
        (failed(1), member(2, sequence=1), False),
    ],
)
def test_what_failed_holds_what_comes_later_and_must_not_pass(
    first_failed: GroupMember | None, next_up: GroupMember | None, blocked: bool
) -> None:
    assert is_blocked(first_failed, next_up) is blocked
    head = head_of(first_failed, next_up)
    assert head is (first_failed if blocked or next_up is None else next_up)
    state = state_of(first_failed, next_up, parked=False, now=NOW)
    assert (state is GroupState.BLOCKED) is blocked


@pytest.mark.parametrize(
    ("first_failed", "next_up", "state"),
    [
        (None, None, GroupState.EMPTY),
        (failed(1, NEXT), None, GroupState.FAILED),
        (None, member(1, JobStatus.IN_PROGRESS), GroupState.DELIVERING),
        (None, member(1, scheduled_for=NOW + 1), GroupState.WAITING),
        (None, member(1, scheduled_for=NOW), GroupState.READY),
        (None, member(1, JobStatus.PENDING), GroupState.READY),
    ],
)
def test_a_group_that_is_free_does_what_its_head_does(
    first_failed: GroupMember | None, next_up: GroupMember | None, state: GroupState
) -> None:
    assert state_of(first_failed, next_up, parked=False, now=NOW) is state


def test_a_person_goes_before_everything() -> None:
    for next_up in (None, member(2), member(2, JobStatus.IN_PROGRESS)):
        assert state_of(failed(1), next_up, parked=True, now=NOW) is GroupState.PARKED
