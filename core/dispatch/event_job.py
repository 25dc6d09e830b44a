"""Makes the job that delivers an event to a subscription."""

from typing import NamedTuple

from core.dispatch.job import ANCHOR, JobKey, JobRef, Mode, group_name
from core.dispatch.subscription import Subscription
from core.events.event import Event


class EventJob(NamedTuple):
    """One new job, with the fields in the order of the columns in Postgres."""

    tenant_id: int
    job_id: str
    pool_no: int
    code: str
    source: str
    subject: str | None
    event_tenant: int
    event_id: str
    subscription_id: str
    correlation_id: str | None
    target_url: str
    message_group: str
    mode: Mode
    sequence: int
    max_retries: int
    timeout_seconds: int
    data_only: bool
    delay_seconds: int
    max_age_seconds: int
    client_id: str | None

    @property
    def key(self) -> JobKey:
        return JobKey(self.tenant_id, self.job_id)

    def job_ref(self, position: int, due: float, size: int = 0) -> JobRef:
        """Return the job for its pool's scheduler; `size` is the size of the event in bytes."""
        return JobRef(
            tenant=self.tenant_id,
            job_id=self.job_id,
            position=position,
            target=self.target_url,
            mode=self.mode,
            group=self.message_group,
            sequence=self.sequence,
            due=due,
            size=size,
        )


def job_of(event: Event, subscription: Subscription, job_id: str) -> EventJob:
    return EventJob(
        subscription.tenant,
        job_id,
        subscription.pool_no,
        event.type,
        event.source,
        event.subject,
        event.tenant,
        event.event_id,
        subscription.subscription_id,
        event.correlation_id,
        subscription.target,
        group_name(
            subscription.code,
            event.message_group,
            event.tenant if subscription.tenant == ANCHOR else None,
        ),
        subscription.mode,
        subscription.sequence,
        subscription.max_retries,
        subscription.timeout_seconds,
        subscription.data_only,
        subscription.delay_seconds,
        subscription.max_age_seconds,
        event.client,
    )
