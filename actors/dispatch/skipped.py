"""What becomes of a job that was taken and could not be sent."""

from core.dispatch.attempt import (
    EXPIRED_MESSAGE,
    AttemptStatus,
    DeliveryAttempt,
    ErrorType,
    JobTransition,
)
from core.dispatch.claim import ClaimedJob
from core.dispatch.job import JobStatus

# Seconds until a job is tried again that we were not able to send.
OWN_TROUBLE = 2.0
# The same while its secrets cannot be decrypted, which somebody has to see to.
KEY_TROUBLE = 60.0


def skip_step(job: ClaimedJob, now: float) -> JobTransition | None:
    """What becomes of a job that is not worth sending any more; None if it is."""
    if 0 < job.expires_at <= now:
        return expired(job)
    if job.subscription_id is not None and job.subscription_version is None:
        return orphaned(job)
    return None


def orphaned(job: ClaimedJob) -> JobTransition:
    """Nobody wants it any more: its subscription was removed."""
    return JobTransition(
        status=JobStatus.CANCELLED,
        attempt_count=job.attempt_count,
        attempt_number=job.attempt_count,
        error="its subscription is gone",
    )


def expired(job: ClaimedJob) -> JobTransition:
    """Its time is over before it was sent."""
    return JobTransition(
        status=JobStatus.EXPIRED,
        attempt_count=job.attempt_count,
        attempt_number=job.attempt_count,
        error=EXPIRED_MESSAGE,
    )


def given_back(job: ClaimedJob) -> JobTransition:
    """It was taken, and cannot start soon: others may, and it keeps its place before them."""
    return JobTransition(
        status=JobStatus.QUEUED,
        attempt_count=job.attempt_count,
        attempt_number=job.attempt_count,
        error="put back before it was sent: it could not start soon",
    )


def postponed(now: float) -> DeliveryAttempt:
    """We could not begin: that is not the job's fault, nor the target's."""
    return DeliveryAttempt(
        status=AttemptStatus.DEFERRED,
        delay=OWN_TROUBLE,
        error="put off by our own trouble",
        began_at=now,
    )


def undecryptable(why: str, now: float) -> DeliveryAttempt:
    """What it is to be sent with cannot be decrypted: trouble of this instance, not of the job."""
    return DeliveryAttempt(
        status=AttemptStatus.DEFERRED,
        error_type=ErrorType.CONFIGURATION,
        delay=KEY_TROUBLE,
        error=why,
        began_at=now,
    )


def retargeted(now: float) -> DeliveryAttempt:
    """Its subscription got another target since it was taken: what it has, is for there."""
    return DeliveryAttempt(
        status=AttemptStatus.DEFERRED,
        delay=0.0,
        error="its subscription has a new target",
        began_at=now,
    )


def crashed(error: Exception, now: float) -> DeliveryAttempt:
    """We failed, not the target."""
    return DeliveryAttempt(
        status=AttemptStatus.CONNECTION_ERROR,
        error_type=ErrorType.TRANSIENT,
        error=f"the delivery could not be made: {type(error).__name__}",
        began_at=now,
    )
