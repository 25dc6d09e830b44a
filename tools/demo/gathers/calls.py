"""What the demo's resources do with a call, and what they record of calls and callbacks."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Behaviour(StrEnum):
    """The ways a resource may take a call."""

    ANSWER = "answer"  # accepts, and calls back after the delay
    REJECT = "reject"  # 401
    ERROR = "error"  # 500
    HANG = "hang"  # never answers
    CLOSE = "close"  # closes the connection without an answer
    SILENT = "silent"  # accepts, and never calls back
    TWICE = "twice"  # accepts, and calls back twice


# Negative delays stand for behaviours; those that are not listed are errors.
BY_DELAY = {
    -1: Behaviour.REJECT,
    -10: Behaviour.HANG,
    -11: Behaviour.CLOSE,
    -12: Behaviour.SILENT,
    -13: Behaviour.TWICE,
}


def behaviour_of(delay: int) -> Behaviour:
    """Decode the behaviour that a delay stands for."""
    return Behaviour.ANSWER if delay >= 0 else BY_DELAY.get(delay, Behaviour.ERROR)


def direct_behaviour_of(delay: int) -> Behaviour:
    """Decode the delay of a direct call, which rejects where others fail."""
    behaviour = behaviour_of(delay)
    return Behaviour.REJECT if behaviour is Behaviour.ERROR else behaviour


@dataclass(slots=True, kw_only=True)
class ResourceCall:
    """A call to a resource; `abandoned` if its caller did not wait for the answer."""

    resource: str
    direct: bool
    body: dict[str, Any]
    headers: Mapping[str, str] = field(repr=False)
    at: float = field(default_factory=time.monotonic)
    abandoned: bool = False

    @property
    def source(self) -> str:
        """The name that the resource answers under: the one in the call, or its own."""
        return str(self.body.get("resource") or self.resource)

    @property
    def patient_id(self) -> str | None:
        found = self._requested("patientId")
        return None if found is None else str(found)

    @property
    def delay(self) -> int | None:
        """The requested delay in milliseconds."""
        found = self._requested("delay")
        if found is None:
            return None
        if type(found) is not int:
            raise ValueError("delay is a whole number of milliseconds")
        return found

    def _requested(self, name: str) -> Any:
        context = self.body.get("context")
        general = context.get(name) if isinstance(context, dict) else None
        return self.body.get(name, general)


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """A callback that a resource sent; without `status` it got no answer."""

    resource: str
    correlation_id: str | None
    body: dict[str, Any]
    sent_at: float
    status: int | None = None
    reply: dict[str, Any] = field(default_factory=dict)
    at: float = field(default_factory=time.monotonic)

    @property
    def verdict(self) -> str:
        return str(self.reply.get("verdict", "error"))
