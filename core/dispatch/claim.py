"""Claimed jobs with everything that is needed to send them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from core.dispatch.headers import custom_headers
from core.dispatch.job import Kind
from core.dispatch.subscription import Signature


class ClaimedEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The attributes of the event that a delivery sends beside the data."""

    type: str
    source: str
    time: float
    spec_version: str = "1.0"
    subject: str | None = None
    data_schema: str | None = None
    type_version: str | None = None
    message_group: str | None = None
    causation_id: str | None = None
    extensions: dict[str, object] = {}


class ClaimedJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One job that a worker has claimed to send now."""

    tenant: int
    job_id: str
    send_no: int
    """How often the job was claimed, this time included; it serves as fencing token."""
    attempt_count: int
    """Attempts before this one."""
    max_retries: int
    timeout_seconds: int
    kind: Kind
    code: str
    target_url: str
    data_only: bool
    created_at: float
    expires_at: float = 0.0
    """0 if the job never expires."""
    source: str | None = None
    subject: str | None = None
    event_id: str | None = None
    event_tenant: str | None = None
    """The tenant of the event, if the job is the anchor's."""
    correlation_id: str | None = None
    client_id: str | None = None
    """The client that the event or the job's creator names."""
    idempotency_key: str | None = None
    """The key that the creator gave; jobs of kind EVENT have a derived key instead."""
    payload: bytes | None = None
    content_type: str | None = None
    headers: dict[str, str] = {}
    auth: dict[str, str] | None = None
    unreadable: str | None = None
    """Why headers and auth could not be decrypted: the job must not be sent without them."""
    signature: Signature | None = None
    """Overrides the signature of the profile."""
    subscription_id: str | None = None
    subscription_version: int | None = None
    event: ClaimedEvent | None = None

    def __repr__(self) -> str:
        """Leave out headers, auth and payload: they may be secret."""
        return f"Claimed({self.tenant}, {self.job_id!r}, send_no={self.send_no})"


@dataclass(frozen=True, kw_only=True)
class DeliveryProfile:
    """What all deliveries of a subscription share; for posted jobs, the tenant's secrets."""

    version: int = 0
    target: str | None = None
    """The URL of all deliveries; None if each job has another."""
    secrets: tuple[bytes, ...] = field(default=(), repr=False)
    """The active secrets, the newest first."""
    signature: Signature = Signature.STANDARD
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: Mapping[str, str] | None = field(default=None, repr=False)

    @cached_property
    def extra_headers(self) -> dict[str, str]:
        """Return the custom headers and the authorization, cached for all deliveries."""
        return custom_headers(self.headers, self.auth)
