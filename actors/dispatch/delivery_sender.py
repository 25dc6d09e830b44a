"""Brings one job to its target, with what its subscription has agreed on."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from actors.dispatch.skipped import retargeted, undecryptable
from core.dispatch.attempt import AttemptStatus, DeliveryAttempt, ErrorType
from core.dispatch.claim import ClaimedJob, DeliveryProfile
from services.shared.cache import Cache
from storage.encryption.cipher import ENCRYPTION_ERRORS

ProfileKey: TypeAlias = tuple[int, str, int]
"""Whose secrets and headers, and which version of them; without a subscription, the tenant's."""

ReadProfiles: TypeAlias = Callable[
    [Sequence[ProfileKey]], Awaitable[Mapping[ProfileKey, DeliveryProfile | None]]
]

# A secret on its way out ends at some time, which no version tells of.
PROFILE_TTL = 30.0
GONE_TTL = 1.0


class DeliverySender:
    """Remembers profiles by their version: the row of each job tells which one is in force."""

    def __init__(
        self,
        read: ReadProfiles,
        send: Callable[[ClaimedJob, DeliveryProfile], Awaitable[DeliveryAttempt]],
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._send = send
        self._now = now
        self._read = read
        self._profiles: Cache[ProfileKey, DeliveryProfile | None] = Cache(
            self._read_one,
            ttl=lambda found: PROFILE_TTL if found else GONE_TTL,
            monotonic=monotonic,
        )

    def forget(self, tenant: int | None = None) -> None:
        """Read a tenant's profiles again, or all: the secrets of its own jobs have no version."""
        self._profiles.forget_where(lambda key: tenant in (None, key[0]))

    async def prepare(self, jobs: Iterable[ClaimedJob]) -> None:
        """Have the profiles of these jobs read before they are started.

        What has to be read first would start later than its pace wants it, with the next one.
        """
        await self._profiles.fill({_key(job) for job in jobs}, self._read)

    async def send(self, job: ClaimedJob) -> DeliveryAttempt:
        """Make the delivery."""
        if job.event_id is not None and job.event is None:
            return self._impossible("its event is past retention and gone")
        if job.unreadable is not None:
            return undecryptable(job.unreadable, self._now())
        try:
            profile = await self._profiles.get(_key(job))
        except ENCRYPTION_ERRORS as error:
            return undecryptable(str(error), self._now())
        if profile is None:
            return self._impossible("its subscription is gone")
        if profile.target not in (None, job.target_url):
            return retargeted(self._now())
        return await self._send(job, profile)

    async def _read_one(self, key: ProfileKey) -> DeliveryProfile | None:
        return (await self._read([key]))[key]

    def _impossible(self, why: str) -> DeliveryAttempt:
        return DeliveryAttempt(
            status=AttemptStatus.CLIENT_ERROR,
            error_type=ErrorType.PERMANENT,
            error=why,
            began_at=self._now(),
        )


def _key(job: ClaimedJob) -> ProfileKey:
    return (job.tenant, job.subscription_id or "", job.subscription_version or 0)
