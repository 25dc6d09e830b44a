"""What callers of subscriptions send and get."""

from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from core.dispatch.job import Mode
from core.dispatch.pool import DEFAULT_POOL
from core.dispatch.subscription import (
    CODE,
    DEFAULT_DELAY_SECONDS,
    DEFAULT_MAX_AGE_SECONDS,
    DEFAULT_MAX_RETRIES,
    DEFAULT_SEQUENCE,
    DEFAULT_TIMEOUT_SECONDS,
    MAX_BINDINGS,
    MAX_CODE_LENGTH,
    SPEC_VERSION,
    ConfigEntry,
    Signature,
    SubscriptionSource,
    SubscriptionStatus,
    is_binding_pattern,
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

SUBSCRIPTION_ID = rf"^sub_{TSID}$"
SUBSCRIPTION_NAME = rf"^(?:sub_{TSID}|[a-z][a-z0-9-]{{1,99}})$"
_YEAR = 366 * 86_400


def _is_pattern(text: str) -> str:
    if not is_binding_pattern(text):
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
        description="A CEL expression on event and data; only what it says true of is delivered.",
    ),
]
Queue = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(is_printable)]
Seconds = Annotated[int, Field(ge=0, le=_YEAR)]
Timeout = Annotated[int, Field(ge=1, le=900)]
Attempts = Annotated[int, Field(ge=1, le=100, description="Attempts in total.")]
SequenceNumber = Annotated[int, Field(ge=0, le=2**31 - 1)]
CustomConfig = Annotated[list[Pair], Field(max_length=50)]


class BindingRequest(WireModel):
    """Which events: by the code of their type, or by its id."""

    event_type_code: TypePattern | None = None
    event_type_id: Annotated[str, Field(pattern=TYPE_ID)] | None = None
    spec_version: Annotated[str, Field(pattern=SPEC_VERSION, examples=["1.0", "1.*"])] | None = (
        Field(None, description="This version only, or any of a major. Left out: any at all.")
    )

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
    Field(min_length=1, max_length=MAX_BINDINGS),
    AfterValidator(_names_each_once),
]


class SubscriptionFields(WireModel):
    """What a subscription is."""

    name: DisplayName
    description: Description | None = None
    event_types: Bindings
    target: TargetUrl = Field(description="Where deliveries go.")
    queue: Queue | None = Field(None, description="Kept for its owner; pools do the queueing.")
    dispatch_pool_id: PoolName = DEFAULT_POOL
    mode: Mode = Mode.IMMEDIATE
    timeout_seconds: Timeout = DEFAULT_TIMEOUT_SECONDS
    max_age_seconds: Seconds = Field(
        DEFAULT_MAX_AGE_SECONDS,
        description="What could not be delivered for so long expires; 0: never.",
    )
    delay_seconds: Seconds = DEFAULT_DELAY_SECONDS
    max_retries: Attempts = DEFAULT_MAX_RETRIES
    sequence: SequenceNumber = DEFAULT_SEQUENCE
    data_only: bool = Field(True, description="The event's data by itself; else in an envelope.")
    filter: Expression | None = None
    headers: DeliveryHeaders = Field({}, description="Sent along; never shown again.")
    auth: Auth | None = Field(None, description="Shown to the target; never shown again.")
    signature: Signature = Signature.STANDARD
    custom_config: CustomConfig = Field([])

    def values(self, names: frozenset[str]) -> dict[str, Any]:
        """Return the fields under their names in the core, without pool and bindings."""
        return values_of(self, names - {"dispatch_pool_id", "event_types"})


class SubscriptionRequest(SubscriptionFields):
    """A subscription to create."""

    code: Code
    source: SubscriptionSource = SubscriptionSource.API
    status: SubscriptionStatus = SubscriptionStatus.ACTIVE
    secret: SecretText | None = Field(
        None, description="What deliveries are signed with. Default: a new one."
    )


class SubscriptionReplacement(SubscriptionFields):
    """All of a subscription; headers and auth, which are never shown, stay if left out."""

    code: Code | None = Field(None, description="Cannot change.")
    status: SubscriptionStatus | None = Field(None, description="Left out: stays.")


class SubscriptionPatch(Patch):
    """Fields to change; the others stay as they are."""

    CLEARABLE = frozenset({"description", "queue", "filter", "auth"})

    name: DisplayName | None = None
    description: Description | None = Field(None, description="null clears it.")
    event_types: Bindings | None = None
    target: TargetUrl | None = None
    queue: Queue | None = Field(None, description="null clears it.")
    dispatch_pool_id: PoolName | None = None
    mode: Mode | None = None
    timeout_seconds: Timeout | None = None
    max_age_seconds: Seconds | None = None
    delay_seconds: Seconds | None = None
    max_retries: Attempts | None = None
    sequence: SequenceNumber | None = None
    data_only: bool | None = None
    filter: Expression | None = Field(None, description="null clears it.")
    headers: DeliveryHeaders | None = Field(None, description="All of them anew.")
    auth: Auth | None = Field(None, description="null clears it.")
    signature: Signature | None = None
    custom_config: CustomConfig | None = None
    status: SubscriptionStatus | None = None

    def values(self) -> dict[str, Any]:
        """Return the given fields under their names in the core."""
        return values_of(self, self.model_fields_set - {"dispatch_pool_id", "event_types"})


def values_of(model: WireModel, names: frozenset[str] | set[str]) -> dict[str, Any]:
    """Fields by their names, secrets and pairs as they are kept."""
    values = {name: getattr(model, name) for name in names}
    if values.get("auth") is not None:
        values["auth"] = values["auth"].model_dump()
    if "custom_config" in values:
        values["custom_config"] = config_of(values["custom_config"])
    return values


def config_of(pairs: Sequence[Pair]) -> tuple[ConfigEntry, ...]:
    """Pairs as they are kept."""
    return tuple(ConfigEntry(pair.key, pair.value) for pair in pairs)


class SubscriptionQuery(WireModel):
    """Which subscriptions a listing shows."""

    status: SubscriptionStatus | None = None
    source: SubscriptionSource | None = None
    dispatch_pool_id: Annotated[str, Field(pattern=POOL_NAME)] | None = Field(
        None, description="The id or the code of their pool."
    )
    pool: Annotated[str, Field(pattern=POOL_NAME)] | None = Field(
        None, description="The same, in short."
    )
    anchor_level: bool | None = Field(
        None, description="Those that take every tenant's events: the anchor's own."
    )
    event_type: Annotated[str, Field(min_length=1, max_length=CODE_LENGTH)] | None = Field(
        None, description="Those that take events of this type, in whatever version."
    )
    limit: Limit = 100
    cursor: Annotated[str, Field(pattern=CODE, max_length=MAX_CODE_LENGTH)] | None = Field(
        None, description="nextCursor of the page before."
    )


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
    version: int = Field(description="Raised with each change that deliveries feel.")
    created_at: IsoTime
    updated_at: IsoTime
