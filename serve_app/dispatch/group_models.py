"""Message groups as callers send and get them."""

from dataclasses import asdict
from types import SimpleNamespace
from typing import Annotated, Any, Self

from pydantic import Field

from core.dispatch.groups import GroupState, head_of, is_blocked, state_of
from core.dispatch.job import JobStatus, Mode
from serve_app.dispatch.job_models import LabelText
from serve_app.dispatch.job_views import JobItem
from serve_app.http.fields import IsoTime
from serve_app.http.models import View, WireModel
from serve_app.http.page import Page
from storage.dispatch.groups import Group

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
    """Why a group is parked."""

    reason: LabelText | None = None


class HeadView(View):
    """The job that the others in its group wait for."""

    id: str = Field(validation_alias="job_id")
    status: JobStatus
    mode: Mode
    attempt_count: int
    scheduled_for: IsoTime | None
    last_error: str | None
    created_at: IsoTime
    age_seconds: float = Field(description="Since it was created.")


class ParkingView(View):
    """Who parked a group, and why."""

    reason: str | None
    by: str = Field(validation_alias="parked_by")
    at: IsoTime = Field(validation_alias="parked_at")


class GroupView(View):
    """A group of jobs that are delivered in order."""

    name: str
    dispatch_pool_id: str
    dispatch_pool_code: str
    state: GroupState
    blocked: bool = Field(description="A job failed for good, and blocks those behind it.")
    parked: ParkingView | None
    waiting: int = Field(description="Jobs to deliver, the head included; counted to 1000.")
    head: HeadView | None

    @classmethod
    def of_group(cls, group: Group, now: float, **more: Any) -> Self:
        """Render a group as it is now."""
        head, shown = head_of(group.failed, group.next_up), None
        if head is not None:
            age = round(max(0.0, now - head.created_at), 3)
            shown = SimpleNamespace(**asdict(head), age_seconds=age)
        values = {
            "name": group.place.name,
            "dispatch_pool_id": group.pool_id,
            "dispatch_pool_code": group.pool_code,
            "state": group_state_of(group, now),
            "blocked": is_blocked(group.failed, group.next_up),
            "parked": group.parking,
            "waiting": group.waiting,
            "head": shown,
        }
        return cls.of(values | more)


class GroupPage(Page[GroupView]):
    """Groups by pool and name."""


class GroupDetail(GroupView):
    """A group with its jobs, in the order they are delivered."""

    jobs: list[JobItem]
    next_cursor: str | None


def group_state_of(group: Group, now: float) -> GroupState:
    return state_of(group.failed, group.next_up, parked=group.parking is not None, now=now)
