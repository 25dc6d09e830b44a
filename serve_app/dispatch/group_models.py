"""What callers of dispatch groups send and get."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from core.dispatch.groups import GroupMember, GroupState, head_of, is_blocked, state_of
from core.dispatch.job import JobStatus, Mode
from core.shared.timestamps import to_iso
from serve_app.dispatch.job_models import LabelText
from serve_app.dispatch.job_views import JobItem
from serve_app.http.models import Document, WireModel
from storage.dispatch.groups import Group, Parking

MAX_WAITING_COUNT = 1_000


class GroupQuery(WireModel):
    """Which groups a listing shows."""

    pool: LabelText | None = Field(None, description="The code or the id of a pool.")
    state: GroupState | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str, Field(max_length=2_000)] | None = Field(
        None, description="nextCursor of the page before."
    )


class ParkRequest(WireModel):
    """Why a group is held back."""

    reason: LabelText | None = None


class HeadView(WireModel):
    """The job that everybody in its group waits for."""

    id: str
    status: JobStatus
    mode: Mode
    attempt_count: int
    scheduled_for: datetime | None
    last_error: str | None
    created_at: datetime
    age_seconds: float = Field(description="Since it was created.")


class ParkingView(WireModel):
    """Who holds a group back, and why."""

    reason: str | None
    by: str
    at: datetime


class GroupView(WireModel):
    """A group of jobs that are delivered in their order."""

    name: str
    dispatch_pool_id: str
    dispatch_pool_code: str
    state: GroupState
    blocked: bool = Field(description="A job failed for good, and holds those behind it.")
    parked: ParkingView | None
    waiting: int = Field(description="Jobs to deliver, the head included; counted to 1000.")
    head: HeadView | None


class GroupPage(WireModel):
    """Groups by pool and name."""

    items: list[GroupView]
    next_cursor: str | None


class GroupDetail(GroupView):
    """A group with its jobs, in the order they are delivered."""

    jobs: list[JobItem]
    next_cursor: str | None


def group_state_of(group: Group, now: float) -> GroupState:
    return state_of(group.failed, group.next_up, parked=group.parking is not None, now=now)


def group_document(group: Group, now: float) -> Document:
    head = head_of(group.failed, group.next_up)
    return {
        "name": group.place.name,
        "dispatchPoolId": group.pool_id,
        "dispatchPoolCode": group.pool_code,
        "state": group_state_of(group, now),
        "blocked": is_blocked(group.failed, group.next_up),
        "parked": None if group.parking is None else _parking(group.parking),
        "waiting": group.waiting,
        "head": None if head is None else _head(head, now),
    }


def _head(head: GroupMember, now: float) -> Document:
    return {
        "id": head.job_id,
        "status": head.status,
        "mode": head.mode,
        "attemptCount": head.attempt_count,
        "scheduledFor": None if head.scheduled_for is None else to_iso(head.scheduled_for),
        "lastError": head.last_error,
        "createdAt": to_iso(head.created_at),
        "ageSeconds": round(max(0.0, now - head.created_at), 3),
    }


def _parking(parking: Parking) -> Document:
    return {
        "reason": parking.reason,
        "by": parking.parked_by,
        "at": to_iso(parking.parked_at),
    }
