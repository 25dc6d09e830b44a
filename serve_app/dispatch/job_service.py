"""Jobs that people post and put right: stored first, then told to their pools."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from core.dispatch.job import JobKey, Pointer
from core.dispatch.job_actions import Fate, Verb
from core.shared.call_policy import Destinations
from core.shared.errors import InvalidError
from core.shared.quotas import StoredKind
from handlers.http.target_check import check_target
from serve_app.container import Replica
from serve_app.dispatch.job_models import COUNT_TO, JobRequest
from serve_app.dispatch.job_payloads import check_payload_of
from storage.dispatch import job_actions
from storage.dispatch import jobs as dispatch_jobs
from storage.dispatch import pools as dispatch_pools
from storage.dispatch.job_actions import Told
from storage.dispatch.jobs import Created, Job, JobFilter, NewJob
from storage.dispatch.pools import PoolFilter

# There are never as many: each is a process.
EVERY_POOL = 10_000

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


@dataclass(frozen=True, slots=True)
class Wish:
    """A job to post, with its payload to the byte, and how its place in the request is called."""

    job: JobRequest
    payload: bytes
    where: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    """What became of a batch of jobs, and where to go on."""

    told: list[Told]
    remaining: int = 0
    cursor: str | None = None


def payload_in(raw: bytes) -> bytes:
    """The payload of a request that was read already, as it came."""
    return _bytes_of(_FIELDS.decode(raw)["payload"])


def payloads_in(raw: bytes) -> list[bytes]:
    """The same for a list of requests."""
    return [_bytes_of(fields["payload"]) for fields in _ITEMS.decode(raw)]


async def post(
    replica: Replica, tenant: int, wishes: Sequence[Wish]
) -> tuple[list[Created], list[Job]]:
    """Store jobs and tell their pools; what became of each, and the jobs as they are kept."""
    config = replica.config
    replica.quotas.check(tenant)
    destinations = Destinations(config.call_networks, config.call_ports)
    for wish in wishes:
        check_target(wish.job.target_url, destinations, f"{wish.where}targetUrl")
    await check_payload_of(
        replica,
        tenant,
        [
            (wish.job.schema_id, wish.payload, wish.job.payload_content_type, wish.where)
            for wish in wishes
            if wish.job.schema_id is not None
        ],
    )
    pools = await _pools_of(replica, tenant, wishes)
    now = replica.gateway.clock.now()
    news = [
        wish.job.to_new(replica.new_id(), pools[wish.job.dispatch_pool_id], wish.payload, now)
        for wish in wishes
    ]
    # Tried again after a lost connection, those without a key would be there twice.
    made = await replica.database.ask_once(dispatch_jobs.create, tenant, news)
    fresh = [len(new.payload) for new, one in zip(news, made, strict=True) if not one.known]
    replica.usage.add(tenant, StoredKind.JOBS, len(fresh), sum(fresh))
    await _hand_over(replica, tenant, news, made)
    ids = list({one.job_id for one in made})
    found = await replica.database.ask(dispatch_jobs.read_many, tenant, ids)
    jobs = {job.job_id: job for job in found}
    return made, [jobs[one.job_id] for one in made if one.job_id in jobs]


async def change(replica: Replica, tenant: int, verb: Verb, job_ids: Sequence[str]) -> list[Told]:
    """Do something with these jobs, and let their pools look."""
    unique = list(dict.fromkeys(job_ids))
    told = await replica.database.ask_once(job_actions.apply, tenant, verb, unique)
    done = [one for one in told if one.fate is Fate.DONE]
    pointers: dict[int, list[Pointer]] = {}
    ended: dict[int, list[JobKey]] = {}
    for one in done:
        if one.pointer is not None:
            pointers.setdefault(one.pool_no, []).append(one.pointer)
        else:
            ended.setdefault(one.pool_no, []).append(JobKey(tenant, one.job_id))
    await replica.gateway.hand_over(pointers)
    replica.bell.ring({*pointers, *ended}, ended)
    return told


async def change_next(
    replica: Replica, tenant: int, verb: Verb, chosen: JobFilter, after: str | None, limit: int
) -> Round:
    """The same with the next jobs that are meant, oldest first; each is tried once.

    None may be among those that one look reads: then there is a cursor all the same.
    """
    found = await replica.database.ask(dispatch_jobs.upcoming, tenant, chosen, after, limit)
    told = await change(replica, tenant, verb, found.items) if found.items else []
    cursor = found.items[-1] if len(found.items) == limit else found.looked_to
    if cursor is None:
        return Round(told)
    left = await replica.listings.ask(dispatch_jobs.count, tenant, chosen, cursor, COUNT_TO)
    return Round(told, left, cursor if left or found.looked_to is not None else None)


async def pools_named(replica: Replica, tenant: int, names: list[str]) -> tuple[int, ...] | None:
    """The pools that a filter means: of one's own and of the anchor's those of this code or id."""
    if not names:
        return None
    return tuple(
        row.pool_no
        for row in await replica.listings.ask(
            dispatch_pools.page, tenant, PoolFilter(), 0, EVERY_POOL
        )
        if {row.code, row.pool_id}.issuperset(names)
    )


async def _pools_of(replica: Replica, tenant: int, wishes: Sequence[Wish]) -> dict[str, int]:
    pools: dict[str, int] = {}
    for wish in wishes:
        name = wish.job.dispatch_pool_id
        if name not in pools:
            row = await replica.database.ask(dispatch_pools.find, tenant, name)
            if row is None:
                raise InvalidError(
                    f"{wish.where}dispatchPoolId", "the id or the code of a pool in use"
                )
            pools[name] = row.pool_no
    return pools


async def _hand_over(
    replica: Replica, tenant: int, news: Sequence[NewJob], made: Sequence[Created]
) -> None:
    pointers: dict[int, list[Pointer]] = {}
    for new, one in zip(news, made, strict=True):
        if not one.known:
            replica.metrics.events.tasks += 1
            pointers.setdefault(one.pool_no, []).append(new.to_pointer(tenant, one.position))
    await replica.gateway.hand_over(pointers)


def _bytes_of(raw: msgspec.Raw) -> bytes:
    """A text is what it says; anything else is JSON."""
    text = bytes(raw)
    return msgspec.json.decode(text, type=str).encode() if text[:1] == b'"' else text
