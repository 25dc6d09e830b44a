"""Subscriptions as callers send and get them."""

from collections.abc import Set
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from core.dispatch import subscription
from core.dispatch.job import Mode
from core.dispatch.pool import DEFAULT_POOL
from core.dispatch.subscription import (
    ConfigEntry,
    Signature,
    SubscriptionSource,
    SubscriptionStatus,
)
from core.events.event_type import CODE_LENGTH
from handlers.filters.cel import MAX_FILTER_CHARS
from serve_app.dispatch.job_models import DeliveryHeaders, Pair, TargetUrl
from serve_app.dispatch.pool_models import POOL_NAME
from serve_app.dispatch.secret_models import SecretText
from serve_app.http.fields import (
    TSID,
    TYPE_ID,
    Auth,
    Code,
    Description,
    DisplayName,
    IsoTime,
    Limit,
    MaskedAuth,
    MaskedHeaders,
    OptionalIsoTime,
    is_printable,
)
from serve_app.http.models import Patch, View, WireModel

SUBSCRIPTION_NAME = rf"^(?:sub_{TSID}|[a-z][a-z0-9-]{{1,99}})$"
_YEAR = 366 * 86_400


def _is_pattern(text: str) -> str:
    if not subscription.is_binding_pattern(text):
        raise ValueError("a type, or four segments any of which may be *, or * alone")
    return text


PoolName = Annotated[
    str,
    Field(pattern=POOL_NAME, description=f"The id or the code of a pool. Default: {DEFAULT_POOL}."),
]
TypePattern = Annotated[
    str,
    Field(
        min_length=1,
        max_length=CODE_LENGTH,
        examples=["shop:orders:order:created", "shop:orders:*:*"],
        description="A type; or four segments any of which may be *; or * for all.",
    ),
    AfterValidator(_is_pattern),
]
Expression = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_FILTER_CHARS,
        examples=["data.amount > 100 && event.source == 'shop'"],
        description="A CEL expression on event and data; only events for which it is true go out.",
    ),
]
Queue = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(is_printable)]
Seconds = Annotated[int, Field(ge=0, le=_YEAR)]
Timeout = Annotated[int, Field(ge=1, le=900)]
Attempts = Annotated[int, Field(ge=1, le=100, description="Attempts in total.")]
SequenceNumber = Annotated[int, Field(ge=0, le=2**31 - 1)]
CustomConfig = Annotated[list[Pair], Field(max_length=50)]


class BindingRequest(WireModel):
    """Which events to deliver: by the code of their type, or by its id."""

    event_type_code: TypePattern | None = None
    event_type_id: Annotated[str, Field(pattern=TYPE_ID)] | None = None
    spec_version: (
        Annotated[str, Field(pattern=subscription.SPEC_VERSION, examples=["1.0", "1.*"])] | None
    ) = Field(None, description="One version, or any of a major. Left out: any version.")

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if (self.event_type_code is None) == (self.event_type_id is None):
            raise ValueError("eventTypeCode or eventTypeId, one of them")
        return self


def _names_each_once(bindings: list[BindingRequest]) -> list[BindingRequest]:
    named = [one.event_type_code or one.event_type_id for one in bindings]
    if len(set(named)) < len(named):
        raise ValueError("each type once")
    return bindings


Bindings = Annotated[
    list[BindingRequest],
    Field(min_length=1, max_length=subscription.MAX_BINDINGS),
    AfterValidator(_names_each_once),
]


class SubscriptionFields(WireModel):
    """The fields that a caller can set."""

    name: DisplayName
    description: Description | None = None
    event_types: Bindings
    target: TargetUrl = Field(description="Where deliveries go.")
    queue: Queue | None = Field(None, description="A note for its owner; pools do the queueing.")
    dispatch_pool_id: PoolName = DEFAULT_POOL
    mode: Mode = Mode.IMMEDIATE
    timeout_seconds: Timeout = subscription.DEFAULT_TIMEOUT_SECONDS
    max_age_seconds: Seconds = Field(
        subscription.DEFAULT_MAX_AGE_SECONDS,
        description="Jobs that are older expire; 0: never.",
    )
    delay_seconds: Seconds = subscription.DEFAULT_DELAY_SECONDS
    max_retries: Attempts = subscription.DEFAULT_MAX_RETRIES
    sequence: SequenceNumber = subscription.DEFAULT_SEQUENCE
    data_only: bool = Field(
        True, description="Send the event's data alone; else within an envelope."
    )
    filter: Expression | None = None
    headers: DeliveryHeaders = Field(
        {}, description="Sent with each delivery; their values are never shown."
    )
    auth: Auth | None = Field(None, description="Sent to the target; never shown.")
    signature: Signature = Signature.STANDARD
    custom_config: CustomConfig = Field([])


