"""Jobs as API callers see them: create, list, read, delete."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One delivery attempt of a job."""

    send_no: int
    attempt_number: int
    attempted_at: float
    duration_ms: int
    status: str
    response_code: int | None
    response_body: str | None
    error_type: str | None
    error_message: str | None


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
    bounds, looked_to = await _look_back(pool, chosen, bounds)
    rows = await pool.fetch(Q["list_jobs"], *bounds, *_conditions(chosen), limit, skip)
    return ScanPage([row["job_id"] for row in rows], looked_to)


async def upcoming(
    pool: Pool, tenant: int, chosen: JobFilter, after: str | None, limit: int
) -> ScanPage[str, str]:
    """Read the ids of the jobs after this one, oldest first, within one bounded scan."""
    bounds = _bounds(tenant, chosen, after or _FIRST, _LAST)
    bounds, looked_to = await _look_ahead(pool, chosen, bounds)
    rows = await pool.fetch(Q["next_jobs"], *bounds, *_conditions(chosen), limit)
    return ScanPage([row["job_id"] for row in rows], looked_to)


async def count(pool: Pool, tenant: int, chosen: JobFilter, after: str | None, most: int) -> int:
    """Count the jobs after this one, or all jobs, up to `most` and within one bounded scan."""
    bounds = _bounds(tenant, chosen, after or _FIRST, _LAST)
    look = _look_back if after is None else _look_ahead
    bounds, _ = await look(pool, chosen, bounds)
    counted: int = await pool.fetchval(Q["count_jobs"], *bounds, *_conditions(chosen), most)
    return counted


async def options(pool: Pool, tenant: int, latest: int) -> list[FilterOption]:
    """Return the values by which the latest jobs can be filtered."""
    return [FilterOption(*row) for row in await pool.fetch(Q["job_options"], tenant, latest)]


async def attempts(pool: Pool, tenant: int, job_id: str, after: int, limit: int) -> list[Attempt]:
    """Read a job's attempts, oldest first."""
    rows = await pool.fetch(Q["list_attempts"], tenant, job_id, after, limit)
    return [Attempt(**row) for row in rows]


async def latest_attempts(pool: Pool, tenant: int, job_id: str, limit: int) -> list[Attempt]:
    """Read a job's last attempts, oldest first."""
    rows = await pool.fetch(Q["latest_attempts"], tenant, job_id, limit)
    return [Attempt(**row) for row in reversed(rows)]


async def forget(pool: Pool, tenant: int, before: float, limit: int) -> int:
    """Delete a batch of ended jobs that were created before this time; return how many."""
    return len(await pool.fetch(Q["forget_jobs"], tenant, first_at(before), limit))


def _columns(tenant: int, jobs: Sequence[NewJob]) -> list[list[object]]:
    """Return one list for each column, in the order of the statement."""
    return [
        *([getattr(job, name) for job in jobs] for name in _PLAIN),
        [encrypt_map(job.headers or None, job_at(tenant, job.job_id, "headers")) for job in jobs],
        [encrypt_map(job.auth, job_at(tenant, job.job_id, "auth")) for job in jobs],
        [_json(job.metadata or None) for job in jobs],
    ]


async def _look_back(
    pool: Pool, chosen: JobFilter, bounds: JobIdRange
) -> tuple[JobIdRange, str | None]:
    """Narrow bounds to one scan from the newest job; return the last id it reads if more follow."""
    ends = await _ends(pool, "look_back_at_jobs", chosen, bounds)
    if ends is None:
        return bounds, None
    tenant, _, before = bounds
    last, beyond = ends
    return (tenant, beyond, before), last


async def _look_ahead(
    pool: Pool, chosen: JobFilter, bounds: JobIdRange
) -> tuple[JobIdRange, str | None]:
    """Narrow bounds to one scan from the oldest job; return the last id it reads if more follow."""
    ends = await _ends(pool, "look_ahead_at_jobs", chosen, bounds)
    if ends is None:
        return bounds, None
    tenant, after, _ = bounds
    last, beyond = ends
    return (tenant, after, beyond), last


async def _ends(
    pool: Pool, query: str, chosen: JobFilter, bounds: JobIdRange
) -> tuple[str, str] | None:
    """Return the last id within a scan and the first beyond it; None if no limit is needed."""
    if chosen.is_served:
        return None
    rows = await pool.fetch(Q[query], *bounds, bounded_scan.SCAN_LIMIT - 1)
    return (rows[0]["job_id"], rows[1]["job_id"]) if len(rows) == 2 else None


def _bounds(tenant: int, chosen: JobFilter, after: str, before: str) -> JobIdRange:
    """Convert times to bounds of ids, which grow with time. The query checks the exact times."""
    if chosen.created_after is not None:
        after = max(after, first_at(chosen.created_after - CLOCK_SLACK))
    if chosen.created_before is not None:
        before = min(before, first_at(chosen.created_before + CLOCK_SLACK))
    return tenant, after, before


def _conditions(chosen: JobFilter) -> tuple[object, ...]:
    return (
        None if chosen.statuses is None else list(chosen.statuses),
        chosen.standing,
        chosen.ignored,
        chosen.kind,
        chosen.source,
        chosen.code,
        chosen.subscription_id,
        chosen.message_group,
        chosen.event_id,
        chosen.correlation_id,
        None if chosen.pools is None else list(chosen.pools),
        chosen.created_after,
        chosen.created_before,
        chosen.failed_after,
        chosen.failed_before,
        chosen.client_id,
    )


def _readable_headers(tenant: int, row: asyncpg.Record) -> dict[str, str]:
    """Decrypt the headers; return none if their key is missing, so that the job can be shown."""
    with suppress(*ENCRYPTION_ERRORS):
        return decrypt_map(row["headers"], job_at(tenant, row["job_id"], "headers"))
    return {}


def _job(tenant: int, row: asyncpg.Record) -> Job:
    values = dict(row)
    return Job(
        **values
        | {
            "kind": Kind(row["kind"]),
            "mode": Mode(row["mode"]),
            "status": JobStatus(row["status"]),
            "standing": QueueState(row["standing"]),
            "headers": _readable_headers(tenant, row),
            "signature": Signature(row["signature"]) if row["signature"] else None,
            "metadata": _metadata.decode(row["metadata"]) if row["metadata"] else (),
        }
    )


def _json(value: object) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
