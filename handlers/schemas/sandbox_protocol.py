"""What is said between an examiner and who asks it: tasks one way, answers the other."""

from typing import TypeAlias

import msgspec

from core.events.event_type import SchemaType
from handlers.schemas.interface import Compiled, Mismatch, Outcome

LENGTH = 4


class Compile(msgspec.Struct, tag=True, frozen=True):
    """Make a text usable, if it can be."""

    kind: SchemaType
    text: str


class Load(msgspec.Struct, tag=True, frozen=True):
    """Make a schema ready for the checks to come."""

    compiled: Compiled


class Examine(msgspec.Struct, tag=True, frozen=True):
    """Hold a payload against a schema that was loaded."""

    key: bytes
    payload: bytes
    content_type: str


class Errand(msgspec.Struct, frozen=True):
    """A task, and how much processor time it may take."""

    task: Compile | Load | Examine
    seconds: float


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a task."""

    outcome: Compiled | None = None
    unusable: str | None = None
    mismatches: list[Mismatch] = []
    unknown: bool = False
    """The schema is not loaded (any more)."""


Task: TypeAlias = Compile | Load | Examine

encode = msgspec.msgpack.Encoder().encode
decode_errand = msgspec.msgpack.Decoder(Errand).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode


def framed(raw: bytes) -> bytes:
    """A message with its length before it."""
    return len(raw).to_bytes(LENGTH, "big") + raw


def answer_of(outcome: Outcome) -> Answer:
    """The answer to `Compile`."""
    if isinstance(outcome, Compiled):
        return Answer(outcome=outcome)
    return Answer(unusable=outcome.reason)
