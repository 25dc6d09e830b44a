"""Brings one job to its target, with what its subscription has agreed on."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from actors.cache import Cache
from core.dispatch.claimed import Claimed, Profile
from core.dispatch.outcome import ErrorType, Result, Sent

ProfileKey: TypeAlias = tuple[int, str, int]
"""Whose secrets and headers, and which version of them; without a subscription, the tenant's."""

# A secret on its way out ends at some time, which no version tells of.
PROFILE_TTL = 30.0
GONE_TTL = 1.0


class Courier:
    """Remembers profiles by their version: the row of each job tells which one is in force."""

    def __init__(
        self,
        read: Callable[[ProfileKey], Awaitable[Profile | None]],
        send: Callable[[Claimed, Profile], Awaitable[Sent]],
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._send = send
        self._now = now
        self._profiles: Cache[ProfileKey, Profile | None] = Cache(
            read,
            ttl=lambda found: PROFILE_TTL if found else GONE_TTL,
            monotonic=monotonic,
        )

    def forget(self) -> None:
        """Read every profile again: the secrets of a tenant's own jobs have no version."""
        self._profiles.clear()

    async def prepare(self, jobs: Iterable[Claimed]) -> None:
        """Have the profiles of these jobs read before they are started.

        What has to be read first would start later than its pace wants it, with the next one.
        """
        for key in {_key(job) for job in jobs}:
            await self._profiles.get(key)

    async def send(self, job: Claimed) -> Sent:
        """Make the delivery."""
        if job.event_id is not None and job.event is None:
            return self._impossible("its event is past retention and gone")
        profile = await self._profiles.get(_key(job))
        if profile is None:
            return self._impossible("its subscription is gone")
        return await self._send(job, profile)

    def _impossible(self, why: str) -> Sent:
        return Sent(
            status=Result.CLIENT_ERROR,
            error_type=ErrorType.PERMANENT,
            error=why,
            began_at=self._now(),
        )


def _key(job: Claimed) -> ProfileKey:
    return (job.tenant, job.subscription_id or "", job.subscription_version or 0)
