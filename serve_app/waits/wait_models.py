"""Responses of waits. rendering.py writes these documents; a test compares both."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from core.waits.messages import Reason, Verdict
from core.waits.spec import Source, Strategy, TimeoutPolicy
from core.waits.strategy import Outcome, Status
from serve_app.http.models import WireModel
from serve_app.http.problem_model import ProblemView


class WaitRegistered(WireModel):
    """A registered wait. Give `callbackUrl` to the service that will answer."""

    wait_state_id: str
    execution_id: str
    correlation_id: str
    node_id: str
    status: Status
    created: bool = Field(description="False if the same wait was there already.")
    version: int
    enabled_events: list[str]
    required_events: list[str]
    created_at: datetime
    expires_at: datetime
    callback_url: str
    callback_urls: dict[str, str] | None = Field(
        None, description="One for each named event that comes as a callback."
    )


class WaitResult(WireModel):
    """The result of one item: `body` or `problem`."""

    status: int
    body: WaitRegistered | None = None
    problem: ProblemView | None = None


class WaitResults(WireModel):
    """The results, in the order of the items."""

    results: list[WaitResult]


class EventView(WireModel):
    """The state of one expected event."""

    outcome: Outcome
    source: Source
    label: str | None = Field(None, description="Topic or service; absent if any will do.")
    required: bool
    deadline: datetime
    at: datetime | None = None
    event_id: str | None = None
    data: Any = None


class WaitSummary(WireModel):
    """A wait in a listing."""

    wait_state_id: str
    execution_id: str
    correlation_id: str
    node_id: str
    status: Status
    aggregation_strategy: Strategy
    on_timeout: TimeoutPolicy
    enabled_events: list[str]
    required_events: list[str]
    received_events: list[str]
    missing_events: list[str]
    version: int
    created_at: datetime
    expires_at: datetime
    ended_at: datetime | None = None
    reason: str | None = None


class WaitPage(WireModel):
    """A page of waits, newest first."""

    items: list[WaitSummary]
    next_cursor: str | None


class WaitView(WaitSummary):
    """One wait with its events and, once completed, its result."""

    events: dict[str, EventView]
    partial: bool | None = None
    warning: str | None = None
    missing: list[str] | None = None
    output: Any = None
    resumed_at: datetime | None = None
    resumed_by: str | None = None


class LogEntry(WireModel):
    """One entry of a correlation's log, as the stream sends it too."""

    id: int
    type: Literal[
        "registered",
        "received",
        "timed_out",
        "late",
        "duplicate",
        "failed",
        "rejected",
        "ended",
    ]
    at: datetime
    event: str | None = None
    event_id: str | None = None
    source: Source | None = None
    label: str | None = None
    data: Any = None
    status: Status | None = None
    reason: str | None = None
    partial: bool | None = None
    missing: list[str] | None = None
    warning: str | None = None
    output: Any = None
    enabled_events: list[str] | None = None
    expires_at: datetime | None = None


class LogView(WireModel):
    """A page of a correlation's log, oldest first; `nextAfter` leads to the next one."""

    items: list[LogEntry]
    next_after: int | None = None


class NearMissView(WireModel):
    """An event for these ids that did not count."""

    event_id: str
    source: Source
    label: str
    verdict: Verdict
    reason: Reason
    at: datetime
    sentence: str


class ExplainView(WireModel):
    """Why a wait still waits, or why it ended."""

    summary: str
    events: dict[str, str]
    near_misses: list[NearMissView]
