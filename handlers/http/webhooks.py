"""Sends one delivery as a signed POST and interprets the response."""

from collections.abc import Callable

from core.dispatch.attempt import DeliveryAttempt, read_answer, read_failure
from core.dispatch.claim import ClaimedJob, DeliveryProfile
from core.dispatch.envelope import body_of, headers_of
from handlers.http.client import HttpClient, HttpFailure, HttpRequest

MAX_CONNECT_SECONDS = 10.0
MAX_ANSWER_BYTES = 32_768
"""Bytes of an answer that are read: more than are stored, and enough for an acknowledgement."""


class Webhooks:
    """Sends deliveries over shared connections. `now` is the database's time."""

    def __init__(self, client: HttpClient, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now

    async def send(self, job: ClaimedJob, profile: DeliveryProfile) -> DeliveryAttempt:
        """Make one attempt; never raises. It ends at most a second after its timeout."""
        began_at = self._now()
        body, content_type = body_of(job)
        answer = await self._client.call(
            HttpRequest(
                url=job.target_url,
                method="POST",
                headers=headers_of(job, profile, body, content_type, began_at),
                body=body or None,
                connect_timeout=min(MAX_CONNECT_SECONDS, job.timeout_seconds),
                read_timeout=job.timeout_seconds,
                total=True,
                keep=MAX_ANSWER_BYTES,
                tenant=job.tenant,
                repeatable=True,  # under one idempotency key
            )
        )
        if isinstance(answer, HttpFailure):
            return read_failure(
                answer.state,
                answer.detail,
                permanent=answer.permanent,
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
