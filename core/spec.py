"""What a correlation waits for. Built once from configuration, then never changed."""

from enum import StrEnum
from functools import lru_cache
from typing import Any, assert_never

import msgspec
from msgspec.structs import force_setattr


class Strategy(StrEnum):
    """Which of the expected events are enough."""

    ALL = "all"
    ANY = "any"
    REQUIRED_ONLY = "required_only"
    CUSTOM = "custom"
    QUORUM = "quorum"
    SETTLED = "settled"


class TimeoutPolicy(StrEnum):
    """What happens when the events that are needed can no longer all come."""

    FAIL = "fail"
    CONTINUE = "continue"
    CONTINUE_WITH_PARTIAL = "continue_with_partial"


class Source(StrEnum):
    """The path an event came by."""

    API = "api"
    KAFKA = "kafka"


class IdFields(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a sender puts the two ids: names of headers, and paths into the body."""

    correlation_field: str = "correlation_id"
    execution_field: str = "execution_id"
    correlation_header: str = "X-Correlation-Id"
    execution_header: str = "X-Execution-Id"


DEFAULT_IDS = IdFields()


class Expected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One event that may come. `label` is a topic or a service; None accepts any."""

    name: str
    source: Source
    label: str | None = None
    required: bool = True
    timeout: float | None = None
    filter: dict[str, Any] = {}
    ids: IdFields = DEFAULT_IDS


class WaitSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The enabled events and the rules that decide over them. Times are in seconds."""

    events: tuple[Expected, ...]
    strategy: Strategy = Strategy.ALL
    listed: tuple[str, ...] = ()
    quorum: int = 0
    timeout: float = 300.0
    on_timeout: TimeoutPolicy = TimeoutPolicy.FAIL
    output: dict[str, str] = {}
    call: dict[str, Any] | None = None
    staggered: bool = False
    """Derived: some event has an earlier deadline than the whole."""

    def __post_init__(self) -> None:
        """Look once, so that the usual case costs nothing on every turn."""
        earlier = any(e.timeout is not None and e.timeout < self.timeout for e in self.events)
        force_setattr(self, "staggered", earlier)

    def needed(self) -> tuple[tuple[str, ...], int]:
        """The names the strategy looks at, and how many of them must be received."""
        names = tuple([event.name for event in self.events])  # a list is built faster
        match self.strategy:
            case Strategy.ALL | Strategy.SETTLED:
                return names, len(names)
            case Strategy.ANY:
                return names, min(1, len(names))
            case Strategy.REQUIRED_ONLY:
                required = tuple(event.name for event in self.events if event.required)
                return required, len(required)
            case Strategy.CUSTOM:
                return self.listed, len(self.listed)
            case Strategy.QUORUM:
                return names, self.quorum
            case other:
                assert_never(other)


def encode_spec(spec: WaitSpec) -> bytes:
    """The spec as the JSON its row carries."""
    return msgspec.json.encode(spec)


_canonical = msgspec.json.Encoder(order="deterministic")


def same_spec(one: WaitSpec, other: WaitSpec) -> bool:
    """Whether two specs mean the same, in whatever order their maps were written."""
    return _canonical.encode(one) == _canonical.encode(other)


_SPEC_DECODER = msgspec.json.Decoder(WaitSpec)


@lru_cache(maxsize=4096)
def decode_spec(raw: bytes | str) -> WaitSpec:
    """The spec of a row. Waits of one node share one object, however many there are."""
    return _SPEC_DECODER.decode(raw)
