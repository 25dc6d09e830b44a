"""Sends one job to its target with the profile of its subscription."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from actors.dispatch.skipped import deferred, impossible
from core.dispatch.attempt import DeliveryAttempt, ErrorType
from core.dispatch.claim import ClaimedJob, DeliveryProfile
from services.shared.cache import Cache
from storage.encryption.cipher import ENCRYPTION_ERRORS

ProfileKey: TypeAlias = tuple[int, str, int]
"""Tenant, subscription and version of a profile; without a subscription, the tenant's profile."""

ReadProfiles: TypeAlias = Callable[
    [Sequence[ProfileKey]], Awaitable[Mapping[ProfileKey, DeliveryProfile | None]]
]

# A secret that is being replaced expires without a new version, so profiles are read again.
PROFILE_TTL = 30.0
GONE_TTL = 1.0
# Seconds until a job is tried again whose secrets cannot be decrypted: an operator has to help.
KEY_TROUBLE = 60.0


class DeliverySender:
    """Caches profiles by version; the row of each job names the version in force."""

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
        """Drop cached profiles of one tenant or all: direct jobs have secrets without version."""
        self._profiles.forget_where(lambda key: tenant in (None, key[0]))

    async def prepare(self, jobs: Iterable[ClaimedJob]) -> None:
        """Read the profiles of these jobs before the jobs start.

        A job whose profile is not cached would start later than the pool's rate allows.
        """
        await self._profiles.fill({_key(job) for job in jobs}, self._read)

    async def send(self, job: ClaimedJob) -> DeliveryAttempt:
        if job.event_id is not None and job.event is None:
            return impossible("its event is past retention and gone", self._now())
        if job.unreadable is not None:
            return self._undecryptable(job.unreadable)
        try:
            profile = await self._profiles.get(_key(job))
        except ENCRYPTION_ERRORS as error:
            return self._undecryptable(str(error))
        if profile is None:
            return impossible("its subscription is gone", self._now())
        if profile.target not in (None, job.target_url):
            return deferred("its subscription has a new target", self._now(), delay=0.0)
        return await self._send(job, profile)

    async def _read_one(self, key: ProfileKey) -> DeliveryProfile | None:
        return (await self._read([key]))[key]

    def _undecryptable(self, error: str) -> DeliveryAttempt:
        return deferred(error, self._now(), KEY_TROUBLE, ErrorType.CONFIGURATION)


def _key(job: ClaimedJob) -> ProfileKey:
    return (job.tenant, job.subscription_id or "", job.subscription_version or 0)
