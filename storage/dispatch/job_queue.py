"""The queue of a dispatch pool: jobs are found, claimed by a conditional update, and finished."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
import msgspec

from core.dispatch.attempt import EXPIRED_MESSAGE, AttemptStatus, DeliveryAttempt, JobTransition
from core.dispatch.claim import ClaimedEvent, ClaimedJob
from core.dispatch.job import GroupKey, JobKey, JobRef, Kind, Mode
from core.dispatch.subscription import Signature
from storage.encryption.cipher import ENCRYPTION_ERRORS
from storage.encryption.secret_values import decrypt_map, job_at
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

MAX_KEPT_DEFERRALS = 100
"""The latest deferrals of a job that are kept; up to twice as many between two clean-ups."""

_MODES = {mode.value: mode for mode in Mode}
_KINDS = {kind.value: kind for kind in Kind}
_SIGNATURES = {signature.value: signature for signature in Signature}
_object = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a claimed job. `sent` is None if it was not sent after all."""

    key: JobKey
    send_no: int
    step: JobTransition
    sent: DeliveryAttempt | None


@dataclass(eq=False, repr=False)
class JobQueue:
    """The jobs of one dispatch pool, as one process delivers them."""

    _pool: Pool | Connection
    _pool_no: int
    _owner: str = ""
    _grace: float = 0.0

    async def claim(self, keys: Sequence[JobKey]) -> list[ClaimedJob]:
        """Claim these jobs, each for its time-out and the grace; return those that were won."""
        tenants, ids = _columns(keys)
        rows = await self._pool.fetch(
            Q["claim_jobs"], tenants, ids, self._pool_no, self._owner, self._grace
        )
        return [_claimed(row) for row in rows]

    async def finish(self, results: Sequence[JobResult]) -> dict[JobKey, float]:
        """Write results; return when each job goes again (0: never), without the lost ones."""
        rows = await self._pool.fetch(Q["finish_jobs"], [_result_row(one) for one in results])
        if often := [one for one in results if _is_deferred_often(one)]:
            await self._pool.execute(
                Q["forget_deferrals"],
                *_columns([one.key for one in often]),
                [one.send_no - MAX_KEPT_DEFERRALS for one in often],
            )
        return {JobKey(tenant, job_id): due for tenant, job_id, due in rows}

    async def scan(self, after: int, limit: int) -> list[JobRef]:
        """Read the open jobs in the order they were stored."""
        rows = await self._pool.fetch(Q["scan_jobs"], self._pool_no, after, limit)
        return [job_ref_of(row) for row in rows]

    async def unclaimed(self, after: int, limit: int) -> list[JobRef]:
        """Read the jobs that no pool has in memory."""
        rows = await self._pool.fetch(Q["jobs_again"], self._pool_no, after, limit)
        return [job_ref_of(row) for row in rows]

    async def find(self, keys: Sequence[JobKey]) -> list[JobRef]:
        """Read those of these jobs that are still open."""
        rows = await self._pool.fetch(Q["find_jobs"], self._pool_no, *_columns(keys))
        return [job_ref_of(row) for row in rows]

    async def read_groups(
        self, groups: Sequence[GroupKey], limit: int
    ) -> dict[GroupKey, list[JobRef]]:
        """Read the first jobs of these groups, in their order."""
        found: dict[GroupKey, list[JobRef]] = {group: [] for group in groups}
        columns = _columns(groups)
        for row in await self._pool.fetch(Q["read_groups"], self._pool_no, *columns, limit):
            found[GroupKey(row["tenant_id"], row["message_group"])].append(job_ref_of(row))
        return found

    async def expire(self, limit: int) -> list[JobKey]:
        """End expired jobs that nobody is sending; return their keys."""
        rows = await self._pool.fetch(Q["expire_jobs"], self._pool_no, limit, EXPIRED_MESSAGE)
        return [JobKey(*row) for row in rows]

    async def not_failed(self, keys: Sequence[JobKey]) -> list[JobKey]:
        """Return those of these jobs that have not failed, or that an operator has dealt with."""
        rows = await self._pool.fetch(Q["jobs_not_failed"], *_columns(keys))
        return [JobKey(*row) for row in rows]

    async def parked_groups(self) -> set[GroupKey]:
        return {GroupKey(*row) for row in await self._pool.fetch(Q["parked_groups"], self._pool_no)}

    async def recent_starts(self) -> list[float]:
        """Return how many seconds ago each delivery of the last minute began, the oldest first."""
        rows = await self._pool.fetch(Q["recent_starts"], self._pool_no)
        return [row["ago"] for row in rows]


