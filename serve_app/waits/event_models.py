"""What becomes of events, and the inbox of those that found no place."""

from datetime import datetime
from typing import Any

from pydantic import Field

from core.waits.messages import Reason, Verdict
from core.waits.spec import Source
from core.waits.strategy import Status
from serve_app.http.models import WireModel
from serve_app.http.problem_model import ProblemView


class ClauseView(WireModel):
    """The rule an event failed, with both values."""

    rule: str
    expected: Any = None
    actual: Any = None


class EventReply(WireModel):
    """What became of an event. It is stored, whatever the verdict."""

    verdict: Verdict
    reason: Reason
    detail: str
    execution_id: str
    correlation_id: str
    event_id: str
    event: str | None = None
    wait_status: Status | None = None
    clause: ClauseView | None = None


class EventResult(WireModel):
    """One answer of a batch: `body` or `problem`."""

    status: int
    body: EventReply | None = None
    problem: ProblemView | None = None


class EventResults(WireModel):
    """In the order of the items."""

    results: list[EventResult]


class InboxItem(WireModel):
    """An event that found no place."""

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
