"""Dispatch jobs as callers see them."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from core.dispatch.job import JobStatus, Kind, Mode
from core.dispatch.job_actions import Fate
from core.dispatch.subscription import Signature
from serve_app.dispatch.job_models import Pair
from serve_app.http.fields import Encoding
from serve_app.http.models import WireModel


class AttemptView(WireModel):
    """One time a job was sent."""

    id: str
    send_number: int = Field(description="Deferred ones count here.")
    attempt_number: int = Field(description="A deferral spends none and repeats the number.")
    attempted_at: datetime
    completed_at: datetime
    duration_millis: int
    status: str
    response_code: int | None
    response_body: str | None = Field(description="Its beginning.")
    error_type: str | None
    error_message: str | None


class AttemptPage(WireModel):
    """The times a job was sent, oldest first."""

    items: list[AttemptView]
    next_cursor: str | None


class JobItem(WireModel):
    """A delivery without what it brings. Values of headers are not shown."""

    id: str
    external_id: str | None
    kind: Kind
    code: str
    source: str | None
    subject: str | None
    event_id: str | None
    event_tenant: str | None = Field(description="Whose event it is; of the anchor's jobs only.")
    subscription_id: str | None
    correlation_id: str | None
    client_id: str | None = Field(description="An event's: contextData clientId.")
    schema_id: str | None
    metadata: list[Pair]
    target_url: str
    protocol: Literal["HTTP_WEBHOOK"]
    headers: dict[str, str]
    has_auth: bool
    signature: Signature | None = Field(description="null if its subscription is gone.")
    payload_content_type: str | None
    data_only: bool
    mode: Mode
    dispatch_pool_id: str
    dispatch_pool_code: str
    message_group: str | None
    sequence: int
    timeout_seconds: int
    max_retries: int
    retry_strategy: Literal["exponential"]
    status: JobStatus
    ignored: bool
    attempt_count: int
    scheduled_for: datetime | None
    expires_at: datetime | None
    last_attempt_at: datetime | None
    completed_at: datetime | None
    ignored_at: datetime | None
    duration_millis: int | None = Field(description="From its creation to its delivery.")
    last_error: str | None
    idempotency_key: str | None
    created_at: datetime
    updated_at: datetime


class JobView(JobItem):
    """A delivery with what it brings and its latest attempts, oldest first."""

    payload: Any = None
    payload_encoding: Encoding = Field(description="json, text, base64, or none where it is gone.")
    attempts: list[AttemptView]


class JobPage(WireModel):
    """Jobs, newest first; totals where a page was asked for, counted to 10000."""

    items: list[JobItem]
    next_cursor: str | None
    page: int | None = None
    size: int | None = None
    total_items: int | None = None
    total_pages: int | None = None


class JobsCreated(WireModel):
    """Jobs that were posted, in their order; those that were known are the first of their key."""

    jobs: list[JobItem]
    count: int
    known_count: int


class RefusedJobView(WireModel):
    """A job that was not changed, and why."""

    id: str
    result: Fate
    status: JobStatus | None = None


class JobsChanged(WireModel):
    """What became of many jobs; nextCursor leads to the rest."""

    changed: int
    refused: list[RefusedJobView]
    remaining: int = Field(description="How many are left to look at, counted to 10000.")
    next_cursor: str | None


class JobsRequeued(JobsChanged):
    """The same, of jobs that are delivered again."""

    requeued: int


class JobOption(WireModel):
    """A value to filter by, and how people call it."""

    value: str
    label: str


class JobOptions(WireModel):
    """What the latest jobs can be filtered by."""

    statuses: list[JobOption]
    kinds: list[JobOption]
    modes: list[JobOption]
    codes: list[JobOption]
    sources: list[JobOption]
    subscriptions: list[JobOption]
    pools: list[JobOption]
