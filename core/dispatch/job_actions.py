"""What people may do with jobs, and what becomes of it."""

from enum import StrEnum

from core.dispatch.job import JobStatus


class JobAction(StrEnum):
    """What a person does with a job."""

    REQUEUE = "requeue"
    CANCEL = "cancel"
    COMPLETE = "complete"
    IGNORE = "ignore"


class Fate(StrEnum):
    """What became of one job that somebody wanted to change."""

    DONE = "done"
    UNKNOWN = "unknown"
    IN_PROGRESS = "in_progress"
    NOT_FAILED = "not_failed"
    ENDED = "ended"
    POOL_ARCHIVED = "pool_archived"


ALLOWED_STATUSES = {
    JobAction.CANCEL: (JobStatus.ERROR, JobStatus.QUEUED, JobStatus.PENDING),
    JobAction.COMPLETE: (JobStatus.ERROR,),
    JobAction.IGNORE: (JobStatus.ERROR,),
}
"""The states a job is in for a verb to apply; it can be requeued from each but a live delivery."""

RESULTING_STATUS = {JobAction.CANCEL: JobStatus.CANCELLED, JobAction.COMPLETE: JobStatus.COMPLETED}
"""The state a job has afterwards; one that is ignored keeps its own."""


def refusal_of(action: JobAction, was: JobStatus, *, ignored: bool) -> Fate:
    """Why a job that is there was not changed."""
    if was is JobStatus.IN_PROGRESS:
        return Fate.IN_PROGRESS
    if action is JobAction.REQUEUE:
        return Fate.POOL_ARCHIVED
    return Fate.ENDED if action is JobAction.CANCEL or ignored else Fate.NOT_FAILED
