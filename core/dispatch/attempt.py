"""Delivery attempts: classifies the receiver's response and decides the next job status."""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

import msgspec

from core.dispatch.job import QUEUE_STATE_OF, JobStatus, QueueState
from core.shared.backoff import backoff
from core.shared.call_outcome import CallState

MAX_BODY_CHARS = 5_000
FIRST_PAUSE, MAX_PAUSE = 3.0, 600.0
DEFAULT_DELAY = 30.0
MAX_RETRY_AFTER = 3_600.0
MAX_DELAY = 43_200.0
MAX_FREE_DEFERRAL = 30 * 86_400.0
"""The age in seconds from which a deferral by the receiver counts as an attempt."""

EXPIRED_MESSAGE = "not delivered before it expired"
"""The error of a job that expired before it was sent."""

_LATER = frozenset({408, 425})
"""Client errors that are worth a retry."""
_NEVER = 501
"""The only server error that is permanent."""


class AttemptStatus(StrEnum):
    """The result of one attempt."""

    SUCCESS = "SUCCESS"
    CLIENT_ERROR = "CLIENT_ERROR"
    SERVER_ERROR = "SERVER_ERROR"
    TIMEOUT = "TIMEOUT"
    CONNECTION_ERROR = "CONNECTION_ERROR"
    DEFERRED = "DEFERRED"


class ErrorType(StrEnum):
    """Whether trying again can help."""

    TRANSIENT = "TRANSIENT"
    PERMANENT = "PERMANENT"
    CONFIGURATION = "CONFIGURATION"
    """This instance lacks configuration that the delivery needs."""


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt: its time, its duration and its result."""

    status: AttemptStatus
    error_type: ErrorType | None = None
    delay: float | None = None
    """Seconds that the receiver asked to wait, if it deferred the job."""
    code: int | None = None
    body: str | None = None
    error: str | None = None
    counts_as_failure: bool = False
    """Whether the circuit breaker counts a failure. A receiver that refuses a job is available."""
    began_at: float = 0.0
    seconds: float = 0.0

    @property
    def permanent(self) -> bool:
        return self.error_type is ErrorType.PERMANENT

    @property
    def is_refusal(self) -> bool:
        """Return whether the receiver answered with a client error."""
        return self.status is AttemptStatus.CLIENT_ERROR and self.code is not None


class JobTransition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The state of a job after an attempt."""

    status: JobStatus
    attempt_count: int
    attempt_number: int
    """The number of the attempt; a deferral does not count, so the next has the same number."""
    wait: float | None = None
    """Seconds until the next attempt."""
    error: str | None = None

    @property
    def standing(self) -> QueueState:
        return QUEUE_STATE_OF[self.status]


class _Said(msgspec.Struct):
    """The fields of a response body by which a receiver defers a job."""

    ack: Any = None
    delay: Any = msgspec.field(default=None, name="delaySeconds")


_said = msgspec.json.Decoder(_Said)


def read_answer(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    now: float,
    *,
    began_at: float = 0.0,
    seconds: float = 0.0,
) -> DeliveryAttempt:
    """Classify a response. `headers` should ignore the case of names."""
    result, error_type, delay, error = _judge(status, headers, body, now)
    is_server_error = result is AttemptStatus.SERVER_ERROR
    return DeliveryAttempt(
        status=result,
        error_type=error_type,
        delay=delay,
        code=status,
        body=_text(body),
        error=error,
        counts_as_failure=is_server_error and error_type is ErrorType.TRANSIENT,
        began_at=began_at,
        seconds=seconds,
    )


def read_failure(
    state: CallState,
    detail: str,
    *,
    permanent: bool = False,
    began_at: float = 0.0,
    seconds: float = 0.0,
) -> DeliveryAttempt:
    """Classify a call without a response. `permanent`: the target must not be called at all."""
    is_timeout = state is CallState.TIMEOUT
    return DeliveryAttempt(
        status=AttemptStatus.TIMEOUT if is_timeout else AttemptStatus.CONNECTION_ERROR,
        error_type=ErrorType.PERMANENT if permanent else ErrorType.TRANSIENT,
        error=detail,
        counts_as_failure=not permanent,
        began_at=began_at,
        seconds=seconds,
    )


