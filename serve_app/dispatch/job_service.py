"""Jobs that people post and put right: stored first, then told to their pools."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from core.dispatch.job import JobKey, JobRef
from core.dispatch.job_actions import Fate, JobAction
from core.shared.call_policy import CallPolicy
from core.shared.errors import InvalidError, UnavailableError
from core.shared.quotas import StoredKind
from handlers.http.target_check import check_target
from handlers.schemas.interface import CompiledSchema, InvalidSchema, within
from serve_app.container import Replica
from serve_app.dispatch.job_models import MAX_JOB_COUNT, JobRequest
from serve_app.http.field_errors import FieldError
from serve_app.http.problems import Problem, ProblemError
from storage.dispatch import job_actions
from storage.dispatch import jobs as dispatch_jobs
from storage.dispatch import pools as dispatch_pools
from storage.dispatch.job_actions import JobActionResult
from storage.dispatch.jobs import CreatedJob, Job, JobFilter, NewJob
from storage.dispatch.pools import PoolFilter
from storage.events import schemas

# There are never as many: each is a process.
MAX_POOLS = 10_000

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


@dataclass(frozen=True, slots=True)
class JobSubmission:
    """A job to post, with its payload to the byte, and how its place in the request is called."""

    job: JobRequest
    payload: bytes
    where: str = ""


@dataclass(frozen=True, slots=True)
class JobActionRound:
    """What became of a batch of jobs, and where to go on."""

    results: list[JobActionResult]
    remaining: int = 0
    cursor: str | None = None


def payload_in(raw: bytes) -> bytes:
    """Cut the payload out of a request, byte for byte as it came."""
    return _bytes_of(_FIELDS.decode(raw)["payload"])


def payloads_in(raw: bytes) -> list[bytes]:
    """Cut the payloads out of a list of requests."""
    return [_bytes_of(fields["payload"]) for fields in _ITEMS.decode(raw)]


async def submit(
    replica: Replica, tenant: int, submissions: Sequence[JobSubmission]
) -> tuple[list[CreatedJob], list[Job]]:
    """Store jobs and tell their pools; what became of each, and the jobs as they are kept."""
    config = replica.config
    replica.quotas.check(tenant)
    destinations = CallPolicy(config.call_networks, config.call_ports)
    for submission in submissions:
        check_target(submission.job.target_url, destinations, f"{submission.where}targetUrl")
    await check_payloads(
        replica,
        tenant,
        [
            (
                submission.job.schema_id,
                submission.payload,
                submission.job.payload_content_type,
                submission.where,
            )
            for submission in submissions
            if submission.job.schema_id is not None
        ],
    )
    pools = await _pools_of(replica, tenant, submissions)
    now = replica.client.clock.now()
    new_jobs = [
        submission.job.to_new(
            replica.new_id(), pools[submission.job.dispatch_pool_id], submission.payload, now
        )
        for submission in submissions
    ]
    # Tried again after a lost connection, those without a key would be there twice.
    made = await replica.database.query_once(dispatch_jobs.create, tenant, new_jobs)
    fresh = [len(new.payload) for new, one in zip(new_jobs, made, strict=True) if not one.known]
    replica.usage.add(tenant, StoredKind.JOBS, len(fresh), sum(fresh))
    await _hand_over(replica, tenant, new_jobs, made)
    ids = list({one.job_id for one in made})
    found = await replica.database.query(dispatch_jobs.read_many, tenant, ids)
    jobs = {job.job_id: job for job in found}
    return made, [jobs[one.job_id] for one in made if one.job_id in jobs]


async def apply_action(
    replica: Replica, tenant: int, verb: JobAction, job_ids: Sequence[str]
) -> list[JobActionResult]:
    """Do something with these jobs, and let their pools look."""
    unique = list(dict.fromkeys(job_ids))
    outcomes = await replica.database.query_once(job_actions.apply, tenant, verb, unique)
    done = [one for one in outcomes if one.fate is Fate.DONE]
    job_refs: dict[int, list[JobRef]] = {}
    ended: dict[int, list[JobKey]] = {}
    for one in done:
        if one.job_ref is not None:
            job_refs.setdefault(one.pool_no, []).append(one.job_ref)
        else:
            ended.setdefault(one.pool_no, []).append(JobKey(tenant, one.job_id))
    await replica.client.notify_pools(job_refs)
    replica.pool_notifier.notify({*job_refs, *ended}, ended)
    return outcomes


async def apply_action_to_next(
    replica: Replica, tenant: int, verb: JobAction, chosen: JobFilter, after: str | None, limit: int
) -> JobActionRound:
    """Apply an action to the next jobs that match, oldest first; try each once.

    None may be among those that one look reads: then there is a cursor all the same.
    """
    found = await replica.database.query(dispatch_jobs.upcoming, tenant, chosen, after, limit)
    outcomes = await apply_action(replica, tenant, verb, found.items) if found.items else []
    cursor = found.items[-1] if len(found.items) == limit else found.scanned_to
    if cursor is None:
        return JobActionRound(outcomes)
    left = await replica.listings.query(dispatch_jobs.count, tenant, chosen, cursor, MAX_JOB_COUNT)
    return JobActionRound(outcomes, left, cursor if left or found.scanned_to is not None else None)


async def find_pool_numbers(
    replica: Replica, tenant: int, names: list[str]
) -> tuple[int, ...] | None:
    """Return the pools of the tenant and of the anchor with this code or id."""
    if not names:
        return None
    return tuple(
        row.pool_no
        for row in await replica.listings.query(
            dispatch_pools.page, tenant, PoolFilter(), 0, MAX_POOLS
        )
        if {row.code, row.pool_id}.issuperset(names)
    )


async def _pools_of(
    replica: Replica, tenant: int, submissions: Sequence[JobSubmission]
) -> dict[str, int]:
    pools: dict[str, int] = {}
    for submission in submissions:
        name = submission.job.dispatch_pool_id
        if name not in pools:
            row = await replica.database.query(dispatch_pools.find, tenant, name)
            if row is None:
                raise InvalidError(
                    f"{submission.where}dispatchPoolId", "the id or the code of a pool in use"
                )
            pools[name] = row.pool_no
    return pools


async def _hand_over(
    replica: Replica, tenant: int, new_jobs: Sequence[NewJob], made: Sequence[CreatedJob]
) -> None:
    job_refs: dict[int, list[JobRef]] = {}
    for new, one in zip(new_jobs, made, strict=True):
        if not one.known:
            replica.metrics.events.tasks += 1
            job_refs.setdefault(one.pool_no, []).append(new.to_job_ref(tenant, one.position))
    await replica.client.notify_pools(job_refs)


def _bytes_of(raw: msgspec.Raw) -> bytes:
    """Encode a string as plain text and anything else as JSON."""
    text = bytes(raw)
    return msgspec.json.decode(text, type=str).encode() if text[:1] == b'"' else text


async def check_payloads(
    replica: Replica, tenant: int, payloads: Iterable[tuple[str, bytes, str, str]]
) -> None:
    """Let pass payloads that are what their schemas say: id, payload, media type, and where.

    Raises:
        InvalidError: There is no such schema, or it cannot be used.
        ProblemError: A payload does not fit.
        UnavailableError: It could not be told in time.
    """
    limit = asyncio.timeout(replica.config.request_timeout)
    try:
        async with limit:
            await _check(replica, tenant, payloads)
    except TimeoutError:
        if not limit.expired():
            raise
        detail = "the payloads were not held against their schemas in time; none was stored"
        raise UnavailableError(detail, 2) from None


async def _check(
    replica: Replica, tenant: int, payloads: Iterable[tuple[str, bytes, str, str]]
) -> None:
    known: dict[str, CompiledSchema] = {}
    for schema_id, payload, content_type, where in payloads:
        if schema_id not in known:
            known[schema_id] = await _compiled(replica, tenant, schema_id, f"{where}schemaId")
        checks = replica.event_validator.checks
        found = await checks.check(tenant, known[schema_id], payload, content_type)
        if found:
            root = f"{where}payload"
            faults = tuple(FieldError(within(root, one.path), one.expected) for one in found)
            detail = f"{root} is not what schema {schema_id} says: {faults[0]}"
            raise ProblemError(
                Problem(status=422, code="schema_mismatch", detail=detail, field_errors=faults)
            )


async def _compiled(replica: Replica, tenant: int, schema_id: str, field: str) -> CompiledSchema:
    found = await replica.database.query(schemas.read, tenant, schema_id)
    if found is None or found.content is None:
        raise InvalidError(field, "a schema that exists")
    outcome = await replica.event_validator.checks.compile(tenant, found.schema_type, found.content)
    if isinstance(outcome, InvalidSchema):
        raise InvalidError(field, outcome.reason)
    return outcome
