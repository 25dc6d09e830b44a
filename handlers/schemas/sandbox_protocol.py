"""The messages between the sandbox and its client."""

from typing import TypeAlias

import msgspec

from core.events.event_type import SchemaType
from handlers.schemas.interface import CompiledSchema, CompileResult, Mismatch

LENGTH_BYTES = 4


class CompileTask(msgspec.Struct, tag=True, frozen=True):
    kind: SchemaType
    text: str


class LoadTask(msgspec.Struct, tag=True, frozen=True):
    compiled: CompiledSchema


class CheckTask(msgspec.Struct, tag=True, frozen=True):
    """Check a payload against a loaded schema."""

    key: bytes
    payload: bytes
    content_type: str


SandboxTask: TypeAlias = CompileTask | LoadTask | CheckTask


class TaskRequest(msgspec.Struct, frozen=True):
    """A task with its limit of processor time."""

    task: SandboxTask
    seconds: float


class TaskResult(msgspec.Struct, frozen=True, omit_defaults=True):
    compiled: CompileResult | None = None
    mismatches: list[Mismatch] = []
    unknown: bool = False
    """The schema is not loaded (any more)."""


encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(TaskRequest).decode
decode_result = msgspec.msgpack.Decoder(TaskResult).decode


def frame(raw: bytes) -> bytes:
    return len(raw).to_bytes(LENGTH_BYTES, "big") + raw
