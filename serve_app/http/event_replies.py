"""The reply of a correlation to an event or a cancellation, as JSON."""

from typing import Any, assert_never

import msgspec

from core.shared.errors import ConflictError, MusterError
from core.waits.incoming_event import MissingId
from core.waits.messages import (
    Difference,
    Offer,
    OfferReply,
    Reason,
    RefusedReply,
    RegisterReply,
    Reply,
    StatusReply,
    Verdict,
)
from core.waits.strategy import Status
from serve_app.http.field_errors import FieldError
from serve_app.http.models import Document, WireModel
from serve_app.http.problems import Problem, refusal_code_of, refusal_error

REFUSED = "refused"
"""The verdict on an event that its wait refused."""


class ClauseView(WireModel):
    """The rule that an event failed, with both values."""

    rule: str
    expected: Any = None
    actual: Any = None


class EventReply(WireModel):
    """The verdict on an event. The event is stored, whatever the verdict."""

    verdict: Verdict
    reason: Reason
    detail: str
    execution_id: str
    correlation_id: str
    event_id: str
    event: str | None = None
    wait_status: Status | None = None
    clause: ClauseView | None = None


_SENTENCES = {
    Reason.EXPECTED: "counts as {event}",
    Reason.NO_WAIT_YET: "no wait has these ids yet; kept until one is registered",
    Reason.ALREADY_RECEIVED: "{event} was received before; the first one counts",
    Reason.WAIT_ENDED: "the wait had already ended as {status}",
    Reason.DEADLINE_PASSED: "{event} came after its deadline",
    Reason.SOURCE_NOT_EXPECTED: "the wait expects no event from this source",
    Reason.LABEL_NOT_EXPECTED: "the wait expects no event from this service or topic",
    Reason.FILTERED_OUT: "the event does not pass the filter",
    Reason.EXECUTION_MISMATCH: "another execution waits under this correlation id",
    Reason.MISSING_ID: "an id is missing",
    Reason.TOO_MANY_EARLY: "no wait has these ids yet, and no more events are kept for them",
    Reason.TOO_LARGE_TOGETHER: "too large together with the events that the wait has already",
}


def event_reply_document(offer: Offer, reply: Reply, *, brief: bool = False) -> Document:
    """Render the verdict on an event.

    `brief` leaves out what the wait expects: only callers who may read waits learn that.

    Raises:
        ProblemError: The event was refused.
    """
    match reply:
        case OfferReply():
            return _verdict_document(offer, reply, brief=brief)
        case RefusedReply():
            raise refusal_error(reply)
        case RegisterReply() | StatusReply():
            raise MusterError(f"an event was answered with {type(reply).__name__}")
        case _:
            assert_never(reply)


def stored_event_reply_document(offer: Offer, reply: Reply, *, brief: bool = False) -> Document:
    """Render the verdict on an event that is stored already; a refusal is not raised."""
    if not isinstance(reply, RefusedReply):
        return event_reply_document(offer, reply, brief=brief)
    return {
        "verdict": REFUSED,
        "reason": refusal_code_of(reply),
        "detail": reply.detail,
        "executionId": offer.address.execution_id,
        "correlationId": offer.address.correlation_id,
        "eventId": offer.event_id,
        "retryable": reply.is_transient,
    }


def check_cancelled(reply: Reply) -> None:
    """Check that a wait is cancelled now.

    Raises:
        ConflictError: The wait had ended before.
        ProblemError: The cancellation was refused.
    """
    match reply:
        case StatusReply(status=Status.CANCELLED):
            return
        case StatusReply():
            raise ConflictError(f"the wait has already ended as {reply.status}")
        case RefusedReply():
            raise refusal_error(reply)
        case RegisterReply() | OfferReply():
            raise MusterError(f"a cancellation was answered with {type(reply).__name__}")
        case _:
            assert_never(reply)


def _verdict_document(offer: Offer, reply: OfferReply, *, brief: bool) -> Document:
    clause = None if brief else reply.clause
    document: Document = {
        "verdict": reply.verdict,
        "reason": reply.reason,
        "detail": verdict_sentence(reply, clause),
        "executionId": offer.address.execution_id,
        "correlationId": offer.address.correlation_id,
        "eventId": offer.event_id,
    }
    if reply.event is not None:
        document["event"] = reply.event
    if reply.status is not None:
        document["waitStatus"] = reply.status
    if clause is not None:
        document["clause"] = clause_document(clause)
    return document


def verdict_sentence(reply: OfferReply, clause: Difference | None) -> str:
    """Say a verdict in words, with both values where they differ."""
    text = _SENTENCES[reply.reason].format(event=reply.event, status=reply.status)
    if clause is None:
        return text
    expected, actual = (msgspec.json.encode(v).decode() for v in (clause.expected, clause.actual))
    return f"{text}: {clause.rule} expected {expected}, got {actual}"


def clause_document(clause: Difference) -> Document:
    return {"rule": clause.rule, "expected": clause.expected, "actual": clause.actual}


def missing_id_problem(missing: MissingId) -> Problem:
    """Name the id that is missing and where it was searched."""
    places = " and ".join(missing.searched_in)
    if missing.found is None:
        detail = f"{missing.name} is missing: searched in {places}"
    else:
        detail = f"{missing.name} cannot be an id: found a {missing.found} in {places}"
    field_error = FieldError(
        missing.name, f"an id in {' or '.join(missing.searched_in)}", missing.found
    )
    return Problem(status=400, code="missing_id", detail=detail, field_errors=(field_error,))
