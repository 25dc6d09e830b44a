"""Subscriptions: which events they select, and how these are delivered."""

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
    """Whether a subscription receives events."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"


class SubscriptionSource(StrEnum):
    """How a subscription was created."""

    CODE = "CODE"
    API = "API"
    UI = "UI"


class Signature(StrEnum):
    """How deliveries are signed: by Standard Webhooks, or with one hash in one header."""

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
    """Selects events: a type, four segments any of which may be `*`, or `*` for all events."""

    pattern: str
    spec_version: str | None = None
    """`1.0` is this version, `1.*` any version of this major, None any version."""
    event_type_id: str | None = field(default=None, compare=False)
    """The id of the event type, if the pattern names a registered one."""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A custom value that the owner stores with a subscription."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One subscription. Its repr leaves out fields that may contain secrets."""

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
    """The age at which a job expires; 0 if it never does."""
    delay_seconds: int = DEFAULT_DELAY_SECONDS
    max_retries: int = DEFAULT_MAX_RETRIES
    """Attempts in total."""
    sequence: int = DEFAULT_SEQUENCE
    data_only: bool = True
    filter: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: Mapping[str, str] | None = field(default=None, repr=False)
    unreadable: str | None = None
    """Why headers and auth could not be decrypted."""
    signature: Signature = Signature.STANDARD
    custom_config: tuple[ConfigEntry, ...] = field(default=(), repr=False)
    source: SubscriptionSource = SubscriptionSource.API
    application: str | None = None
    """The application that declares the subscription, if one does."""
    status: SubscriptionStatus = SubscriptionStatus.ACTIVE
    status_reason: str | None = None
    failing_since: float | None = None
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def is_anchors(self) -> bool:
        """Return whether it takes every tenant's events."""
        return self.tenant == ANCHOR


# The fields that affect deliveries.
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
    """Return whether both select the same events and deliver them in the same way."""
    return all(getattr(one, name) == getattr(other, name) for name in _DELIVERY)


def is_code(text: str) -> bool:
    """Return whether the text can be the code of a subscription or a pool."""
    return MIN_CODE_LENGTH <= len(text) <= MAX_CODE_LENGTH and _CODE.fullmatch(text) is not None


def is_binding_pattern(text: str) -> bool:
    """Return whether the text is an event type, or a pattern with `*` in place of segments."""
    if ANY in text:
        return text == ANY or is_pattern(text)
    return 0 < len(text) <= CODE_LENGTH and text.isprintable()


def is_spec_version(text: str) -> bool:
    """Return whether the text is a version such as `1.0`, or all of a major such as `1.*`."""
    return _SPEC_VERSION.fullmatch(text) is not None


def candidate_patterns(type_: str) -> list[str]:
    """Return every pattern that matches this type, to look for among bindings."""
    code = parse_code(type_)
    if code is None:
        return [type_] if type_ == ANY else [type_, ANY]
    spelled = [":".join(parts) for parts in product(*((segment, ANY) for segment in code))]
    return [*spelled, ANY]


def binding_matches(binding: Binding, type_: str, type_version: str | None) -> bool:
    """Return whether a binding selects events of this type and version."""
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
