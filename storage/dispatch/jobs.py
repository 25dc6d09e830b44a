"""Jobs as API callers see them: create, list, read, delete."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import asyncpg
import msgspec

from core.dispatch.job import JobRef, JobStatus, Kind, Mode, QueueState
from core.dispatch.subscription import Signature
from core.shared.tsid import first_at
from storage.encryption.cipher import ENCRYPTION_ERRORS
from storage.encryption.secret_values import decrypt_map, encrypt_map, job_at
from storage.postgres import bounded_scan
from storage.postgres.bounded_scan import ScanPage
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q
from storage.postgres.table import values_of

# Sort before and after every id.
_FIRST, _LAST = "", "~"
# A job is stored at most this much later than its id is made.
CLOCK_SLACK = 60.0

# A tenant, and the job ids that bound a scan.
JobIdRange: TypeAlias = tuple[int, str, str]

# The fields of a new job that are stored unchanged.
_PLAIN = (
    *("job_id", "pool_no", "code", "source", "subject", "correlation_id", "external_id"),
    *("target_url", "message_group", "mode", "sequence", "max_retries", "timeout_seconds"),
    *("data_only", "scheduled_for", "expires_at", "idempotency_key", "payload", "content_type"),
    *("signature", "client_id", "schema_id"),
)

_metadata = msgspec.json.Decoder(tuple[tuple[str, str], ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A TASK to store."""

    job_id: str
    pool_no: int
    code: str
    source: str
    target_url: str
    payload: bytes
    content_type: str
    subject: str | None = None
    correlation_id: str | None = None
    external_id: str | None = None
    client_id: str | None = None
    schema_id: str | None = None
    message_group: str | None = None
    mode: Mode = Mode.IMMEDIATE
    sequence: int = 99
    max_retries: int = 3
    timeout_seconds: int = 30
    data_only: bool = True
    scheduled_for: float | None = None
    expires_at: float | None = None
    idempotency_key: str | None = None
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    auth: dict[str, str] | None = field(default=None, repr=False)
    metadata: tuple[tuple[str, str], ...] = ()
    signature: Signature = Signature.STANDARD

    def to_job_ref(self, tenant: int, position: int) -> JobRef:
        """Convert to the reference that the pool keeps, now that the position is known."""
        return JobRef(
            tenant=tenant,
            job_id=self.job_id,
            position=position,
            target=self.target_url,
            mode=self.mode,
            group=self.message_group,
            sequence=self.sequence,
            due=self.scheduled_for or 0.0,
            size=len(self.payload or b""),
        )


