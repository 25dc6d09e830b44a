"""What people may do with jobs."""

import pytest

from core.dispatch.job import QUEUE_STATE_OF, JobStatus, QueueState
from core.dispatch.job_actions import (
    ALLOWED_STATUSES,
    RESULTING_STATUS,
    Fate,
    JobAction,
    refusal_of,
)


@pytest.mark.parametrize(
    ("verb", "was", "ignored", "fate"),
    [
        (JobAction.REQUEUE, JobStatus.IN_PROGRESS, False, Fate.IN_PROGRESS),
        (JobAction.REQUEUE, JobStatus.COMPLETED, False, Fate.POOL_ARCHIVED),
        (JobAction.CANCEL, JobStatus.IN_PROGRESS, False, Fate.IN_PROGRESS),
        (JobAction.CANCEL, JobStatus.COMPLETED, False, Fate.ENDED),
        (JobAction.CANCEL, JobStatus.ERROR, True, Fate.ENDED),
        (JobAction.COMPLETE, JobStatus.QUEUED, False, Fate.NOT_FAILED),
        (JobAction.IGNORE, JobStatus.CANCELLED, False, Fate.NOT_FAILED),
        (JobAction.IGNORE, JobStatus.ERROR, True, Fate.ENDED),
    ],
)
def test_a_job_that_stays_as_it_is_has_a_reason(
    verb: JobAction, was: JobStatus, ignored: bool, fate: Fate
) -> None:
    assert refusal_of(verb, was, ignored=ignored) is fate


def test_verbs_end_jobs_that_have_not_ended_and_that_nobody_sends() -> None:
    for verb, statuses in ALLOWED_STATUSES.items():
        assert JobStatus.IN_PROGRESS not in statuses
        assert QueueState.DONE not in {QUEUE_STATE_OF[status] for status in statuses}
        assert QUEUE_STATE_OF[RESULTING_STATUS.get(verb, JobStatus.CANCELLED)] is QueueState.DONE
