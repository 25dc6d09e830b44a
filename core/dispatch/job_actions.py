"""Actions of operators on jobs, and their results."""

from enum import StrEnum

from core.dispatch.job import JobStatus


class JobAction(StrEnum):
    """An action of an operator on a job."""

    REQUEUE = "requeue"
    CANCEL = "cancel"
    COMPLETE = "complete"
    IGNORE = "ignore"


class Fate(StrEnum):
    """The result of an action on one job."""

    DONE = "done"
    UNKNOWN = "unknown"
    IN_PROGRESS = "in_progress"
    NOT_FAILED = "not_failed"
    ENDED = "ended"
    POOL_ARCHIVED = "pool_archived"


REFUSALS = {
    Fate.IN_PROGRESS: "a job cannot be changed while it is being delivered",
    Fate.NOT_FAILED: "only a job that has failed can be completed or ignored",
    Fate.ENDED: "the job has ended already, or is ignored",
    Fate.POOL_ARCHIVED: "the pool of the job is archived: activate it first",
}
"""Why an action is refused."""

ALLOWED_STATUSES = {
    JobAction.CANCEL: (JobStatus.ERROR, JobStatus.QUEUED, JobStatus.PENDING),
    JobAction.COMPLETE: (JobStatus.ERROR,),
    JobAction.IGNORE: (JobStatus.ERROR,),
}
"""The statuses in which an action is allowed; requeue is allowed in all but IN_PROGRESS."""

RESULTING_STATUS = {JobAction.CANCEL: JobStatus.CANCELLED, JobAction.COMPLETE: JobStatus.COMPLETED}
"""The status after an action; an ignored job keeps its status."""


def refusal_of(action: JobAction, was: JobStatus, *, ignored: bool) -> Fate:
    """Return why the action did not change an existing job."""
    if was is JobStatus.IN_PROGRESS:
        return Fate.IN_PROGRESS
    if action is JobAction.REQUEUE:
        return Fate.POOL_ARCHIVED
    return Fate.ENDED if action is JobAction.CANCEL or ignored else Fate.NOT_FAILED
