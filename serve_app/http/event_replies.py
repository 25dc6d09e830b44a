"""The reply of a correlation to an event or a cancellation, as JSON."""

from typing import Any

from core.shared.errors import ConflictError
from core.waits.incoming_event import MissingIds
from core.waits.messages import (
    Difference,
    Offer,
    OfferReply,
    Reason,
    RefusedReply,
    Reply,
    StatusReply,
    Verdict,
)
from core.waits.strategy import Status
from serve_app.http.field_errors import FieldError
from serve_app.http.models import Document, WireModel
from serve_app.http.problems import Problem, expect_reply, refusal_code_of

REFUSED = "refused"
"""The verdict on an event that its wait refused."""


_ENDED = {
    Status.COMPLETED: "completed",
    Status.TIMEOUT: "timed out",
    Status.FAILED: "failed",
    Status.CANCELLED: "been cancelled",
}


class ClauseView(WireModel):
    """The rule that an event failed, with both values."""

    rule: str
    expected: Any = None
    actual: Any = None


class ReplyDetails(WireModel):
    """What every verdict on an event says."""

    detail: str
    execution_id: str
    correlation_id: str
    event_id: str
    event: str | None = None
    wait_status: Status | None = None
    clause: ClauseView | None = None


class EventReply(ReplyDetails):
    """The verdict on an event. The event is stored, whatever the verdict."""

    verdict: Verdict
    reason: Reason


_SENTENCES = {
    Reason.EXPECTED: "counts as {event}",
    Reason.NO_WAIT_YET: "no wait has these ids yet; kept until one is registered",
    Reason.ALREADY_RECEIVED: "{event} was received before; the first one counts",
    Reason.WAIT_ENDED: "the wait has already {ended}",
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
    """Render the verdict on an event; raise ProblemError if the event was refused.

    `brief` leaves out what the wait expects: only callers who may read waits learn that.
    """
    answer = expect_reply(OfferReply, reply)
    clause = None if brief else answer.clause
    document: Document = {
        "verdict": answer.verdict,
        "reason": answer.reason,
        "detail": verdict_sentence(answer, clause),
        "executionId": offer.address.execution_id,
        "correlationId": offer.address.correlation_id,
        "eventId": offer.event_id,
    }
    if answer.event is not None:
        document["event"] = answer.event
    if answer.status is not None:
        document["waitStatus"] = answer.status
    if clause is not None:
        document["clause"] = clause_document(clause)
    return document


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
    """Raise ConflictError if the wait had ended before, ProblemError if it was not cancelled."""
    status = expect_reply(StatusReply, reply).status
    if status is not Status.CANCELLED:
        raise ConflictError(f"the wait has already ended as {status}")


def verdict_sentence(reply: OfferReply, clause: Difference | None) -> str:
    ended = _ENDED.get(reply.status) if reply.status else None
    text = _SENTENCES[reply.reason].format(event=reply.event, ended=ended)
    return text if clause is None else f"{text}: {clause}"


def clause_document(clause: Difference) -> Document:
    return {"rule": clause.rule, "expected": clause.expected, "actual": clause.actual}


def missing_id_problem(missing: MissingIds) -> Problem:
    """Name the ids that are missing and where they belong."""
    detail = "; ".join(map(str, missing.ids))
    field_errors = tuple(FieldError(one.name, f"an id in {one.places}") for one in missing.ids)
    return Problem(status=400, code="missing_id", detail=detail, field_errors=field_errors)
