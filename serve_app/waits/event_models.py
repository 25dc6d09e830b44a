"""Responses to events, and of the inbox."""

from typing import Annotated, Any, Self

import msgspec
from pydantic import BeforeValidator, Field

from core.shared.json_path import json_or_text
from core.waits.messages import Difference, Reason, Verdict
from core.waits.spec import Source
from core.waits.state import ParkedEvent
from serve_app.http.event_replies import ClauseView, EventReply
from serve_app.http.fields import IsoTime, optional
from serve_app.http.models import PayloadView, View, WireModel
from serve_app.http.page import Page
from serve_app.http.problems import ProblemView

_CLAUSE = msgspec.json.Decoder(Difference)


class EventResult(WireModel):
    """The result of one item: `body` or `problem`."""

    status: int
    body: EventReply | None = None
    problem: ProblemView | None = None


class EventResults(WireModel):
    """The results, in the order of the items."""

    results: list[EventResult]


def _decoded(clause: Any) -> Any:
    return _CLAUSE.decode(clause) if isinstance(clause, str) else clause


class InboxItem(View):
    """An event that matched no wait."""

    inbox_id: int
    execution_id: str | None = optional()
    correlation_id: str | None = optional()
    event_id: str
    source: Source
    label: str
    verdict: Verdict
    reason: Reason
    clause: Annotated[ClauseView | None, BeforeValidator(_decoded)] = optional()
    size: int = Field(description="Bytes of its data.")
    received_at: IsoTime = Field(validation_alias="at")
    expires_at: IsoTime | None = optional()


class InboxPage(Page[InboxItem]):
    """A page of the inbox, newest first."""


class InboxEvent(InboxItem, PayloadView):
    """An event of the inbox with its data."""

    data: Any = optional()

    @classmethod
    def of_parked(cls, inbox_id: int, parked: ParkedEvent) -> Self:
        """Render an event with its data; events without an address have no ids."""
        names = ("event_id", "source", "label", "verdict", "reason", "clause", "at")
        return cls.of(
            {name: getattr(parked, name) for name in names}
            | {
                "inbox_id": inbox_id,
                "execution_id": parked.address.execution_id or None,
                "correlation_id": parked.address.correlation_id or None,
                "size": len(parked.payload),
                "data": json_or_text(parked.payload),
            }
        )
