"""What is said between an examiner and who asks it: tasks one way, answers the other."""

from typing import TypeAlias

import msgspec

from core.events.event_type import SchemaType
from handlers.schemas.interface import CompiledSchema, CompileResult, Mismatch

LENGTH_BYTES = 4


class CompileTask(msgspec.Struct, tag=True, frozen=True):
    """Make a text usable, if it can be."""

    kind: SchemaType
    text: str


class LoadTask(msgspec.Struct, tag=True, frozen=True):
    """Make a schema ready for the checks to come."""

    compiled: CompiledSchema


class CheckTask(msgspec.Struct, tag=True, frozen=True):
    """Hold a payload against a schema that was loaded."""

    key: bytes
    payload: bytes
    content_type: str


class TaskRequest(msgspec.Struct, frozen=True):
    """A task, and how much processor time it may take."""

    task: CompileTask | LoadTask | CheckTask
    seconds: float


class TaskResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a task."""

    outcome: CompiledSchema | None = None
    unusable: str | None = None
    mismatches: list[Mismatch] = []
    unknown: bool = False
    """The schema is not loaded (any more)."""


SandboxTask: TypeAlias = CompileTask | LoadTask | CheckTask

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(TaskRequest).decode
decode_result = msgspec.msgpack.Decoder(TaskResult).decode


def frame(raw: bytes) -> bytes:
    """A message with its length before it."""
    return len(raw).to_bytes(LENGTH_BYTES, "big") + raw


def result_of(outcome: CompileResult) -> TaskResult:
    """The answer to `Compile`."""
    if isinstance(outcome, CompiledSchema):
        return TaskResult(outcome=outcome)
    return TaskResult(unusable=outcome.reason)
