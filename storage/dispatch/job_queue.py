"""Jobs as a pool works them off: found, taken by a conditional update, and what became of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
import msgspec

from core.dispatch.attempt import EXPIRED_MESSAGE, DeliveryAttempt, JobTransition
from core.dispatch.attempt import AttemptStatus as Came
from core.dispatch.claim import ClaimedEvent, ClaimedJob
from core.dispatch.job import GroupKey, JobKey, JobRef, Kind, Mode
from core.dispatch.subscription import Signature
from storage.encryption.cipher import ENCRYPTION_ERRORS
from storage.encryption.secret_values import decrypt_map, job_at
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

MAX_KEPT_DEFERRALS = 100
"""Of a job that is put off again and again, so many of the latest are noted, or twice as many."""

_MODES = {mode.value: mode for mode in Mode}
_KINDS = {kind.value: kind for kind in Kind}
_SIGNATURES = {signature.value: signature for signature in Signature}
_object = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class JobResult:
    """What became of a job that was taken. `sent` is None if it was not sent after all."""

    key: JobKey
    send_no: int
    step: JobTransition
    sent: DeliveryAttempt | None


async def claim(
    pool: Pool | Connection, pool_no: int, keys: Sequence[JobKey], owner: str, grace: float
) -> list[ClaimedJob]:
    """Take these jobs; those that were won. Each is the caller's for its time-out and `grace`."""
    tenants = [key.tenant for key in keys]
    ids = [key.job_id for key in keys]
    rows = await pool.fetch(Q["claim_jobs"], tenants, ids, pool_no, owner, grace)
    return [_claimed(row) for row in rows]


async def finish(pool: Pool | Connection, results: Iterable[JobResult]) -> dict[JobKey, float]:
    """Write what became of jobs; when each goes again (0: never), without those that were lost."""
    told = list(results)
    rows = await pool.fetch(Q["finish_jobs"], [_said(result) for result in told])
    if often := [one for one in told if _is_put_off_often(one)]:
        await pool.execute(
            Q["forget_deferrals"],
            [one.key.tenant for one in often],
            [one.key.job_id for one in often],
            [one.send_no - MAX_KEPT_DEFERRALS for one in often],
        )
    return {JobKey(tenant, job_id): due for tenant, job_id, due in rows}


async def scan(pool: Pool, pool_no: int, after: int, limit: int) -> list[JobRef]:
    """The jobs of a pool in the order they were stored."""
    return [job_ref_of(row) for row in await pool.fetch(Q["scan_jobs"], pool_no, after, limit)]


async def unclaimed(pool: Pool, pool_no: int, after: int, limit: int) -> list[JobRef]:
    """The jobs that no pool has."""
    return [job_ref_of(row) for row in await pool.fetch(Q["jobs_again"], pool_no, after, limit)]


async def find(pool: Pool, pool_no: int, keys: Sequence[JobKey]) -> list[JobRef]:
    """Those of these jobs that are still to be done."""
    tenants = [key.tenant for key in keys]
    ids = [key.job_id for key in keys]
    return [job_ref_of(row) for row in await pool.fetch(Q["find_jobs"], pool_no, tenants, ids)]


async def read_groups(
    pool: Pool, pool_no: int, groups: Sequence[GroupKey], limit: int
) -> dict[GroupKey, list[JobRef]]:
    """The first jobs of these groups, in their order."""
    tenants = [group.tenant for group in groups]
    names = [group.name for group in groups]
    found: dict[GroupKey, list[JobRef]] = {group: [] for group in groups}
    for row in await pool.fetch(Q["read_groups"], pool_no, tenants, names, limit):
        found[GroupKey(row["tenant_id"], row["message_group"])].append(job_ref_of(row))
    return found


async def expire(pool: Pool, pool_no: int, limit: int) -> list[JobKey]:
    """End jobs whose time is over and that nobody is sending; which."""
    rows = await pool.fetch(Q["expire_jobs"], pool_no, limit, EXPIRED_MESSAGE)
    return [JobKey(*row) for row in rows]


async def mark_pending(pool: Pool, keys: Sequence[JobKey]) -> None:
    """No pool took these over: whoever looks for such jobs finds them."""
    tenants = [key.tenant for key in keys]
    await pool.execute(Q["mark_pending"], tenants, [key.job_id for key in keys])


async def not_failed(pool: Pool, keys: Sequence[JobKey]) -> list[JobKey]:
    """Those of these jobs that have not failed, or failed and were seen to by a person."""
    tenants = [key.tenant for key in keys]
    ids = [key.job_id for key in keys]
    return [JobKey(*row) for row in await pool.fetch(Q["jobs_not_failed"], tenants, ids)]


async def parked_groups(pool: Pool, pool_no: int) -> set[GroupKey]:
    """The groups of a pool that people hold back."""
    return {GroupKey(*row) for row in await pool.fetch(Q["parked_groups"], pool_no)}


async def recent_starts(pool: Pool, pool_no: int) -> list[float]:
    """How many seconds ago a pool began each delivery of the last minute, the oldest first."""
    return [row["ago"] for row in await pool.fetch(Q["recent_starts"], pool_no)]


def job_ref_of(row: asyncpg.Record) -> JobRef:
    """The job that a row points to."""
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
    """Headers and auth of a job, or why they cannot be read. Few jobs have any of their own."""
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
    except ENCRYPTION_ERRORS as error:  # the others of its batch can be sent
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


def _is_put_off_often(result: JobResult) -> bool:
    """Whether it is time to forget what was noted first: now and then is often enough."""
    is_put_off = result.sent is not None and result.sent.status is Came.DEFERRED
    return is_put_off and result.send_no % MAX_KEPT_DEFERRALS == 0


def _said(result: JobResult) -> tuple[Any, ...]:
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
    """Without what Postgres takes in no text: one such letter would keep all results of a batch."""
    if text is None:
        return None
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()
