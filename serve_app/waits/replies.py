"""A correlation's answer to a message, as an answer to a request."""

from typing import assert_never

from msgspec.structs import replace

from core.shared.errors import ConflictError, MusterError
from core.waits.messages import Offer, OfferReply, RefusedReply, RegisterReply, Reply, StatusReply
from core.waits.strategy import Status
from serve_app.http.models import Document
from serve_app.http.problems import refusal_code_of, refusal_error
from serve_app.waits.rendering import reply_document

REFUSED = "refused"
"""The verdict on an event that its wait did not take."""


def event_reply_document(offer: Offer, reply: Reply, *, brief: bool = False) -> Document:
    """What became of an event; raises the refusal that it met.

    `brief` leaves out what the wait expects: that is for those who may read waits, not for
    everybody who may answer one.
    """
    match reply:
        case OfferReply():
            if brief and reply.clause is not None:
                reply = replace(reply, clause=None)
            return reply_document(offer, reply)
        case RefusedReply():
            raise refusal_error(reply)
        case RegisterReply() | StatusReply():
            raise MusterError(f"an event was answered with {type(reply).__name__}")
        case _:
            assert_never(reply)


def stored_event_reply_document(offer: Offer, reply: Reply, *, brief: bool = False) -> Document:
    """What became of an event that is stored already; a refusal is told, not raised."""
    if not isinstance(reply, RefusedReply):
        return event_reply_document(offer, reply, brief=brief)
    document: Document = {
        "verdict": REFUSED,
        "reason": refusal_code_of(reply),
        "detail": reply.detail,
        "executionId": offer.address.execution_id,
        "correlationId": offer.address.correlation_id,
        "eventId": offer.event_id,
        "retryable": reply.is_transient,
    }
    return document


def check_cancelled(reply: Reply) -> None:
    """Pass if the wait is cancelled now; raise why it is not."""
    match reply:
        case StatusReply(status=Status.CANCELLED):
            return
        case StatusReply():
            raise ConflictError(f"the wait has ended as {reply.status} already")
        case RefusedReply():
            raise refusal_error(reply)
        case RegisterReply() | OfferReply():
            raise MusterError(f"a cancellation was answered with {type(reply).__name__}")
        case _:
            assert_never(reply)
