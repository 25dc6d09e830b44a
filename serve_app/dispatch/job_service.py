"""Use cases of jobs: what callers post is stored, then their pools are notified."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from core.dispatch.job import JobKey, JobRef
from core.dispatch.job_actions import REFUSALS, Fate, JobAction
from core.shared.call_policy import CallPolicy
from core.shared.errors import InvalidError, NotFoundError, UnavailableError
from core.shared.quotas import StoredKind
from handlers.http.target_check import check_target
from handlers.schemas.interface import CompiledSchema, InvalidSchema, within
from serve_app.dispatch.job_models import MAX_JOB_COUNT, JobRequest
from serve_app.http.field_errors import FieldError
from serve_app.http.problems import problem_error
from serve_app.http.router import Context
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
    """A job to store, its payload byte for byte, and the prefix of its fields in the request."""

    job: JobRequest
    payload: bytes
    where: str = ""


@dataclass(frozen=True, slots=True)
class JobActionRound:
    """The results of one call, and where the next one continues."""

    results: list[JobActionResult]
    remaining: int = 0
    next_cursor: str | None = None

    @property
    def refused(self) -> list[JobActionResult]:
        return [one for one in self.results if one.fate is not Fate.DONE]

    @property
    def changed(self) -> int:
        return len(self.results) - len(self.refused)


def payload_in(raw: bytes) -> bytes:
    """Cut the payload out of a request, byte for byte as it came."""
    return _bytes_of(_FIELDS.decode(raw)["payload"])


def payloads_in(raw: bytes) -> list[bytes]:
    """Cut the payloads out of a list of requests."""
    return [_bytes_of(fields["payload"]) for fields in _ITEMS.decode(raw)]


async def submit(
    context: Context, submissions: Sequence[JobSubmission]
) -> tuple[list[CreatedJob], list[Job]]:
    """Store jobs and notify their pools; return the results, and the jobs as they are stored."""
    replica, tenant = context.replica, context.tenant
    replica.quotas.check(tenant)
    policy = CallPolicy(replica.config.call_networks, replica.config.call_ports)
    for one in submissions:
        check_target(one.job.target_url, policy, f"{one.where}targetUrl")
    await _check_payloads(context, [one for one in submissions if one.job.schema_id is not None])
    pools = await _pools_of(context, submissions)
    now = replica.client.clock.now()
    new_jobs = [
        one.job.to_new(replica.new_id(), pools[one.job.dispatch_pool_id], one.payload, now)
        for one in submissions
    ]
    # Tried again after a lost connection, those without a key would be there twice.
    made = await context.write(dispatch_jobs.create, new_jobs)
    fresh = [len(new.payload) for new, one in zip(new_jobs, made, strict=True) if not one.known]
    replica.usage.add(tenant, StoredKind.JOBS, len(fresh), sum(fresh))
    await _notify_pools(context, new_jobs, made)
    found = await context.read(dispatch_jobs.read_many, list({one.job_id for one in made}))
    jobs = {job.job_id: job for job in found}
    return made, [jobs[one.job_id] for one in made if one.job_id in jobs]


async def apply_action(
    context: Context, action: JobAction, job_ids: Sequence[str]
) -> list[JobActionResult]:
    """Apply an action to these jobs, and notify their pools."""
    results = await context.write(job_actions.apply, action, list(dict.fromkeys(job_ids)))
    job_refs: dict[int, list[JobRef]] = {}
    ended: dict[int, list[JobKey]] = {}
    for one in results:
        if one.job_ref is not None:
            job_refs.setdefault(one.pool_no, []).append(one.job_ref)
        elif one.fate is Fate.DONE:
            ended.setdefault(one.pool_no, []).append(JobKey(context.tenant, one.job_id))
    await context.replica.client.notify_pools(job_refs)
    context.replica.pool_notifier.notify({*job_refs, *ended}, ended)
    return results


async def apply_action_to_one(context: Context, action: JobAction, job_id: str) -> None:
    """Apply an action to a job.

    Raises:
        NotFoundError: There is no such job.
        ProblemError: The state of the job does not permit it.
    """
    (result,) = await apply_action(context, action, [job_id])
    check_applied(result)


def check_applied(result: JobActionResult) -> None:
    """Raise if an action did not change its job."""
    if result.fate is Fate.UNKNOWN:
        raise NotFoundError(f"dispatch job {result.job_id}")
    if result.fate is not Fate.DONE:
        detail = f"{REFUSALS[result.fate]}: job {result.job_id} is {result.previous_status}"
        raise problem_error(409, result.fate.value, detail)


async def apply_action_to_next(
    context: Context, action: JobAction, wanted: JobFilter, after: str | None, limit: int
) -> JobActionRound:
    """Apply an action to the next jobs that match, oldest first; try each once.

    None may be among those that one scan reads: then there is a cursor all the same.
    """
    found = await context.read(dispatch_jobs.upcoming, wanted, after, limit)
    results = await apply_action(context, action, found.items) if found.items else []
    cursor = found.items[-1] if len(found.items) == limit else found.scanned_to
    if cursor is None:
        return JobActionRound(results)
    left = await context.list(dispatch_jobs.count, wanted, cursor, MAX_JOB_COUNT)
    return JobActionRound(results, left, cursor if left or found.scanned_to is not None else None)


async def find_pool_numbers(context: Context, names: list[str]) -> tuple[int, ...] | None:
    """Return the pools of the tenant and of the anchor with this code or id."""
    if not names:
        return None
    pools = await context.list(dispatch_pools.page, PoolFilter(), 0, MAX_POOLS)
    return tuple(row.pool_no for row in pools if {row.code, row.pool_id}.issuperset(names))


async def _pools_of(context: Context, submissions: Sequence[JobSubmission]) -> dict[str, int]:
    pools: dict[str, int] = {}
    for one in submissions:
        name = one.job.dispatch_pool_id
        if name not in pools:
            row = await context.read(dispatch_pools.find, name)
            if row is None:
                field = f"{one.where}dispatchPoolId"
                raise InvalidError(field, "the id or the code of a pool in use")
            pools[name] = row.pool_no
    return pools


async def _notify_pools(
    context: Context, new_jobs: Sequence[NewJob], made: Sequence[CreatedJob]
) -> None:
    job_refs: dict[int, list[JobRef]] = {}
    for new, one in zip(new_jobs, made, strict=True):
        if not one.known:
            context.replica.metrics.events.tasks += 1
            ref = new.to_job_ref(context.tenant, one.position)
            job_refs.setdefault(one.pool_no, []).append(ref)
    await context.replica.client.notify_pools(job_refs)


def _bytes_of(raw: msgspec.Raw) -> bytes:
    """Encode a string as plain text and anything else as JSON."""
    text = bytes(raw)
    return msgspec.json.decode(text, type=str).encode() if text[:1] == b'"' else text


async def _check_payloads(context: Context, submissions: Sequence[JobSubmission]) -> None:
    """Check payloads against their schemas.

    Raises:
        InvalidError: There is no such schema, or it cannot be used.
        ProblemError: A payload does not match.
        UnavailableError: The time limit has passed.
    """
    limit = asyncio.timeout(context.replica.config.request_timeout)
    known: dict[str, CompiledSchema] = {}
    try:
        async with limit:
            for one in submissions:
                schema_id = str(one.job.schema_id)
                if schema_id not in known:
                    known[schema_id] = await _compile(context, schema_id, f"{one.where}schemaId")
                await _check_payload(context, one, known[schema_id])
    except TimeoutError:
        if not limit.expired():
            raise
        detail = "the payloads could not be checked against their schemas in time; none was stored"
        raise UnavailableError(detail, 2) from None


async def _check_payload(context: Context, one: JobSubmission, schema: CompiledSchema) -> None:
    checks = context.replica.event_validator.checks
    content_type = one.job.payload_content_type
    found = await checks.check(context.tenant, schema, one.payload, content_type)
    if found:
        root = f"{one.where}payload"
        errors = tuple(FieldError(within(root, each.path), each.expected) for each in found)
        detail = f"{root} does not match schema {one.job.schema_id}: {errors[0]}"
        raise problem_error(422, "schema_mismatch", detail, field_errors=errors)


async def _compile(context: Context, schema_id: str, field: str) -> CompiledSchema:
    found = await context.read(schemas.read, schema_id)
    if found is None or found.content is None:
        raise InvalidError(field, "a schema that exists")
    checks = context.replica.event_validator.checks
    outcome = await checks.compile(context.tenant, found.schema_type, found.content)
    if isinstance(outcome, InvalidSchema):
        raise InvalidError(field, outcome.reason)
    return outcome
