"""A delivery: its states, and what a pool needs to know to put it in its place."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

ANCHOR = 0
"""The tenant of what belongs to no tenant."""


class Kind(StrEnum):
    """What a job brings: an event to a subscription, or a task that somebody posted."""

    EVENT = "EVENT"
    TASK = "TASK"


class Mode(StrEnum):
    """What becomes of a group when one of its jobs fails."""

    IMMEDIATE = "IMMEDIATE"
    NEXT_ON_ERROR = "NEXT_ON_ERROR"
    BLOCK_ON_ERROR = "BLOCK_ON_ERROR"


class JobStatus(StrEnum):
    """How a job stands, in the words its users know."""

    PENDING = "PENDING"
    QUEUED = "QUEUED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


class QueueState(StrEnum):
    """The same in four words, for indexes."""

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
    """Which job."""

    tenant: int
    job_id: str


class GroupKey(NamedTuple):
    """Which group: its name is the tenant's own affair."""

    tenant: int
    name: str


class JobRef(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True):
    """A job as its pool keeps it in memory: where it belongs, and when it may go."""

    tenant: int
    job_id: str
    position: int
    target: str
    mode: Mode = Mode.IMMEDIATE
    group: str | None = None
    sequence: int = 99
    due: float = 0.0
    """Not before; 0 if at once. Of a job that somebody has taken: when their time is over."""
    retrying: bool = False
    """It was sent before and waits to be sent again."""
    stuck: bool = False
    """It failed for good, and holds its group."""
    size: int = 0
    """Bytes of what it brings."""

    @property
    def key(self) -> JobKey:
        """Which job it is."""
        return JobKey(self.tenant, self.job_id)

    @property
    def group_key(self) -> GroupKey | None:
        """The group whose order it keeps, if it keeps any."""
        if self.group is None or self.mode is Mode.IMMEDIATE:
            return None
        return GroupKey(self.tenant, self.group)

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands in its group."""
        return self.sequence, self.position


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[JobRef])


def encode_job_refs(job_refs: Iterable[JobRef]) -> bytes:
    """Pointers as they travel between processes."""
    return _encoder.encode(list(job_refs))


def decode_job_refs(raw: bytes) -> list[JobRef]:
    """And back."""
    return _decoder.decode(raw)


def group_name(subscription_code: str, event_group: str | None, tenant: int | None = None) -> str:
    """The group of a subscription's job; one that takes all tenants' events has some of each."""
    whose = subscription_code if tenant is None else f"{subscription_code}@{tenant}"
    return whose if event_group is None else f"{whose}:{event_group}"
