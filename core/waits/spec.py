"""The immutable specification of what a correlation waits for."""

import hashlib
from collections import OrderedDict
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias, assert_never

import msgspec


class Strategy(StrEnum):
    """Which of the expected events are enough."""

    ALL = "all"
    ANY = "any"
    REQUIRED_ONLY = "required_only"
    CUSTOM = "custom"
    QUORUM = "quorum"
    SETTLED = "settled"


class TimeoutPolicy(StrEnum):
    """What happens when the strategy can no longer be satisfied."""

    FAIL = "fail"
    CONTINUE = "continue"
    CONTINUE_WITH_PARTIAL = "continue_with_partial"


class Source(StrEnum):
    """How an event arrived."""

    API = "api"
    KAFKA = "kafka"


class IdFields(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where an event has the two ids: names of headers, and paths into the body."""

    correlation_field: str = "correlation_id"
    execution_field: str = "execution_id"
    correlation_header: str = "X-Correlation-Id"
    execution_header: str = "X-Execution-Id"


DEFAULT_IDS = IdFields()


class ExpectedEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One expected event. `label` is a topic or a service; None accepts any."""

    name: str
    source: Source
    label: str | None = None
    required: bool = True
    timeout: float | None = None
    filter: dict[str, Any] = {}
    ids: IdFields = DEFAULT_IDS
    inline: bool = False
    """Whether the gather's request defined the resource, so no other gather knows its name."""


NO_CALL = msgspec.Raw()

# An expected event and its index in the configuration.
Slot: TypeAlias = tuple[int, ExpectedEvent]


class WaitSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """The enabled events and the rules for them. Times are in seconds.

    Many waits share one spec, so derived values are cached in it.
    """

    events: tuple[ExpectedEvent, ...]
    strategy: Strategy = Strategy.ALL
    listed: tuple[str, ...] = ()
    quorum: int = 0
    timeout: float = 300.0
    on_timeout: TimeoutPolicy = TimeoutPolicy.FAIL
    output: dict[str, str] = {}
    call: msgspec.Raw = NO_CALL
    """The API call as JSON; it is not decoded, because it can be large and no shard needs it."""
    publish: str | None = None
    """The topic of the completion event."""
    gather: bool = False
    """Whether Muster asks for the events: the first log entry is the gather's request."""
    lost: bytes = b""
    """The digest of the spec that this one replaces because Postgres does not have it."""

    def __repr__(self) -> str:
        # The headers of a call may be secret.
        return f"WaitSpec({', '.join(self.names)}; {self.digest.hex()})"

    @cached_property
    def staggered(self) -> bool:
        """Return whether an event has an earlier deadline than the wait."""
        return any(e.timeout is not None and e.timeout < self.timeout for e in self.events)

    @cached_property
    def by_source(self) -> dict[Source, tuple[Slot, ...]]:
        """Return the expected events of each source, the most specific first.

        An incoming event fulfils the expected event with a label or more filter clauses first,
        and leaves the general one for events that fulfil nothing else.
        """
        places = sorted(
            enumerate(self.events), key=lambda at: (at[1].label is None, -len(at[1].filter))
        )
        found: dict[Source, tuple[Slot, ...]] = {}
        for place in places:
            source = place[1].source
            found[source] = (*found.get(source, ()), place)
        return found

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(event.name for event in self.events)

    @cached_property
    def needed_slots(self) -> tuple[tuple[int, ...], int]:
        """Return the indexes of the events that the strategy counts, and how many it needs."""
        every = tuple(range(len(self.events)))
        match self.strategy:
            case Strategy.ALL | Strategy.SETTLED:
                return every, len(every)
            case Strategy.ANY:
                return every, min(1, len(every))
            case Strategy.REQUIRED_ONLY:
                required = tuple(index for index in every if self.events[index].required)
                return required, len(required)
            case Strategy.CUSTOM:
                return tuple(self.names.index(name) for name in self.listed), len(self.listed)
            case Strategy.QUORUM:
                return every, self.quorum
            case other:
                assert_never(other)

    @property
    def needed_names(self) -> list[str]:
        return [self.names[index] for index in self.needed_slots[0]]

    @property
    def text(self) -> str:
        """Return the JSON that Postgres stores once for all waits that share the spec."""
        return encode_spec(self).decode()

    @cached_property
    def weight(self) -> int:
        """Return an estimate of the memory in bytes that the spec uses, never much too low.

        The punctuation of JSON is counted, inside strings too, so it is rather too high. The call
        is not decoded.
        """
        text = encode_spec(self)
        return _SPEC_BYTES + 2 * len(text) + _object_bytes(text) - _object_bytes(bytes(self.call))

    @cached_property
    def digest(self) -> bytes:
        """Return sixteen bytes that identify the text."""
        return hashlib.sha256(self.text.encode()).digest()[:16]


# Bytes of the spec object with its cached values, and of one value in CPython with the reference to
# it in its container.
_SPEC_BYTES = 2_000
_LIST_BYTES, _DICT_BYTES, _VALUE_BYTES = 72, 240, 72


def _object_bytes(text: bytes) -> int:
    values = text.count(b",") + text.count(b":")
    containers = _LIST_BYTES * text.count(b"[") + _DICT_BYTES * text.count(b"{")
    return containers + _VALUE_BYTES * values


def encode_spec(spec: WaitSpec) -> bytes:
    return msgspec.json.encode(spec)


_canonical = msgspec.json.Encoder(order="deterministic")


def same_spec(one: WaitSpec, other: WaitSpec) -> bool:
    """Return whether two specs are equal, whatever the order of keys in their maps."""
    return _in_order(one) == _in_order(other)


def _in_order(spec: WaitSpec) -> tuple[bytes, bytes]:
    call = bytes(spec.call)
    decoded = msgspec.json.decode(call) if call else None
    rest = msgspec.structs.replace(spec, call=NO_CALL)
    return _canonical.encode(rest), _canonical.encode(decoded)


_SPEC_DECODER = msgspec.json.Decoder(WaitSpec)


def placeholder_spec(digest: bytes, events: int) -> WaitSpec:
    """Make the spec of a wait whose spec is not in Postgres: only its number of events is known.

    No event matches this spec, so the wait ends at its deadline.
    """
    names = [f"unknown_{number}" for number in range(1, events + 1)]
    return WaitSpec(
        events=tuple(ExpectedEvent(name=name, source=Source.API, label=name) for name in names),
        lost=digest,
    )


class SpecCache:
    """An LRU cache of specs by their text, limited in number and bytes."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._specs: OrderedDict[bytes, WaitSpec] = OrderedDict()
        self.weight = 0

    def __len__(self) -> int:
        return len(self._specs)

    def decode(self, raw: bytes) -> WaitSpec:
        found = self._specs.get(raw)
        if found is not None:
            self._specs.move_to_end(raw)
            return found
        spec = _SPEC_DECODER.decode(raw)
        self._specs[raw] = spec
        self.weight += spec.weight
        while len(self._specs) > self._most or self.weight > self._most_bytes:
            _, forgotten = self._specs.popitem(last=False)
            self.weight -= forgotten.weight
        return spec


_cache = SpecCache(4096, 32 * 1024 * 1024)


def decode_spec(raw: bytes | str) -> WaitSpec:
    """Decode a spec. Waits with the same spec share one object."""
    return _cache.decode(raw.encode() if isinstance(raw, str) else raw)