class DeclaredSubscription(SubscriptionFields):
    """A subscription as an application declares it."""

    code: Code


class SubscriptionRequest(DeclaredSubscription):
    """A subscription to create."""

    source: SubscriptionSource = SubscriptionSource.API
    status: SubscriptionStatus = SubscriptionStatus.ACTIVE
    secret: SecretText | None = Field(
        None, description="The secret that signs deliveries. Default: a new one."
    )


class SubscriptionReplacement(SubscriptionFields):
    """All of a subscription; headers and auth, which are never shown, stay if left out."""

    code: Code | None = Field(None, description="Cannot change.")
    status: SubscriptionStatus | None = Field(None, description="Left out: stays.")


class SubscriptionPatch(Patch, SubscriptionFields):
    """Fields to change; the others stay as they are."""

    status: SubscriptionStatus


def values_of(model: SubscriptionFields, names: Set[str]) -> dict[str, Any]:
    """Return fields under their names in the core, without pool and bindings."""
    values = {name: getattr(model, name) for name in names - {"dispatch_pool_id", "event_types"}}
    if values.get("auth") is not None:
        values["auth"] = values["auth"].model_dump()
    if "custom_config" in values:
        pairs = values["custom_config"]
        values["custom_config"] = tuple(ConfigEntry(pair.key, pair.value) for pair in pairs)
    return values


class SubscriptionQuery(WireModel):
    """Which subscriptions a listing shows."""

    status: SubscriptionStatus | None = None
    source: SubscriptionSource | None = None
    dispatch_pool_id: Annotated[str, Field(pattern=POOL_NAME)] | None = Field(
        None, description="The id or the code of their pool."
    )
    pool: Annotated[str, Field(pattern=POOL_NAME)] | None = Field(
        None, description="The same as dispatchPoolId."
    )
    anchor_level: bool | None = Field(
        None, description="true: the anchor's own, which take every tenant's events."
    )
    event_type: Annotated[str, Field(min_length=1, max_length=CODE_LENGTH)] | None = Field(
        None, description="Those that take events of this type, in any version."
    )
    limit: Limit = 100
    cursor: (
        Annotated[str, Field(pattern=subscription.CODE, max_length=subscription.MAX_CODE_LENGTH)]
        | None
    ) = Field(None, description="nextCursor of the page before.")


class BindingView(View):
    """Which events."""

    event_type_code: str = Field(validation_alias="pattern")
    event_type_id: str | None
    spec_version: str | None


class SubscriptionView(View):
    """A subscription, without its secrets."""

    id: str = Field(validation_alias="subscription_id")
    code: str
    name: str
    description: str | None
    anchor_level: bool = Field(
        validation_alias="is_anchors", description="Whether it takes every tenant's events."
    )
    event_types: list[BindingView] = Field(validation_alias="bindings")
    target: str
    queue: str | None
    dispatch_pool_id: str = Field(validation_alias="pool_id")
    dispatch_pool_code: str = Field(validation_alias="pool_code")
    mode: Mode
    timeout_seconds: int
    max_age_seconds: int
    delay_seconds: int
    max_retries: int
    sequence: int
    data_only: bool
    filter: str | None
    headers: MaskedHeaders = Field(description="Their values are not shown.")
    auth: MaskedAuth
    signature: Signature
    custom_config: list[Pair]
    source: SubscriptionSource
    application: str | None
    status: SubscriptionStatus
    status_reason: str | None
    failing_since: OptionalIsoTime
    version: int = Field(description="Raised with each change that affects deliveries.")
    created_at: IsoTime
    updated_at: IsoTime
