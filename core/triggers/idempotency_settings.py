"""How a trigger recognizes that it has fired before: seven strategies, and the settings of each."""

from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

MAX_TTL_MINUTES = 366 * 24 * 60.0
MAX_CONTEXT_FIELDS = 20
MAX_KEEP_DAYS = 3_660
DEFAULT_KEEP_DAYS = 90
MAX_KEY_EXPRESSION = 4_000


class IdempotencyStrategy(StrEnum):
    NONE = "NONE"
    UUID = "UUID"
    TIME_WINDOW = "TIME_WINDOW"
    CONTEXT_BASED = "CONTEXT_BASED"
    CONTEXT_TIME_WINDOW = "CONTEXT_TIME_WINDOW"
    EVENT_BASED = "EVENT_BASED"
    CUSTOM_EXPRESSION = "CUSTOM_EXPRESSION"


class WindowKind(StrEnum):
    """Where a time window begins: at multiples of its length, or with the first start."""

    TUMBLING = "TUMBLING"
    SLIDING = "SLIDING"


_WITH_TTL = {IdempotencyStrategy.TIME_WINDOW, IdempotencyStrategy.CONTEXT_TIME_WINDOW}
_WITH_FIELDS = {IdempotencyStrategy.CONTEXT_BASED, IdempotencyStrategy.CONTEXT_TIME_WINDOW}
Minutes = Annotated[float, Field(gt=0, le=MAX_TTL_MINUTES, allow_inf_nan=False, strict=True)]
ContextField = Annotated[str, Field(min_length=1, max_length=255)]


class IdempotencySettings(BaseModel):
    """The settings of a trigger, as `idempotencyGenerationSetting` has them.

    Fields that are unknown are ignored, and fields that the strategy does not use have no effect.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )

    strategy: IdempotencyStrategy = IdempotencyStrategy.UUID
    ttl_minutes: Minutes | None = None
    context_fields: Annotated[tuple[ContextField, ...], Field(max_length=MAX_CONTEXT_FIELDS)] = ()
    include_trigger_id: Annotated[bool, Field(strict=True)] = True
    include_event_type: Annotated[bool, Field(strict=True)] = False
    include_event_id: Annotated[bool, Field(strict=True)] = False
    custom_expression: Annotated[str, Field(max_length=MAX_KEY_EXPRESSION)] | None = None
    fail_on_missing_context: Annotated[bool, Field(strict=True)] = False
    window: WindowKind = WindowKind.TUMBLING
    keep_days: Annotated[int, Field(ge=1, le=MAX_KEEP_DAYS, strict=True)] | Literal["forever"] = (
        DEFAULT_KEEP_DAYS
    )
    release_on_failure: Annotated[bool, Field(strict=True)] = False

    @model_validator(mode="after")
    def _check_strategy(self) -> Self:
        """Refuse settings without what their strategy needs, all at once."""
        strategy = self.strategy
        lacking = []
        if strategy in _WITH_TTL and self.ttl_minutes is None:
            lacking.append("ttlMinutes, a number of minutes over 0")
        if strategy in _WITH_FIELDS and not self.context_fields:
            lacking.append("contextFields, the names of one or more fields")
        if strategy is IdempotencyStrategy.EVENT_BASED and not (
            self.include_event_type or self.include_event_id
        ):
            lacking.append("includeEventType or includeEventId")
        if strategy is IdempotencyStrategy.CUSTOM_EXPRESSION and not self._has_expression:
            lacking.append("customExpression")
        if lacking:
            raise ValueError(f"{strategy} needs {' and '.join(lacking)}")
        if len({*self.context_fields}) != len(self.context_fields):
            raise ValueError("contextFields must name each field once")
        if self.window is WindowKind.SLIDING and self.window_ms is None:
            raise ValueError("a SLIDING window needs ttlMinutes, and a strategy that has windows")
        return self

    @property
    def _has_expression(self) -> bool:
        return bool(self.custom_expression and self.custom_expression.strip())

    @property
    def window_ms(self) -> int | None:
        """The length of the time window in milliseconds; None where the strategy has none."""
        has_window = self.strategy in {*_WITH_TTL, IdempotencyStrategy.CUSTOM_EXPRESSION}
        if not has_window or self.ttl_minutes is None:
            return None
        return max(1, int(self.ttl_minutes * 60_000))


class StoredSettings(NamedTuple):
    """Settings as they were stored, and why they were replaced if they could not be used."""

    settings: IdempotencySettings
    warning: str | None = None


def read_stored_settings(stored: str | bytes | None) -> StoredSettings:
    """Read settings that may have been stored broken: UUID then, with a warning, as without any."""
    if stored is None:
        return StoredSettings(IdempotencySettings())
    try:
        document: Any = msgspec.json.decode(stored)
        return StoredSettings(IdempotencySettings.model_validate(document))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"they are not JSON ({error})"
    except ValidationError as error:
        problem = "; ".join(_sentence(one) for one in error.errors())
    return StoredSettings(
        IdempotencySettings(),
        f"idempotency settings cannot be used: {problem}; every event starts the workflow until "
        "they are corrected",
    )


def _sentence(error: Any) -> str:
    place = ".".join(map(str, error["loc"]))
    return f"{place}: {error['msg']}" if place else str(error["msg"])
