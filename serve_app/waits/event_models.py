"""Responses to events, and of the inbox."""

from datetime import datetime
from typing import Any

from pydantic import Field

from core.waits.messages import Reason, Verdict
from core.waits.spec import Source
from serve_app.http.event_replies import ClauseView, EventReply
from serve_app.http.models import WireModel
from serve_app.http.problem_model import ProblemView


class EventResult(WireModel):
    """The result of one item: `body` or `problem`."""

    status: int
    body: EventReply | None = None
    problem: ProblemView | None = None


class EventResults(WireModel):
    """The results, in the order of the items."""

    results: list[EventResult]


class InboxItem(WireModel):
    """An event that matched no wait."""

    inbox_id: int
    execution_id: str | None = None
    correlation_id: str | None = None
    event_id: str
    source: Source
    label: str
    verdict: Verdict
    reason: Reason
    clause: ClauseView | None = None
    size: int = Field(description="Bytes of its data.")
    received_at: datetime
    expires_at: datetime | None = None


class InboxPage(WireModel):
    """A page of the inbox, newest first."""

    items: list[InboxItem]
    next_cursor: str | None


class InboxEvent(InboxItem):
    """An event of the inbox with its data."""

    data: Any = None
