"""A delivery made: one signed POST, and what its answer means."""

from collections.abc import Callable
from typing import Protocol

from core.dispatch.attempt import Sent, read_answer, read_failure
from core.dispatch.claim import Claimed, Profile
from core.dispatch.envelope import body_of, headers_of
from handlers.http.client import Answer, Failure, Request

LONGEST_CONNECT = 10.0
KEEP = 32_768
"""Bytes of an answer that are looked at: more than are stored, and any acknowledgement."""


class Caller(Protocol):
    """Whoever makes calls: `QuickCalls`, or `Outbound`."""

    async def call(self, request: Request) -> Answer | Failure:
        """Make one; never raises."""


class Webhooks:
    """Sends deliveries over shared connections. `now` is the database's time."""

    def __init__(self, caller: Caller, now: Callable[[], float]) -> None:
        self._caller = caller
        self._now = now

    async def send(self, job: Claimed, profile: Profile) -> Sent:
        """Make the delivery once; never raises. It takes a second more than it may at most."""
        began_at = self._now()
        body, content_type = body_of(job)
        answer = await self._caller.call(
            Request(
                url=job.target_url,
                method="POST",
                headers=headers_of(job, profile, body, content_type, began_at),
                body=body or None,
                connect_timeout=min(LONGEST_CONNECT, job.timeout_seconds),
                read_timeout=job.timeout_seconds,
                total=True,
                keep=KEEP,
                tenant=job.tenant,
            )
        )
        if isinstance(answer, Failure):
            return read_failure(
                answer.state,
                answer.detail,
                permanent=answer.hopeless,
                began_at=began_at,
                seconds=answer.seconds,
            )
        return read_answer(
            answer.status,
            answer.headers,
            answer.body,
            self._now(),
            began_at=began_at,
            seconds=answer.seconds,
        )
