"""The options of an ingress replica, in addition to the shared configuration."""

from dataclasses import dataclass

from core.events.event_type import Admission


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressOptions:
    """Limits and rules of one replica. Times are in seconds, sizes in bytes."""

    request_limit: int = 4_000
    stream_limit: int = 10_000
    body_budget: int = 128 * 1024 * 1024
    answer_budget: int = 128 * 1024 * 1024
    heartbeat: float = 15.0
    event_types: Admission = Admission.OPEN
    sample_receiver: bool = False
    pool_limit: int = 20
