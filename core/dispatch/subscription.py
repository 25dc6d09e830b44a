"""Subscriptions: which events somebody wants, and how they are brought there."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product

from core.dispatch.job import ANCHOR, Mode
from core.events.event_type import ANY, CODE_LENGTH, is_pattern, parse_code
from core.shared.refusal import CONFLICT, NOT_FOUND, Refusal

CODE = r"^[a-z][a-z0-9-]*$"
MIN_CODE_LENGTH, MAX_CODE_LENGTH = 2, 100
SPEC_VERSION = r"^[0-9]{1,9}\.(?:[0-9]{1,9}|\*)$"
MAX_BINDINGS = 100

DEFAULT_MAX_AGE_SECONDS = 86_400
DEFAULT_DELAY_SECONDS = 0
DEFAULT_SEQUENCE = 99
DEFAULT_TIMEOUT_SECONDS = 30
DEFAULT_MAX_RETRIES = 3

_CODE = re.compile(CODE.strip("^$"))
_SPEC_VERSION = re.compile(SPEC_VERSION.strip("^$"))


class SubscriptionStatus(StrEnum):
    """Whether a subscription takes events."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"


class SubscriptionSource(StrEnum):
    """Who made a subscription."""

    CODE = "CODE"
    API = "API"
    UI = "UI"


class Signature(StrEnum):
    """How deliveries are signed: as Standard Webhooks has it, or with one hash in one header."""

    STANDARD = "standard"
    CLASSIC = "classic"


class SubscriptionRefusal(Refusal):
    """Why a subscription cannot be created, changed or found."""

    SUBSCRIPTION_NOT_FOUND = NOT_FOUND, "there is no subscription with this id or code"
    CODE_EXISTS = CONFLICT, "a subscription has this code: choose another, or change that one"
    POOL_ARCHIVED = CONFLICT, "the subscription's dispatch pool is archived: name another pool"
    TOO_MANY_SUBSCRIPTIONS = CONFLICT, "no subscription is left for this tenant: delete one"
    TOO_MANY_JOBS = (
        CONFLICT,
        "too many ordered deliveries wait in the old dispatch pool to move along: pause the "
        "subscription until there are fewer",
    )


@dataclass(frozen=True, slots=True)
class Binding:
    """A kind of events: a type, four segments any of which may be `*`, or `*` for all there are."""

    pattern: str
    spec_version: str | None = None
    """`1.0` is this version, `1.*` any of this major, None any at all."""
    event_type_id: str | None = field(default=None, compare=False)
    """Of the type that it names, if that is registered."""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """Something the owner of a subscription keeps with it."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One subscription. What may hold secrets is not shown when it is printed."""

    tenant: int
    subscription_id: str
    code: str
    name: str
    target: str
    pool_no: int
    pool_code: str
    bindings: tuple[Binding, ...]
    description: str | None = None
    version: int = 1
    queue: str | None = None
    pool_id: str = ""
    mode: Mode = Mode.IMMEDIATE
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS
    max_age_seconds: int = DEFAULT_MAX_AGE_SECONDS
    """Older than this, a delivery is not worth making; 0 if it always is."""
    delay_seconds: int = DEFAULT_DELAY_SECONDS
    max_retries: int = DEFAULT_MAX_RETRIES
    """Attempts in total."""
    sequence: int = DEFAULT_SEQUENCE
    data_only: bool = True
    filter: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: Mapping[str, str] | None = field(default=None, repr=False)
    unreadable: str | None = None
    """Why headers and auth are not here, though there are some: what encrypted them is missing."""
    signature: Signature = Signature.STANDARD
    custom_config: tuple[ConfigEntry, ...] = field(default=(), repr=False)
    source: SubscriptionSource = SubscriptionSource.API
    application: str | None = None
    """Which application declares it, if one does."""
    status: SubscriptionStatus = SubscriptionStatus.ACTIVE
    status_reason: str | None = None
    failing_since: float | None = None
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def is_anchors(self) -> bool:
        """Return whether it takes every tenant's events."""
        return self.tenant == ANCHOR


# What a delivery comes out of. All the rest is for people.
_DELIVERY = (
    "status",
    "bindings",
    "filter",
    "target",
    "pool_no",
    "mode",
    "timeout_seconds",
    "max_age_seconds",
    "delay_seconds",
    "max_retries",
    "sequence",
    "data_only",
    "headers",
    "auth",
    "signature",
)


def same_delivery(one: Subscription, other: Subscription) -> bool:
    """Whether both take the same events and bring them to the same place in the same way."""
    return all(getattr(one, name) == getattr(other, name) for name in _DELIVERY)


def is_code(text: str) -> bool:
    """Whether a subscription, or a pool, may be called so."""
    return MIN_CODE_LENGTH <= len(text) <= MAX_CODE_LENGTH and _CODE.fullmatch(text) is not None


def is_binding_pattern(text: str) -> bool:
    """Whether it stands for types: one as it is, or some by `*` in the place of segments."""
    if ANY in text:
        return text == ANY or is_pattern(text)
    return 0 < len(text) <= CODE_LENGTH and text.isprintable()


def is_spec_version(text: str) -> bool:
    """Whether it is a version, or all of a major."""
    return _SPEC_VERSION.fullmatch(text) is not None


def candidate_patterns(type_: str) -> list[str]:
    """Every pattern that stands for this type: what to look for among bindings."""
    code = parse_code(type_)
    if code is None:
        return [type_] if type_ == ANY else [type_, ANY]
    spelled = [":".join(parts) for parts in product(*((segment, ANY) for segment in code))]
    return [*spelled, ANY]


def binding_matches(binding: Binding, type_: str, type_version: str | None) -> bool:
    """Whether a binding names this type, in this version if the type has any."""
    return _names(binding.pattern, type_) and _fits(binding.spec_version, type_version)


def _names(pattern: str, type_: str) -> bool:
    if pattern in (type_, ANY):
        return True
    if ANY not in pattern or parse_code(type_) is None:
        return False
    pairs = zip(pattern.split(":"), type_.split(":"), strict=True)
    return all(wanted in (ANY, given) for wanted, given in pairs)


def _fits(wanted: str | None, given: str | None) -> bool:
    if wanted is None:
        return True
    if given is None:
        return False
    major, _, minor = wanted.partition(".")
    return given.partition(".")[0] == major if minor == ANY else given == wanted
