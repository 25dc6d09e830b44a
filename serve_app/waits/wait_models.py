"""Responses of waits. Registrations and logs are rendered by hand; a test compares both."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AliasPath, BeforeValidator, Field

from core.shared.json_path import json_or_text
from core.shared.timestamps import to_iso
from core.waits.messages import Reason, Verdict
from core.waits.output import aggregate, payloads_of
from core.waits.spec import Source, Strategy, TimeoutPolicy, WaitSpec
from core.waits.state import Wait, WaitLogEntry
from core.waits.strategy import Ending, Outcome, Status
from serve_app.http.fields import IsoTime, optional
from serve_app.http.models import Document, PayloadView, View, WireModel, drop_none
from serve_app.http.page import Page
from serve_app.http.problems import ProblemView
from storage.waits.waits import WaitRow


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


def required_names(spec: WaitSpec) -> list[str]:
    """Return the events that must come, if the strategy names any."""
    if spec.strategy in {Strategy.ANY, Strategy.QUORUM}:
        return []
    return spec.needed_names


def _received(outcomes: Mapping[str, Outcome]) -> list[str]:
    return [name for name, outcome in outcomes.items() if outcome is Outcome.RECEIVED]


def _not_received(outcomes: Mapping[str, Outcome]) -> list[str]:
    return [name for name, outcome in outcomes.items() if outcome is not Outcome.RECEIVED]


class EventView(View):
    """The state of one expected event."""

    outcome: Outcome
    source: Source
    label: str | None = optional("Topic or service; absent if any will do.")
    required: bool
    deadline: IsoTime
    at: IsoTime | None = optional()
    event_id: str | None = optional()
    data: Any = optional()

    @classmethod
    def of_slot(cls, wait: Wait, index: int, payloads: Mapping[str, bytes]) -> Self:
        event, mark = wait.spec.events[index], wait.marks[index]
        payload = payloads.get(event.name)
        return cls.of(
            {
                "outcome": mark.outcome,
                "source": event.source,
                "label": event.label,
                "required": event.required,
                "deadline": wait.deadline_of(index),
                "at": mark.at or None,
                "event_id": mark.event_id or None,
                "data": None if payload is None else json_or_text(payload),
            }
        )


class WaitSummary(View):
    """A wait in a listing."""

    wait_state_id: str = Field(validation_alias=AliasPath("address", "scoped_id"))
    execution_id: str = Field(validation_alias=AliasPath("address", "execution_id"))
    correlation_id: str = Field(validation_alias=AliasPath("address", "correlation_id"))
    node_id: str
    status: Status
    aggregation_strategy: Strategy = Field(validation_alias=AliasPath("spec", "strategy"))
    on_timeout: TimeoutPolicy = Field(validation_alias=AliasPath("spec", "on_timeout"))
    enabled_events: list[str] = Field(validation_alias=AliasPath("spec", "names"))
    required_events: Annotated[list[str], BeforeValidator(required_names)] = Field(
        validation_alias="spec"
    )
    received_events: Annotated[list[str], BeforeValidator(_received)] = Field(
        validation_alias="outcomes"
    )
    missing_events: Annotated[list[str], BeforeValidator(_not_received)] = Field(
        validation_alias="outcomes"
    )
    version: int
    created_at: IsoTime = Field(validation_alias="opened_at")
    expires_at: IsoTime
    ended_at: IsoTime | None = optional(validation_alias=AliasPath("ending", "at"))
    reason: str | None = optional(validation_alias=AliasPath("ending", "reason"))


class WaitPage(Page[WaitSummary]):
    """A page of waits, newest first."""


class WaitView(WaitSummary, PayloadView):
    """One wait with its events and, once completed, its result."""

    events: dict[str, EventView]
    partial: bool | None = optional()
    warning: str | None = optional()
    missing: list[str] | None = optional()
    output: Any = optional()
    resumed_at: IsoTime | None = optional()
    resumed_by: str | None = optional()

    @classmethod
    def of_row(cls, row: WaitRow, entries: Iterable[WaitLogEntry]) -> "WaitView":
        """Render a wait; `entries` are those of its log whose data counts."""
        wait = row.wait
        payloads = payloads_of(wait, entries)
        events = {
            event.name: EventView.of_slot(wait, index, payloads)
            for index, event in enumerate(wait.spec.events)
        }
        more = {} if wait.ending is None else ending_fields(wait, wait.ending, payloads)
        if row.resumed_at is not None:
            more |= {"resumed_at": to_iso(row.resumed_at), "resumed_by": row.resumed_by}
        return cls.model_construct(**WaitSummary.of(wait).__dict__, events=events, **more)


def ending_fields(wait: Wait, ending: Ending, payloads: Mapping[str, bytes]) -> Document:
    """Return what an ended wait adds to its document."""
    fields = {
        "partial": ending.partial,
        "missing": list(ending.missing),
        "warning": ending.warning,
        "output": aggregate(wait, payloads) if ending.status is Status.COMPLETED else None,
    }
    return drop_none(fields)


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


class NearMissView(View):
    """An event for these ids that did not count."""

    event_id: str
    source: Source
    label: str
    verdict: Verdict
    reason: Reason
    at: IsoTime
    sentence: str


class ExplainView(View):
    """Why a wait still waits, or why it ended."""

    summary: str
    events: dict[str, str]
    near_misses: list[NearMissView]