@dataclass(frozen=True, slots=True)
class CreatedJob:
    """The result of posting a job; `known` is the earlier job with the same key."""

    job_id: str
    pool_no: int
    position: int
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored job; `payload` is only set if the whole job was read."""

    protocol: ClassVar = "HTTP_WEBHOOK"
    retry_strategy: ClassVar = "exponential"

    job_id: str
    position: int
    pool_no: int
    pool_id: str
    pool_code: str
    kind: Kind
    code: str
    source: str | None
    subject: str | None
    event_id: str | None
    event_tenant: str | None
    """The tenant of the event that an anchor's job delivers."""
    subscription_id: str | None
    correlation_id: str | None
    external_id: str | None
    client_id: str | None
    schema_id: str | None
    target_url: str
    message_group: str | None
    mode: Mode
    sequence: int
    max_retries: int
    timeout_seconds: int
    data_only: bool
    status: JobStatus
    standing: QueueState
    attempt_count: int
    sends: int
    last_error: str | None
    idempotency_key: str | None
    content_type: str | None
    headers: dict[str, str] = field(repr=False)
    metadata: tuple[tuple[str, str], ...]
    has_auth: bool
    signature: Signature | None
    """The signature of the job, or of its subscription if that still exists."""
    payload: bytes | None = field(repr=False)
    scheduled_for: float | None
    expires_at: float | None
    last_attempt_at: float | None
    completed_at: float | None
    ignored_at: float | None
    created_at: float
    updated_at: float

    @property
    def is_ignored(self) -> bool:
        return self.ignored_at is not None

    @property
    def duration_ms(self) -> int | None:
        """Return the time from the creation to the delivery."""
        if self.status is not JobStatus.COMPLETED or self.completed_at is None:
            return None
        return round((self.completed_at - self.created_at) * 1000)

    @property
    def deduplication_key(self) -> str | None:
        """Return the caller's key; an event's job has one for its event and subscription."""
        is_events = self.kind is Kind.EVENT
        return f"{self.event_id}:{self.subscription_id}" if is_events else self.idempotency_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One delivery attempt of a job."""

    job_id: str
    send_no: int
    attempt_number: int
    attempted_at: float
    duration_ms: int
    status: str
    response_code: int | None
    response_body: str | None
    error_type: str | None
    error_message: str | None

    @property
    def attempt_id(self) -> str:
        return f"{self.job_id}-{self.send_no}"

    @property
    def completed_at(self) -> float:
        return self.attempted_at + self.duration_ms / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """A filter of jobs; None matches all.

    `failed_after` and `failed_before` refer to the last attempt. `ignored` selects
    failed jobs by whether an operator has ignored them.
    """

    statuses: tuple[JobStatus, ...] | None = None
    ignored: bool | None = None
    kind: Kind | None = None
    source: str | None = None
    code: str | None = None
    subscription_id: str | None = None
    message_group: str | None = None
    event_id: str | None = None
    correlation_id: str | None = None
    client_id: str | None = None
    pools: tuple[int, ...] | None = None
    created_after: float | None = None
    created_before: float | None = None
    failed_after: float | None = None
    failed_before: float | None = None

    @property
    def standing(self) -> QueueState | None:
        """Return the queue state by which an index finds open failures; None for other filters."""
        is_open_failure = self.statuses == (JobStatus.ERROR,) and self.ignored is False
        return QueueState.ERROR if is_open_failure else None

    @property
    def is_served(self) -> bool:
        """Return True if an index serves the filter, or if it matches all jobs."""
        if self.event_id is not None or self.standing is not None:
            return True
        return self == JobFilter(
            created_after=self.created_after, created_before=self.created_before
        )


@dataclass(frozen=True, slots=True)
class FilterOption:
    """A value that jobs can be filtered by, and its label."""

    name: str
    value: str
    label: str


async def create(pool: Pool, tenant: int, jobs: Sequence[NewJob]) -> list[CreatedJob]:
    """Store all jobs or none; return the results in their order."""
    if len(jobs) == 1:
        return await _create(pool, tenant, jobs)
    async with pool.acquire() as conn, conn.transaction():
        return await _create(conn, tenant, jobs)


async def _create(conn: Pool | Connection, tenant: int, jobs: Sequence[NewJob]) -> list[CreatedJob]:
    """Store jobs in one statement, and look up keys that another caller stores at the same moment.

    The second look finds those, because they are committed by then.
    """
    found: dict[int, CreatedJob] = {}
    while len(found) < len(jobs):
        left = [place for place in range(len(jobs)) if place not in found]
        rows = await conn.fetch(
            Q["create_jobs"], tenant, *_columns(tenant, [jobs[p] for p in left])
        )
        for row in rows:
            found[left[row["place"] - 1]] = CreatedJob(
                row["job_id"], row["pool_no"], row["position"], row["known"]
            )
    return [found[place] for place in range(len(jobs))]


async def read(pool: Pool, tenant: int, job_id: str) -> Job | None:
    """Read one job with its payload."""
    rows = await pool.fetch(Q["read_jobs"], tenant, [job_id], True)
    return _job(tenant, rows[0]) if rows else None


async def read_many(pool: Pool, tenant: int, job_ids: Sequence[str]) -> list[Job]:
    """Read those of these jobs that exist, newest first, without payloads."""
    rows = await pool.fetch(Q["read_jobs"], tenant, list(job_ids), False)
    return [_job(tenant, row) for row in rows]


async def page(
    pool: Pool, tenant: int, chosen: JobFilter, before: str | None, limit: int, skip: int = 0
) -> ScanPage[str, str]:
    """Read the ids of the next jobs of a listing, newest first, within one bounded scan."""
    bounds = _bounds(tenant, chosen, _FIRST, before or _LAST)
    bounds, scanned_to = await _one_scan(pool, chosen, bounds, is_ahead=False)
    arguments = _arguments("list_jobs", bounds, chosen, limit, skip)
    rows = await pool.fetch(Q["list_jobs"], *arguments)
    return ScanPage([row["job_id"] for row in rows], scanned_to)


async def upcoming(
    pool: Pool, tenant: int, chosen: JobFilter, after: str | None, limit: int
) -> ScanPage[str, str]:
    """Read the ids of the jobs after this one, oldest first, within one bounded scan."""
    bounds = _bounds(tenant, chosen, after or _FIRST, _LAST)
    bounds, scanned_to = await _one_scan(pool, chosen, bounds, is_ahead=True)
    rows = await pool.fetch(Q["next_jobs"], *_arguments("next_jobs", bounds, chosen, limit))
    return ScanPage([row["job_id"] for row in rows], scanned_to)


async def count(pool: Pool, tenant: int, chosen: JobFilter, after: str | None, most: int) -> int:
    """Count the jobs after this one, or all jobs, up to `most` and within one bounded scan."""
    bounds = _bounds(tenant, chosen, after or _FIRST, _LAST)
    bounds, _ = await _one_scan(pool, chosen, bounds, is_ahead=after is not None)
    arguments = _arguments("count_jobs", bounds, chosen, most)
    return int(await pool.fetchval(Q["count_jobs"], *arguments))


async def options(pool: Pool, tenant: int, latest: int) -> list[FilterOption]:
    """Return the values by which the latest jobs can be filtered."""
    return [FilterOption(*row) for row in await pool.fetch(Q["job_options"], tenant, latest)]


async def attempts(pool: Pool, tenant: int, job_id: str, after: int, limit: int) -> list[Attempt]:
    """Read a job's attempts, oldest first."""
    rows = await pool.fetch(Q["list_attempts"], tenant, job_id, after, limit)
    return [Attempt(job_id=job_id, **row) for row in rows]


