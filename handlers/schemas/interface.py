"""The interface of a schema dialect: compile a schema once, check payloads against it."""

from typing import Protocol, TypeAlias

import msgspec

from core.events.event_type import SchemaType

MAX_SCHEMA_BYTES = 256 * 1024
MAX_MISMATCHES = 20
_LONGEST = 300


class CompiledSchema(msgspec.Struct, frozen=True, tag=True):
    """A valid schema, in the form that is stored.

    Equal forms have equal keys. `weight` is the worst-case cost of a byte of a payload; None if it
    is unbounded.
    """

    kind: SchemaType
    form: bytes
    key: bytes
    weight: int | None


class InvalidSchema(msgspec.Struct, frozen=True, tag=True):
    """Why a text is not a usable schema."""

    reason: str


class Mismatch(msgspec.Struct, frozen=True):
    """A place in a payload that breaks the schema; the path of the whole payload is empty."""

    path: str
    expected: str


class PayloadCheck(Protocol):
    def __call__(self, payload: bytes, content_type: str) -> list[Mismatch]:
        """Return what is wrong with a payload; an empty list if it is valid."""


CompileResult: TypeAlias = CompiledSchema | InvalidSchema


class SchemaDialect(Protocol):
    def compile(self, text: str) -> CompileResult:
        """Compile a schema, or say why it cannot be used.

        The text comes from users: run this in the sandbox.
        """

    def load(self, form: bytes) -> PayloadCheck:
        """Load what `compile` returned."""


def invalid_schema(reason: str) -> InvalidSchema:
    """Shorten the reason to what fits on a screen."""
    return InvalidSchema(_brief(reason))


def mismatch(path: str, expected: str) -> Mismatch:
    """Shorten path and expectation to what fits on a screen, whatever the payload holds."""
    return Mismatch(_brief(path), _brief(expected))


def within(root: str, path: str) -> str:
    """Prefix a path within a payload by the name of the payload."""
    if path and path[0] not in "[/":
        return f"{root}.{path}"
    return root + path


def _brief(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else flat[: _LONGEST - 1] + "…"
