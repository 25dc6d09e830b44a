"""An event that came in: what is known of it, within which bounds, and how it is looked for."""

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
"""How far a sender's clock may be ahead of ours, in seconds."""
ANY = "*"
CLIENT = "clientId"
"""The key of its context under which an event names the client that it is about."""

_BETWEEN = re.compile(r"(\*)")


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event. `data` is as it came, to the byte; `time` is the sender's."""

    tenant: int
    event_id: str
    type: str
    source: str
    time: float
    spec_version: str = SPEC_VERSION
    subject: str | None = None
    data: bytes | None = None
    content_type: str | None = None
    data_schema: str | None = None
    type_version: str | None = None
    """Which version of its type it is, if it says so or was found to be."""
    execution_id: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    deduplication_id: str | None = None
    message_group: str | None = None
    context: tuple[tuple[str, str], ...] = ()
    extensions: dict[str, Any] = {}

    @property
    def address(self) -> Address | None:
        """The wait it is for, if it names one."""
        if self.execution_id is None or self.correlation_id is None:
            return None
        return Address(self.tenant, self.execution_id, self.correlation_id)

    @property
    def client(self) -> str | None:
        """The client that it is about, if its context names one."""
        return next((value for key, value in self.context if key == CLIENT), None)

    @property
    def is_json(self) -> bool:
        """Whether its data is JSON."""
        return self.content_type is not None and is_json_type(self.content_type)


def deduplication_key(source: str, own_id: str) -> str:
    """What stands for a sender's own id: it is unique within its source.

    No two pairs read alike: after the last slash stands the id, which has none.
    """
    quoted = own_id.replace("%", "%25").replace("/", "%2F")
    return f"{source}/{quoted}"


def context_entry(key: str, value: str) -> str:
    """A pair as it is stored and looked for; keys have no `=` in them."""
    return f"{key}={value}"


def context_pair(entry: str) -> tuple[str, str]:
    """And back."""
    key, _, value = entry.partition("=")
    return key, value


def type_expression(pattern: str) -> str:
    """A pattern of types as a regular expression: `*` is any part of one segment, alone all."""
    if pattern == ANY:
        return ""
    parts = ("[^:]+" if part == ANY else re.escape(part) for part in _BETWEEN.split(pattern))
    return f"^{''.join(parts)}$"
