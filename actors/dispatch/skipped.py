"""Results of jobs that were claimed but not sent."""

from core.dispatch import attempt
from core.dispatch.attempt import AttemptStatus, DeliveryAttempt, ErrorType, JobTransition
from core.dispatch.claim import ClaimedJob
from core.dispatch.job import JobStatus


def skip_step(job: ClaimedJob, now: float) -> JobTransition | None:
    """Return the end of a job that must not be sent any more, or None if it may be sent."""
    if 0 < job.expires_at <= now:
        return unsent(job, JobStatus.EXPIRED, attempt.EXPIRED_MESSAGE)
    if job.subscription_id is not None and job.subscription_version is None:
        return unsent(job, JobStatus.CANCELLED, "its subscription is gone")
    return None


def given_back(job: ClaimedJob) -> JobTransition:
    """Put a claimed job that cannot start soon back into the queue, with its position."""
    return unsent(job, JobStatus.QUEUED, "returned to the queue: it could not start soon")


def unsent(job: ClaimedJob, status: JobStatus, error: str) -> JobTransition:
    return JobTransition(
        status=status,
        attempt_count=job.attempt_count,
        attempt_number=job.attempt_count,
        error=error,
    )


def deferred(
    error: str, now: float, delay: float, error_type: ErrorType | None = None
) -> DeliveryAttempt:
    """Defer a delivery that could not begin; neither job nor target is at fault."""
    return DeliveryAttempt(
        status=AttemptStatus.DEFERRED,
        error_type=error_type,
        delay=delay,
        error=error,
        began_at=now,
    )


def impossible(error: str, now: float) -> DeliveryAttempt:
    """Fail a delivery for good, because what it needs was deleted."""
    return DeliveryAttempt(
        status=AttemptStatus.CLIENT_ERROR,
        error_type=ErrorType.PERMANENT,
        error=error,
        began_at=now,
    )


def crashed(error: Exception, now: float) -> DeliveryAttempt:
    """Make a retryable attempt of an unexpected exception in this process."""
    return DeliveryAttempt(
        status=AttemptStatus.CONNECTION_ERROR,
        error_type=ErrorType.TRANSIENT,
        error=f"the delivery could not be made: {type(error).__name__}",
        began_at=now,
    )