def decide(
    sent: DeliveryAttempt, *, attempt_count: int, max_retries: int, jitter: float, age: float = 0.0
) -> JobTransition:
    """Decide the state of a job after an attempt.

    `attempt_count` excludes this attempt, `jitter` is in [0, 1], `age` is the job's in seconds.
    """
    number = attempt_count + 1
    is_free = age <= MAX_FREE_DEFERRAL
    if sent.delay is not None and (is_free or number < max_retries):
        return JobTransition(
            status=JobStatus.QUEUED,
            attempt_count=attempt_count if is_free else number,
            attempt_number=number,
            wait=sent.delay,
            error=sent.error,
        )
    if sent.error_type is None and sent.delay is None:
        return JobTransition(
            status=JobStatus.COMPLETED, attempt_count=number, attempt_number=number
        )
    if sent.permanent or number >= max_retries:
        status, wait = JobStatus.ERROR, None
    else:
        status, wait = JobStatus.QUEUED, pause_after(number, jitter)
    return JobTransition(
        status=status, attempt_count=number, attempt_number=number, wait=wait, error=sent.error
    )


def pause_after(attempt: int, jitter: float) -> float:
    """Return the seconds between failed attempt `attempt`, counted from 1, and the next."""
    return backoff(attempt - 1, base=FIRST_PAUSE, cap=MAX_PAUSE, jitter=jitter)


_Judgement = tuple[AttemptStatus, ErrorType | None, float | None, str | None]


def _judge(status: int, headers: Mapping[str, str], body: bytes, now: float) -> _Judgement:
    if 200 <= status < 300:
        delay = _asked_delay(body)
        if delay is None:
            return AttemptStatus.SUCCESS, None, None, None
        return AttemptStatus.DEFERRED, None, delay, f"not acknowledged: asked to wait {delay:g} s"
    error = f"HTTP {status}"
    if status in (429, 503):
        delay = _retry_after(headers.get("Retry-After"), now)
        if delay is None and status == 429:
            delay = DEFAULT_DELAY
        if delay is not None:
            return AttemptStatus.DEFERRED, None, delay, f"{error}: asked to wait {delay:g} s"
    if 300 <= status < 400:
        error = f"{error}: no redirect is followed"
        return AttemptStatus.CLIENT_ERROR, ErrorType.PERMANENT, None, error
    if 400 <= status < 500:
        kind = ErrorType.TRANSIENT if status in _LATER else ErrorType.PERMANENT
        return AttemptStatus.CLIENT_ERROR, kind, None, error
    kind = ErrorType.PERMANENT if status == _NEVER else ErrorType.TRANSIENT
    return AttemptStatus.SERVER_ERROR, kind, None, error


def _text(body: bytes) -> str | None:
    """Return the part of a body that is stored, without NUL, which Postgres cannot store."""
    text = body[: MAX_BODY_CHARS * 4].decode(errors="replace")
    return text.replace("\0", "\ufffd")[:MAX_BODY_CHARS] or None


def _asked_delay(body: bytes) -> float | None:
    """Return the seconds to wait if the body says `"ack": false`, or None."""
    if b"false" not in body:  # cheaper than to decode every body
        return None
    try:
        said = _said.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if said.ack is not False:
        return None
    if isinstance(said.delay, bool) or not isinstance(said.delay, int | float):
        return DEFAULT_DELAY
    return float(min(max(said.delay, 1), MAX_DELAY))


def _retry_after(text: str | None, now: float) -> float | None:
    """Return the seconds to wait by a Retry-After header: a number of seconds or a date."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        # A number of ten digits exceeds the maximum anyway.
        seconds = MAX_RETRY_AFTER if len(text) > 9 else float(text)
    else:
        try:
            at = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        # HTTP dates are in UTC.
        seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now
    return min(max(seconds, 1.0), MAX_RETRY_AFTER)
