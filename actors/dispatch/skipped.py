"""Results of jobs that were claimed but not sent."""

from core.dispatch.attempt import (
    EXPIRED_MESSAGE,
    AttemptStatus,
    DeliveryAttempt,
    ErrorType,
    JobTransition,
)
from core.dispatch.claim import ClaimedJob
from core.dispatch.job import JobStatus

# Seconds until a job is tried again that this process was unable to send.
OWN_TROUBLE = 2.0
# The same while its secrets cannot be decrypted, which an operator has to fix.
KEY_TROUBLE = 60.0


def skip_step(job: ClaimedJob, now: float) -> JobTransition | None:
    """Return the end of a job that must not be sent any more, or None if it may be sent."""
    if 0 < job.expires_at <= now:
        return expired(job)
    if job.subscription_id is not None and job.subscription_version is None:
        return orphaned(job)
    return None


def orphaned(job: ClaimedJob) -> JobTransition:
    """Cancel a job whose subscription was removed."""
    return JobTransition(
        status=JobStatus.CANCELLED,
        attempt_count=job.attempt_count,
        attempt_number=job.attempt_count,
        error="its subscription is gone",
    )


def expired(job: ClaimedJob) -> JobTransition:
    """End a job that expired before it was sent."""
    return JobTransition(
        status=JobStatus.EXPIRED,
        attempt_count=job.attempt_count,
        attempt_number=job.attempt_count,
        error=EXPIRED_MESSAGE,
    )


def given_back(job: ClaimedJob) -> JobTransition:
    """Put a claimed job that cannot start soon back into the queue, with its position."""
    return JobTransition(
        status=JobStatus.QUEUED,
        attempt_count=job.attempt_count,
        attempt_number=job.attempt_count,
        error="put back before it was sent: it could not start soon",
    )


def postponed(now: float) -> DeliveryAttempt:
    """Defer a delivery that this process could not begin; neither job nor target is at fault."""
    return DeliveryAttempt(
        status=AttemptStatus.DEFERRED,
        delay=OWN_TROUBLE,
        error="put off by our own trouble",
        began_at=now,
    )


def undecryptable(why: str, now: float) -> DeliveryAttempt:
    """Defer a delivery whose secrets this instance cannot decrypt."""
    return DeliveryAttempt(
        status=AttemptStatus.DEFERRED,
        error_type=ErrorType.CONFIGURATION,
        delay=KEY_TROUBLE,
        error=why,
        began_at=now,
    )


def retargeted(now: float) -> DeliveryAttempt:
    """Defer a delivery whose subscription got another target after the claim."""
    return DeliveryAttempt(
        status=AttemptStatus.DEFERRED,
        delay=0.0,
        error="its subscription has a new target",
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
