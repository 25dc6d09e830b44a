"""Dispatch jobs as callers send them."""

import re
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    AwareDatetime,
    BeforeValidator,
    Field,
    RootModel,
    model_validator,
)

from core.dispatch.headers import is_settable
from core.dispatch.job import JobStatus, Kind, Mode
from core.dispatch.pool import DEFAULT_POOL
from core.dispatch.subscription import (
    DEFAULT_MAX_RETRIES,
    DEFAULT_SEQUENCE,
    DEFAULT_TIMEOUT_SECONDS,
    Signature,
)
from core.shared.media_types import JSON
from core.shared.tsid import PATTERN
from serve_app.http.fields import SCHEMA_ID, Auth, is_printable
from serve_app.http.models import WireModel
from storage.dispatch.jobs import JobFilter, NewJob

MAX_JOBS_PER_BATCH = 100
MAX_JOBS_PER_CALL = 500
MAX_JOB_COUNT = 10_000
MIME = r"^[A-Za-z0-9!#$&^_.+-]{1,63}/[A-Za-z0-9!#$&^_.+-]{1,63}(;[ -~]{1,100})?$"
_YEAR = 366 * 86_400
_URL = r"^https?://[^\s/?#@\\]+(/[^\s#\\]*)?(\?[^\s#\\]*)?$"

JobId = Annotated[str, Field(pattern=PATTERN, examples=["0HZXEQ5Y8JY5Z"])]
LabelText = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(is_printable)]
GroupName = Annotated[str, Field(min_length=1, max_length=400), AfterValidator(is_printable)]
Cursor = Annotated[str, Field(pattern=PATTERN, description="nextCursor of the answer before.")]


TargetUrl = Annotated[
    str,
    Field(pattern=_URL, max_length=2_000, examples=["https://example.org/hook"]),
    AfterValidator(is_printable),
]


_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _written_out(value: Any) -> Any:
    """Parse an ISO time; refuse numbers, which pydantic takes for seconds since 1970."""
    try:
        if isinstance(value, str) and _DAY.match(value):
            return datetime.fromisoformat(value.upper())
    except ValueError:
        pass  # the same error as for any other text
    raise ValueError("a time such as 2026-01-31T12:00:00Z")


def _is_near(at: datetime) -> datetime:
    if not 1970 <= at.year < 9999:
        raise ValueError("a time between 1970 and 9999")
    return at


Timestamp = Annotated[AwareDatetime, BeforeValidator(_written_out), AfterValidator(_is_near)]


def _are_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not is_settable(name):
            raise ValueError(f"{name[:50]!r} is no header that can be set here")
        if not value.isascii() or not value.isprintable() or len(value) > 8_000:
            raise ValueError(f"the value of {name} must be printable ASCII, not too long")
    return headers


DeliveryHeaders = Annotated[dict[str, str], Field(max_length=50), AfterValidator(_are_headers)]


class Pair(WireModel):
    """A custom value that its owner stores with a job or a subscription."""

    key: LabelText
    value: Annotated[str, Field(max_length=1_000, pattern=r"^[^\x00]*$")]


class JobRequest(WireModel):
    """A job to deliver."""

    source: LabelText = Field(description="The application that posts it.")
    code: LabelText = Field(
        description="What kind of job it is.", examples=["shop:orders:order:ship"]
    )
    kind: Literal[Kind.TASK] = Field(
        Kind.TASK, description="Jobs of kind EVENT are made by events."
    )
    target_url: TargetUrl
    payload: Any = Field(
        description="What is delivered: a string as plain text, anything else as JSON."
    )
    payload_content_type: Annotated[str, Field(pattern=MIME)] = JSON
    headers: DeliveryHeaders = Field({}, description="Sent with each delivery.")
    auth: Auth | None = None
    signature: Signature = Field(
        Signature.STANDARD, description="Standard Webhooks, or one hash in one header."
    )
    metadata: Annotated[list[Pair], Field(max_length=50)] = Field([])
    subject: LabelText | None = None
    correlation_id: LabelText | None = None
    external_id: LabelText | None = None
    client_id: LabelText | None = Field(None, description="The client that the job is about.")
    schema_id: Annotated[str, Field(pattern=SCHEMA_ID)] | None = Field(
        None, description="The id of a stored schema that the payload must match."
    )
    idempotency_key: LabelText | None = Field(
        None, description="A second post with the same key answers with the first job."
    )
    message_group: GroupName | None = Field(
        None, description="Jobs of one group are delivered in their order, unless mode IMMEDIATE."
    )
    mode: Mode = Mode.IMMEDIATE
    sequence: Annotated[int, Field(ge=0, le=2**31 - 1)] = DEFAULT_SEQUENCE
    dispatch_pool_id: LabelText = Field(
        DEFAULT_POOL,
        validation_alias=AliasChoices("dispatchPoolId", "dispatchPool"),
        description="The id or the code of a pool; dispatchPool is the same.",
    )
    delay_seconds: Annotated[int, Field(ge=0, le=_YEAR)] = 0
    scheduled_for: Timestamp | None = Field(None, description="Deliver not before this time.")
    max_age_seconds: Annotated[int, Field(ge=1, le=_YEAR)] | None = None
    expires_at: Timestamp | None = Field(None, description="Expire at this time. Default: never.")
    timeout_seconds: Annotated[int, Field(ge=1, le=900)] = DEFAULT_TIMEOUT_SECONDS
    max_retries: Annotated[int, Field(ge=1, le=100, description="Attempts in total.")] = (
        DEFAULT_MAX_RETRIES
    )
    data_only: bool = Field(True, description="Send the payload alone; else within an envelope.")

    @model_validator(mode="after")
    def _is_said_once(self) -> Self:
        if self.scheduled_for is not None and self.delay_seconds:
            raise ValueError("delaySeconds or scheduledFor, not both")
        if self.expires_at is not None and self.max_age_seconds is not None:
            raise ValueError("maxAgeSeconds or expiresAt, not both")
        return self

    def to_new(self, job_id: str, pool_no: int, payload: bytes, now: float) -> NewJob:
        scheduled = _seconds(self.scheduled_for)
        if self.delay_seconds:
            scheduled = now + self.delay_seconds
        expires = _seconds(self.expires_at)
        if self.max_age_seconds is not None:
            expires = now + self.max_age_seconds
        return NewJob(
            **self.model_dump(include=_STORED),
            job_id=job_id,
            pool_no=pool_no,
            payload=payload,
            content_type=self.payload_content_type,
            scheduled_for=scheduled,
            expires_at=expires,
            metadata=tuple((pair.key, pair.value) for pair in self.metadata),
        )


