"""Dispatch jobs: their states, and the references by which pools schedule them."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

ANCHOR = 0
"""The number of the anchor tenant, which owns what belongs to no other tenant."""


class Kind(StrEnum):
    """What a job delivers: an event to a subscription, or a posted task."""

    EVENT = "EVENT"
    TASK = "TASK"


class Mode(StrEnum):
    """What happens to a group when one of its jobs fails."""

    IMMEDIATE = "IMMEDIATE"
    NEXT_ON_ERROR = "NEXT_ON_ERROR"
    BLOCK_ON_ERROR = "BLOCK_ON_ERROR"


class JobStatus(StrEnum):
    """The status of a job."""

    PENDING = "PENDING"
    QUEUED = "QUEUED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


class QueueState(StrEnum):
    """The status of a job, reduced to four states for the indexes in Postgres."""

    OPEN = "open"
    UNCLAIMED = "again"
    ERROR = "error"
    DONE = "done"


QUEUE_STATE_OF = {
    JobStatus.PENDING: QueueState.UNCLAIMED,
    JobStatus.QUEUED: QueueState.OPEN,
    JobStatus.IN_PROGRESS: QueueState.OPEN,
    JobStatus.COMPLETED: QueueState.DONE,
    JobStatus.ERROR: QueueState.ERROR,
    JobStatus.CANCELLED: QueueState.DONE,
    JobStatus.EXPIRED: QueueState.DONE,
}


class JobKey(NamedTuple):
    """Identifies a job."""

    tenant: int
    job_id: str


class GroupKey(NamedTuple):
    """Identifies a group; different tenants may use the same name."""

    tenant: int
    name: str


class JobRef(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True):
    """A job in the memory of its pool: what the scheduler needs to know."""

    tenant: int
    job_id: str
    position: int
    target: str
    mode: Mode = Mode.IMMEDIATE
    group: str | None = None
    sequence: int = 99
    due: float = 0.0
    """The earliest time to send the job, or 0; for a claimed job, the end of the claim."""
    retrying: bool = False
    """Whether the job was sent before and waits for a retry."""
    stuck: bool = False
    """Whether the job failed permanently and blocks its group."""
    size: int = 0
    """The size of the payload in bytes."""

    @property
    def key(self) -> JobKey:
        return JobKey(self.tenant, self.job_id)

    @property
    def group_key(self) -> GroupKey | None:
        """Return the group in whose order the job is sent, or None."""
        if self.group is None or self.mode is Mode.IMMEDIATE:
            return None
        return GroupKey(self.tenant, self.group)

    @property
    def place(self) -> tuple[int, int]:
        """Return the sort key of the job in its group."""
        return self.sequence, self.position


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[JobRef])


def encode_job_refs(job_refs: Iterable[JobRef]) -> bytes:
    return _encoder.encode(list(job_refs))


def decode_job_refs(raw: bytes) -> list[JobRef]:
    return _decoder.decode(raw)


def group_name(subscription_code: str, event_group: str | None, tenant: int | None = None) -> str:
    """Return the group of a subscription's job; `tenant` separates the tenants' events."""
    whose = subscription_code if tenant is None else f"{subscription_code}@{tenant}"
    return whose if event_group is None else f"{whose}:{event_group}"
