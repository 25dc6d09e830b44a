"""Dispatch jobs as callers see them."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field

from core.dispatch.job import JobStatus, Kind, Mode
from core.dispatch.job_actions import Fate
from core.dispatch.subscription import Signature
from serve_app.dispatch.job_models import Pair
from serve_app.http import fields
from serve_app.http.fields import Encoding, IsoTime, MaskedHeaders
from serve_app.http.models import PayloadView, View
from serve_app.http.page import Page
from storage.dispatch.jobs import Attempt, FilterOption, Job

_Pairs = Annotated[
    list[Pair], BeforeValidator(lambda pairs: [{"key": key, "value": text} for key, text in pairs])
]


class AttemptView(View):
    """One time a job was sent."""

    id: str = Field(validation_alias="attempt_id")
    send_number: int = Field(validation_alias="send_no", description="Deferred ones count here.")
    attempt_number: int = Field(description="A deferral spends none and repeats the number.")
    attempted_at: IsoTime
    completed_at: IsoTime
    duration_millis: int = Field(validation_alias="duration_ms")
    status: str
    response_code: int | None
    response_body: str | None = Field(description="The beginning of the answer.")
    error_type: str | None
    error_message: str | None


class AttemptPage(Page[AttemptView]):
    """The times a job was sent, oldest first."""


class JobItem(View):
    """A job without its payload. Values of headers are not shown."""

    id: str = Field(validation_alias="job_id")
    external_id: str | None
    kind: Kind
    code: str
    source: str | None
    subject: str | None
    event_id: str | None
    event_tenant: str | None = Field(
        description="The tenant of the event; only in jobs of the anchor."
    )
    subscription_id: str | None
    correlation_id: str | None
    client_id: str | None = Field(description="An event's: contextData clientId.")
    schema_id: str | None
    metadata: _Pairs
    target_url: str
    protocol: Literal["HTTP_WEBHOOK"]
    headers: MaskedHeaders
    has_auth: bool
    signature: Signature | None = Field(description="null if its subscription was deleted.")
    payload_content_type: str | None = Field(validation_alias="content_type")
    data_only: bool
    mode: Mode
    dispatch_pool_id: str = Field(validation_alias="pool_id")
    dispatch_pool_code: str = Field(validation_alias="pool_code")
    message_group: str | None
    sequence: int
    timeout_seconds: int
    max_retries: int
    retry_strategy: Literal["exponential"]
    status: JobStatus
    ignored: bool = Field(validation_alias="is_ignored")
    attempt_count: int
    scheduled_for: IsoTime | None
    expires_at: IsoTime | None
    last_attempt_at: IsoTime | None
    completed_at: IsoTime | None
    ignored_at: IsoTime | None
    duration_millis: int | None = Field(
        validation_alias="duration_ms", description="From its creation to its delivery."
    )
    last_error: str | None
    idempotency_key: str | None = Field(validation_alias="deduplication_key")
    created_at: IsoTime
    updated_at: IsoTime


class JobView(JobItem, PayloadView):
    """A job with its payload and its latest attempts, oldest first."""

    payload: Any = None
    payload_encoding: Encoding = Field(
        description="json, text, base64, or none if it is no longer stored."
    )
    attempts: list[AttemptView]

    @classmethod
    def of_job(cls, job: Job, attempts: Iterable[Attempt]) -> "JobView":
        """Render a job that was read with its payload."""
        payload, encoding = fields.json_or_base64(job.payload)
        if encoding is Encoding.BASE64:
            payload, encoding = fields.text_or_base64(job.payload)
        return cls.model_construct(
            **JobItem.of(job).__dict__,
            payload=payload,
            payload_encoding=encoding,
            attempts=[AttemptView.of(one) for one in attempts],
        )


class JobPage(Page[JobItem]):
    """Jobs, newest first; totals where a page was asked for, counted to 10000."""

    page: int | None = fields.optional()
    size: int | None = fields.optional()
    total_items: int | None = fields.optional()
    total_pages: int | None = fields.optional()


class JobsCreated(View):
    """Posted jobs in their order; for a known idempotencyKey, the job that was posted first."""

    jobs: list[JobItem]
    count: int
    known_count: int


class RefusedJobView(View):
    """A job that was not changed, and why."""

    id: str = Field(validation_alias="job_id")
    result: Fate = Field(validation_alias="fate")
    status: JobStatus | None = Field(
        None, validation_alias="previous_status", exclude_if=lambda status: status is None
    )


class JobsChanged(View):
    """The result of an action on many jobs; nextCursor continues with the rest."""

    changed: int
    refused: list[RefusedJobView]
    remaining: int = Field(description="Matching jobs that were not tried yet, counted to 10000.")
    next_cursor: str | None


class JobsRequeued(JobsChanged):
    """The result for jobs that are delivered again."""

    requeued: int = Field(validation_alias="changed")


class JobOption(View):
    """A value to filter by, and its label."""

    value: str
    label: str


class JobOptions(View):
    """The values by which the latest jobs can be filtered."""

    statuses: list[JobOption]
    kinds: list[JobOption]
    modes: list[JobOption]
    codes: list[JobOption]
    sources: list[JobOption]
    subscriptions: list[JobOption]
    pools: list[JobOption]

    @classmethod
    def of_options(cls, found: Iterable[FilterOption]) -> Self:
        """Render the values that jobs have, and all states, kinds and modes."""
        fixed = {"statuses": JobStatus, "kinds": Kind, "modes": Mode}
        lists: dict[str, list[Any]] = {name: [] for name in cls.model_fields}
        for name, values in fixed.items():
            lists[name] = [
                JobOption(value=one, label=one.replace("_", " ").capitalize()) for one in values
            ]
        for option in found:
            lists[f"{option.name}s"].append(option)
        return cls.of(lists)