async def latest_attempts(pool: Pool, tenant: int, job_id: str, limit: int) -> list[Attempt]:
    """Read a job's last attempts, oldest first."""
    rows = await pool.fetch(Q["latest_attempts"], tenant, job_id, limit)
    return [Attempt(job_id=job_id, **row) for row in reversed(rows)]


async def forget(pool: Pool, tenant: int, before: float, limit: int) -> int:
    """Delete a batch of ended jobs that were created before this time; return how many."""
    return len(await pool.fetch(Q["forget_jobs"], tenant, first_at(before), limit))


def _columns(tenant: int, jobs: Sequence[NewJob]) -> list[list[object]]:
    """Return one list for each column, in the order of the statement."""
    return [
        *([getattr(job, name) for job in jobs] for name in _PLAIN),
        [encrypt_map(job.headers or None, job_at(tenant, job.job_id, "headers")) for job in jobs],
        [encrypt_map(job.auth, job_at(tenant, job.job_id, "auth")) for job in jobs],
        [msgspec.json.encode(job.metadata).decode() if job.metadata else None for job in jobs],
    ]


async def _one_scan(
    pool: Pool, chosen: JobFilter, bounds: JobIdRange, *, is_ahead: bool
) -> tuple[JobIdRange, str | None]:
    """Narrow bounds to one scan, from the oldest job if `is_ahead`, else from the newest.

    Return also the last id that it reads, if more follow.
    """
    if chosen.is_served:
        return bounds, None
    query = "look_ahead_at_jobs" if is_ahead else "look_back_at_jobs"
    rows = await pool.fetch(Q[query], *bounds, bounded_scan.SCAN_LIMIT - 1)
    if len(rows) < 2:
        return bounds, None
    last, beyond = (row["job_id"] for row in rows)
    tenant, after, before = bounds
    return ((tenant, after, beyond) if is_ahead else (tenant, beyond, before)), last


def _bounds(tenant: int, chosen: JobFilter, after: str, before: str) -> JobIdRange:
    """Convert times to bounds of ids, which grow with time. The query checks the exact times."""
    if chosen.created_after is not None:
        after = max(after, first_at(chosen.created_after - CLOCK_SLACK))
    if chosen.created_before is not None:
        before = min(before, first_at(chosen.created_before + CLOCK_SLACK))
    return tenant, after, before


def _arguments(
    query: str, bounds: JobIdRange, chosen: JobFilter, limit: int, skip: int = 0
) -> list[object]:
    place = dict(zip(("tenant", "after", "before"), bounds, strict=True))
    values = values_of(chosen) | {"standing": chosen.standing, "limit": limit, "skip": skip}
    return Q.arguments(query, place | values)


def _readable_headers(tenant: int, row: asyncpg.Record) -> dict[str, str]:
    """Decrypt the headers; return none if their key is missing, so that the job can be shown."""
    with suppress(*ENCRYPTION_ERRORS):
        return decrypt_map(row["headers"], job_at(tenant, row["job_id"], "headers"))
    return {}


def _job(tenant: int, row: asyncpg.Record) -> Job:
    metadata = _metadata.decode(row["metadata"]) if row["metadata"] else ()
    values = {"headers": _readable_headers(tenant, row), "metadata": metadata}
    return msgspec.convert(dict(row) | values, Job)
