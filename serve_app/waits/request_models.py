"""Requests of waits, callbacks and the inbox."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from core.shared.address import ID_LENGTH, check_id
from core.waits.config import WaitConfig
from core.waits.messages import Reason, Verdict
from core.waits.spec import Strategy
from core.waits.strategy import Status
from serve_app.http.fields import is_printable
from serve_app.http.models import WireModel

MAX_ITEMS = 1_000
EVENT_ID_LENGTH = 200
_TEN_YEARS = 10 * 365 * 86_400.0


def _is_id(value: str) -> str:
    if check_id(value) is None:
        raise ValueError("printable characters, without a space at either end")
    return value


Id = Annotated[str, Field(min_length=1, max_length=ID_LENGTH), AfterValidator(_is_id)]
EventId = Annotated[
    str, Field(min_length=1, max_length=EVENT_ID_LENGTH), AfterValidator(is_printable)
]


def are_valid_ids(execution: str | None, correlation: str | None, event: str | None) -> bool:
    """Return whether `EventItem` would accept these ids; that model describes what is wrong."""
    return (
        (execution is None or check_id(execution) is not None)
        and (correlation is None or check_id(correlation) is not None)
        and (event is None or (0 < len(event) <= EVENT_ID_LENGTH and event.isprintable()))
    )


class WaitRequest(WireModel):
    """A wait to register."""

    execution_id: Id | None = Field(None, description="Made up if it is left out.")
    node_id: Id = Field("wait", description="The step of the execution that waits.")
    correlation_id: Id | None = Field(
        None, description="If left out: the same for each repetition of execution and node."
    )
    type: Literal["wait_events"] = "wait_events"
    data: WaitConfig = Field(description="What to wait for, and how long.")


class WaitBatch(WireModel):
    """Several waits to register; each has its result."""

    items: Annotated[list[WaitRequest], Field(min_length=1, max_length=MAX_ITEMS)]


class EventItem(WireModel):
    """One event of a batch. Its ids may be here or in its body."""

    execution_id: Id | None = None
    correlation_id: Id | None = None
    event_id: EventId | None = Field(
        None, description="Sent again with the same id, it counts once."
    )
    body: Any = None


class EventBatch(WireModel):
    """Several events of one sender; each has its result."""

    items: Annotated[list[EventItem], Field(min_length=1, max_length=MAX_ITEMS)]


class WaitQuery(WireModel):
    """Which waits a listing shows."""

    status: Status | None = None
    execution_id: Id | None = None
    strategy: Strategy | None = None
    older_than: Annotated[float, Field(ge=0, le=_TEN_YEARS)] | None = Field(
        None, description="Only waits registered at least so many seconds ago."
    )
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = Field(None, description="nextCursor of the page before.")


class InboxQuery(WireModel):
    """Which events a listing of the inbox shows."""

    verdict: Verdict | None = None
    reason: Reason | None = None
    correlation_id: Id | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = Field(None, description="nextCursor of the page before.")