_CONVERTED = {"payload", "scheduled_for", "expires_at", "metadata"}
_STORED = {one.name for one in fields(NewJob)} & JobRequest.model_fields.keys() - _CONVERTED


class JobBatch(
    RootModel[Annotated[list[JobRequest], Field(min_length=1, max_length=MAX_JOBS_PER_BATCH)]]
):
    """Several jobs to deliver; all are stored, or none."""


class PoolSelector(WireModel):
    """The pool of the jobs."""

    pool: LabelText | None = Field(None, description="The code of a pool.")
    dispatch_pool_id: LabelText | None = Field(None, description="The id of a pool, or its code.")

    @property
    def pool_names(self) -> list[str]:
        """Return the given names of the pool."""
        return [name for name in (self.pool, self.dispatch_pool_id) if name is not None]


class JobSelector(PoolSelector):
    """Which jobs to select."""

    status: list[JobStatus] | None = Field(None, max_length=len(JobStatus))
    ignored: bool | None = Field(None, description="Failed jobs that an operator has ignored.")
    kind: Kind | None = None
    source: LabelText | None = None
    code: LabelText | None = None
    subscription_id: LabelText | None = None
    message_group: GroupName | None = None
    event_id: LabelText | None = None
    correlation_id: LabelText | None = None
    client_id: LabelText | None = None
    created_after: Timestamp | None = None
    created_before: Timestamp | None = None

    def to_filter(
        self, pools: tuple[int, ...] | None, usual: tuple[JobStatus, ...] | None = None
    ) -> JobFilter:
        """Convert to a filter; without a status, `usual` ones that are not ignored."""
        is_usual = usual is not None and self.ignored is None
        return JobFilter(
            **self.model_dump(include=_FILTERS) | ({"ignored": False} if is_usual else {}),
            statuses=usual if self.status is None else tuple(self.status),
            pools=pools,
            created_after=_seconds(self.created_after),
            created_before=_seconds(self.created_before),
        )


_TIMES = {"created_after", "created_before"}
_FILTERS = {one.name for one in fields(JobFilter)} & JobSelector.model_fields.keys() - _TIMES


class JobQuery(JobSelector):
    """Which jobs a listing shows: page after page by cursor, or the page of a number."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: Cursor | None = None
    page: Annotated[int, Field(ge=0, le=MAX_JOB_COUNT)] | None = Field(
        None,
        description="The number of a page, from 0; the answer then has totals. Not with cursor.",
    )
    size: Annotated[int, Field(ge=1, le=100, description="Of a page with a number.")] = 20

    @model_validator(mode="after")
    def _is_one_way(self) -> Self:
        if self.page is not None and self.cursor is not None:
            raise ValueError("page or cursor, not both")
        if self.page is not None and (self.page + 1) * self.size > MAX_JOB_COUNT:
            raise ValueError(f"pages end at {MAX_JOB_COUNT} jobs: continue with cursor")
        return self


class JobChoice(JobSelector):
    """Which jobs to change: ids, or a filter, or all that the action is usually for."""

    ids: Annotated[list[JobId], Field(min_length=1, max_length=MAX_JOBS_PER_CALL)] | None = None
    all: bool = Field(False, description="Every job that the action is usually for.")
    limit: Annotated[
        int, Field(ge=1, le=MAX_JOBS_PER_CALL, description="The most jobs of one call.")
    ] = 100
    cursor: Cursor | None = None

    @model_validator(mode="after")
    def _is_one_way(self) -> Self:
        given = self.model_fields_set - {"ids", "all", "limit", "cursor"}
        filtered = any(getattr(self, name) is not None for name in given)
        if [self.ids is not None, filtered, self.all].count(True) != 1:
            raise ValueError("name ids, or filters, or all")
        if self.ids is not None and self.cursor is not None:
            raise ValueError("a cursor goes with filters or all")
        return self


class RecoverRequest(PoolSelector):
    """Which failed jobs to deliver again."""

    since: Timestamp = Field(description="Jobs that failed at this time or later.")
    until: Timestamp | None = Field(None, description="Jobs that failed before this time.")
    subscription_id: LabelText | None = None
    limit: Annotated[
        int, Field(ge=1, le=MAX_JOBS_PER_CALL, description="The most jobs of one call.")
    ] = 100
    cursor: Cursor | None = None

    def to_filter(self, pools: tuple[int, ...] | None) -> JobFilter:
        return JobFilter(
            statuses=(JobStatus.ERROR,),
            ignored=False,
            subscription_id=self.subscription_id,
            pools=pools,
            failed_after=_seconds(self.since),
            failed_before=_seconds(self.until),
        )


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