async def mark_pending(pool: Pool, keys: Sequence[JobKey]) -> None:
    """Mark jobs that no pool took over, so that the pool's next scan finds them."""
    await pool.execute(Q["mark_pending"], *_columns(keys))


def job_ref_of(row: asyncpg.Record) -> JobRef:
    """Convert a row to the reference that a scheduler keeps."""
    return JobRef(
        tenant=row["tenant_id"],
        job_id=row["job_id"],
        position=row["position"],
        target=row["target_url"],
        mode=_MODES[row["mode"]],
        group=row["message_group"],
        sequence=row["sequence"],
        due=row["due"],
        retrying=row["retrying"],
        stuck=row["stuck"],
        size=row["size"],
    )


def _secrets(row: asyncpg.Record) -> tuple[dict[str, str], dict[str, str] | None, str | None]:
    """Decrypt a job's headers and auth, or say why that failed. Few jobs have any."""
    headers, auth = row["headers"], row["auth"]
    if headers is None and auth is None:
        return {}, None, None
    tenant, job_id = row["tenant_id"], row["job_id"]
    try:
        return (
            decrypt_map(headers, job_at(tenant, job_id, "headers")),
            decrypt_map(auth, job_at(tenant, job_id, "auth")) if auth else None,
            None,
        )
    except ENCRYPTION_ERRORS as error:  # the other jobs of the batch can be sent
        return {}, None, str(error)


def _claimed(row: asyncpg.Record) -> ClaimedJob:
    headers, auth, unreadable = _secrets(row)
    return ClaimedJob(
        tenant=row["tenant_id"],
        job_id=row["job_id"],
        send_no=row["sends"],
        attempt_count=row["attempt_count"],
        max_retries=row["max_retries"],
        timeout_seconds=row["timeout_seconds"],
        kind=_KINDS[row["kind"]],
        code=row["code"],
        source=row["source"],
        subject=row["subject"],
        event_id=row["event_id"],
        event_tenant=row["event_tenant"],
        correlation_id=row["correlation_id"],
        client_id=row["client_id"],
        idempotency_key=row["idempotency_key"],
        target_url=row["target_url"],
        data_only=row["data_only"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        payload=row["payload"],
        content_type=row["content_type"],
        headers=headers,
        auth=auth,
        unreadable=unreadable,
        signature=_SIGNATURES[row["signature"]] if row["signature"] else None,
        subscription_id=row["subscription_id"],
        subscription_version=row["subscription_version"],
        event=_event(row) if row["event_type"] is not None else None,
    )


def _event(row: asyncpg.Record) -> ClaimedEvent:
    return ClaimedEvent(
        type=row["event_type"],
        source=row["event_source"],
        time=row["event_time"],
        spec_version=row["spec_version"],
        type_version=row["type_version"],
        subject=row["event_subject"],
        data_schema=row["data_schema"],
        message_group=row["event_group"],
        causation_id=row["causation_id"],
        extensions=_object.decode(row["extensions"]) if row["extensions"] else {},
    )


def _columns(keys: Sequence[JobKey] | Sequence[GroupKey]) -> tuple[list[int], list[str]]:
    """Split keys into tenants and names, as `unnest` takes them."""
    return [key[0] for key in keys], [key[1] for key in keys]


def _is_deferred_often(result: JobResult) -> bool:
    """Return whether to delete the oldest deferrals: once every so many sends is enough."""
    is_deferred = result.sent is not None and result.sent.status is AttemptStatus.DEFERRED
    return is_deferred and result.send_no % MAX_KEPT_DEFERRALS == 0


def _result_row(result: JobResult) -> tuple[Any, ...]:
    step, sent = result.step, result.sent
    job = (
        result.key.tenant,
        result.key.job_id,
        result.send_no,
        step.status,
        step.standing,
        step.attempt_count,
        step.wait,
        _storable(step.error),
    )
    if sent is None:
        return (*job, None, None, None, None, None, None, None, None)
    return (
        *job,
        step.attempt_number,
        sent.began_at,
        round(sent.seconds * 1000),
        sent.status,
        sent.code,
        _storable(sent.body),
        sent.error_type,
        _storable(sent.error),
    )


def _storable(text: str | None) -> str | None:
    """Replace NUL characters, which Postgres rejects: one would block a whole batch."""
    if text is None:
        return None
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()
