"""What every family of schemas offers: a schema made ready once, payloads held against it."""

from typing import Protocol, TypeAlias

import msgspec

from core.events.event_type import SchemaType

MAX_SCHEMA_BYTES = 256 * 1024
MAX_MISMATCHES = 20
_LONGEST = 300


class CompiledSchema(msgspec.Struct, frozen=True):
    """A schema that was found usable, in the form that is kept.

    `key` is the same for the same form. `weight` is how much work one byte of a payload can make,
    at most; None if no bound is known.
    """

    kind: SchemaType
    form: bytes
    key: bytes
    weight: int | None


class InvalidSchema(msgspec.Struct, frozen=True):
    """A text that no payload can be held against."""

    reason: str


class Mismatch(msgspec.Struct, frozen=True):
    """Where in a payload something is not as its schema wants it; the whole has an empty path."""

    path: str
    expected: str


class PayloadCheck(Protocol):
    """A schema that is ready."""

    def __call__(self, payload: bytes, content_type: str) -> list[Mismatch]:
        """What is wrong with a payload; nothing if it fits."""


CompileResult: TypeAlias = CompiledSchema | InvalidSchema


class SchemaDialect(Protocol):
    """One language of schemas."""

    def compile(self, text: str) -> CompileResult:
        """The schema in the form that is kept, or why it cannot be used.

        The text is anybody's: run this in a process that may break.
        """

    def load(self, form: bytes) -> PayloadCheck:
        """Make what `compile` gave ready."""


def invalid_schema(reason: str) -> InvalidSchema:
    """A refusal that fits on a screen."""
    return InvalidSchema(_brief(reason))


def mismatch(path: str, expected: str) -> Mismatch:
    """A mismatch that fits on a screen, whatever the payload is made of."""
    return Mismatch(_brief(path), _brief(expected))


def within(root: str, path: str) -> str:
    """A place in a payload, as a place in what has the payload as its `root`."""
    if path and path[0] not in "[/":
        return f"{root}.{path}"
    return root + path


def _brief(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else flat[: _LONGEST - 1] + "…"
