"""A job in the hands of whoever sends it, and what sending it to its subscription takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from core.dispatch.headers import custom_headers
from core.dispatch.job import Kind
from core.dispatch.subscription import Signature


class ClaimedEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a receiver is told of the event, beside its data."""

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
    """One delivery that is to be made now."""

    tenant: int
    job_id: str
    send_no: int
    """How often it was taken, this time included: the fence."""
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
    """0 if it never does."""
    source: str | None = None
    subject: str | None = None
    event_id: str | None = None
    event_tenant: str | None = None
    """Whose event it is, where that is not said by whose job it is: of the anchor's."""
    correlation_id: str | None = None
    client_id: str | None = None
    """The client that it is about, if its event or its creator names one."""
    idempotency_key: str | None = None
    """As its creator gave it; an EVENT's is made of what it brings to whom."""
    payload: bytes | None = None
    content_type: str | None = None
    headers: dict[str, str] = {}
    auth: dict[str, str] | None = None
    unreadable: str | None = None
    """Why headers and auth are not here, though there are some: it must not be sent without."""
    signature: Signature | None = None
    """As its creator wants it; None: as its profile has it."""
    subscription_id: str | None = None
    subscription_version: int | None = None
    event: ClaimedEvent | None = None

    def __repr__(self) -> str:
        """Without headers, auth and payload: they may be secret."""
        return f"Claimed({self.tenant}, {self.job_id!r}, send_no={self.send_no})"


@dataclass(frozen=True, kw_only=True)
class DeliveryProfile:
    """What the deliveries of a subscription share; of a tenant's own jobs, its secrets."""

    version: int = 0
    target: str | None = None
    """The one address that all this is for; None if each job has its own."""
    secrets: tuple[bytes, ...] = field(default=(), repr=False)
    """Those that are live, the newest first."""
    signature: Signature = Signature.STANDARD
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: Mapping[str, str] | None = field(default=None, repr=False)

    @cached_property
    def extra_headers(self) -> dict[str, str]:
        """The headers that follow from it: the same for all deliveries, hence made once."""
        return custom_headers(self.headers, self.auth)
