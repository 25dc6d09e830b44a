"""Events: their fields, the limits of these, and search keys."""

import re
from typing import Any

import msgspec

from core.shared.address import Address
from core.shared.media_types import is_json_type

SPEC_VERSION = "1.0"

TYPE_LENGTH = 255
SOURCE_LENGTH = 255
SUBJECT_LENGTH = 1_024
ID_LENGTH = 255
DEDUPLICATION_LENGTH = 512
SCHEMA_LENGTH = 1_024
MAX_CONTEXT_PAIRS = 50
KEY_LENGTH = 100
VALUE_LENGTH = 500
MAX_EXTENSIONS = 50
EXTENSION_LENGTH = 1_024
MAX_CLOCK_SKEW = 86_400.0
"""How far a sender's clock may be ahead of Muster's, in seconds."""
ANY = "*"
CLIENT = "clientId"
"""The context key whose value is the client of an event."""

_BETWEEN = re.compile(r"(\*)")


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event. `data` are the original bytes; `time` is the sender's.

    The fields are in the order of the columns.
    """

    tenant: int
    event_id: str
    spec_version: str = SPEC_VERSION
    type: str
    source: str
    subject: str | None = None
    time: float
    data: bytes | None = None
    content_type: str | None = None
    data_schema: str | None = None
    type_version: str | None = None
    """The version of the event type, declared by the sender or found by validation."""
    execution_id: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    deduplication_id: str | None = None
    message_group: str | None = None
    context: tuple[tuple[str, str], ...] = ()
    extensions: dict[str, Any] = {}

    @property
    def address(self) -> Address | None:
        """Return the address of the wait that the event names, or None."""
        if self.execution_id is None or self.correlation_id is None:
            return None
        return Address(self.tenant, self.execution_id, self.correlation_id)

    @property
    def client(self) -> str | None:
        return next((value for key, value in self.context if key == CLIENT), None)

    @property
    def is_json(self) -> bool:
        return self.content_type is not None and is_json_type(self.content_type)


def deduplication_key(source: str, own_id: str) -> str:
    """Return the deduplication id for a source and the sender's event id.

    Slashes in the id are quoted, so different pairs have different keys.
    """
    quoted = own_id.replace("%", "%25").replace("/", "%2F")
    return f"{source}/{quoted}"


def context_entry(key: str, value: str) -> str:
    """Return a context pair as it is stored and searched; keys contain no `=`."""
    return f"{key}={value}"


def context_pair(entry: str) -> tuple[str, str]:
    key, _, value = entry.partition("=")
    return key, value


def type_expression(pattern: str) -> str:
    """Return a regular expression for a pattern: `*` is part of one segment; alone, any type."""
    if pattern == ANY:
        return ""
    parts = ("[^:]+" if part == ANY else re.escape(part) for part in _BETWEEN.split(pattern))
    return f"^{''.join(parts)}$"
