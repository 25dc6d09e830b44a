"""What people may do with jobs."""

import pytest

from core.dispatch.job import STANDING_OF, JobStatus, Standing
from core.dispatch.job_actions import FROM, INTO, Fate, Verb, why_not


@pytest.mark.parametrize(
    ("verb", "was", "ignored", "fate"),
    [
        (Verb.REQUEUE, JobStatus.IN_PROGRESS, False, Fate.IN_PROGRESS),
        (Verb.REQUEUE, JobStatus.COMPLETED, False, Fate.POOL_ARCHIVED),
        (Verb.CANCEL, JobStatus.IN_PROGRESS, False, Fate.IN_PROGRESS),
        (Verb.CANCEL, JobStatus.COMPLETED, False, Fate.ENDED),
        (Verb.CANCEL, JobStatus.ERROR, True, Fate.ENDED),
        (Verb.COMPLETE, JobStatus.QUEUED, False, Fate.NOT_FAILED),
        (Verb.IGNORE, JobStatus.CANCELLED, False, Fate.NOT_FAILED),
        (Verb.IGNORE, JobStatus.ERROR, True, Fate.ENDED),
    ],
)
def test_a_job_that_stays_as_it_is_has_a_reason(
    verb: Verb, was: JobStatus, ignored: bool, fate: Fate
) -> None:
    assert why_not(verb, was, ignored=ignored) is fate


def test_verbs_end_jobs_that_have_not_ended_and_that_nobody_sends() -> None:
    for verb, statuses in FROM.items():
        assert JobStatus.IN_PROGRESS not in statuses
        assert Standing.DONE not in {STANDING_OF[status] for status in statuses}
        assert STANDING_OF[INTO.get(verb, JobStatus.CANCELLED)] is Standing.DONE
