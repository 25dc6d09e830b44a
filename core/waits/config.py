"""The `wait_events` configuration as users write it, checked field by field."""

from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from core.shared.errors import InvalidError
from core.shared.json_limits import check_plain
from core.shared.json_path import parse_path
from core.shared.kafka_config import CompletionPolicy, KafkaConfig
from core.waits.output import RESERVED
from core.waits.spec import (
    NO_CALL,
    ExpectedEvent,
    IdFields,
    Source,
    Strategy,
    TimeoutPolicy,
    WaitSpec,
)

API_RESPONSE = "api_response"
KAFKA_EVENT = "kafka_event"
MAX_TIMEOUT = 90 * 86_400.0
MASK = "•••"
"""Replaces secret values."""

# Strict: "300" and true are not numbers, and would hide a mistake.
Seconds = Annotated[float, Field(gt=0, le=MAX_TIMEOUT, allow_inf_nan=False, strict=True)]
Name = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[\w.:-]+$")]
Path = Annotated[str, Field(min_length=1, max_length=255)]
Topic = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[A-Za-z0-9._-]+$")]
# The name of a topic, or the type of an event that is posted.
Label = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[A-Za-z0-9._:-]+$")]
Text = Annotated[str, Field(max_length=65_536)]
PlainMap = Annotated[dict[str, Any], AfterValidator(check_plain)]
HeaderName = Annotated[
    str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
]


class _Part(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class _Event(_Part):
    enabled: bool = True
    correlation_id_field: Path = "correlation_id"
    execution_id_field: Path = "execution_id"
    correlation_id_header: HeaderName = "X-Correlation-Id"
    execution_id_header: HeaderName = "X-Execution-Id"
    timeout: Seconds | None = None
    required: bool = True

    @field_validator("correlation_id_field", "execution_id_field")
    @classmethod
    def _is_path(cls, value: str) -> str:
        if parse_path(value) is None or not value.isprintable():
            raise ValueError("must be a field name or a path such as data.ids[0].ref")
        return value

    def ids(self) -> IdFields:
        return IdFields(
            self.correlation_id_field,
            self.execution_id_field,
            self.correlation_id_header,
            self.execution_id_header,
        )


class ApiCall(_Event):
    """The call whose callback is awaited as `api_response`."""

    url: Annotated[str, Field(max_length=2048)] | None = None
    method: Literal["GET", "POST", "PUT", "DELETE"] = "POST"
    headers: dict[HeaderName, Text] = Field(default={}, repr=False)
    body: PlainMap | Text | None = None
    response_mode: Literal["callback", "sync"] = "callback"

    @model_validator(mode="after")
    def _needs_url(self) -> Self:
        if self.enabled and not self.url:
            raise ValueError("url is required while apiCall is enabled")
        return self


class KafkaEvent(_Event):
    """The Kafka message awaited as `kafka_event`, or a posted event with `topic` as its type."""

    topic: Label | None = None
    filter: PlainMap = {}

    @model_validator(mode="after")
    def _needs_topic(self) -> Self:
        if self.enabled and not self.topic:
            raise ValueError("topic is required while kafkaEvent is enabled")
        return self


class NamedEvent(_Event):
    """One further event by name: a callback of `service`, or a Kafka message on `topic`."""

    name: Name
    service: Name | None = None
    topic: Label | None = None
    filter: PlainMap = {}

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.service and self.topic:
            raise ValueError("give service or topic, not both")
        if self.name in {API_RESPONSE, KAFKA_EVENT}:
            raise ValueError(f"{self.name} is configured by apiCall or kafkaEvent")
        if self.name in RESERVED:
            raise ValueError(f"{self.name} is a reserved key of the output; choose another name")
        return self


class WaitConfig(_Part):
    """The expected events, how many of them are enough, and what happens at the deadline."""

    api_call: ApiCall | None = None
    kafka_event: KafkaEvent | None = None
    events: Annotated[tuple[NamedEvent, ...], Field(max_length=100)] = ()
    aggregation_strategy: Strategy = Strategy.ALL
    required_events: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    quorum: Annotated[int, Field(ge=1, strict=True)] | None = None
    timeout: Seconds = 300.0
    on_timeout: TimeoutPolicy = TimeoutPolicy.FAIL
    output_mapping: dict[Path, Path] = {}
    publish_completion: bool | None = None
    completion_topic: Topic | None = None

    @model_validator(mode="after")
    def _is_decidable(self) -> Self:
        """Refuse a wait that could never complete now, instead of after its timeout."""
        names = [event.name for event in self.expected()]
        if len(set(names)) != len(names):
            raise ValueError("events must have different names")
        if self.aggregation_strategy is Strategy.CUSTOM:
            _check_listed(self.required_events, names)
        if self.aggregation_strategy is Strategy.REQUIRED_ONLY and names:
            _check_required(self.expected())
        if self.aggregation_strategy is Strategy.QUORUM:
            _check_quorum(self.quorum, names)
        elif self.quorum is not None:
            raise ValueError("quorum goes with aggregationStrategy quorum only")
        return self

    def expected(self) -> tuple[ExpectedEvent, ...]:
        """Return the enabled events in the order of the configuration."""
        events: list[ExpectedEvent] = []
        if self.api_call and self.api_call.enabled:
            events.append(_expected(API_RESPONSE, Source.API, None, self.api_call))
        if self.kafka_event and self.kafka_event.enabled:
            kafka = self.kafka_event
            events.append(_expected(KAFKA_EVENT, Source.KAFKA, kafka.topic, kafka))
        for event in self.events:
            if event.enabled:
                source = Source.KAFKA if event.topic else Source.API
                label = event.topic or event.service or event.name
                events.append(_expected(event.name, source, label, event))
        return tuple(events)

    def published_to(self, kafka: KafkaConfig | None) -> str | None:
        """Return the topic of the completion event, or None; the wait overrides the setting.

        Raises:
            InvalidError: The wait asks for a completion event, but Kafka is not configured.
        """
        if self.publish_completion is False:
            return None
        asked = self.publish_completion or self.completion_topic is not None
        if kafka is None:
            if asked:
                raise InvalidError(
                    "data.publishCompletion", "needs Kafka; MUSTER_KAFKA_BOOTSTRAP is not set"
                )
            return None
        if asked or kafka.completions is CompletionPolicy.ALL:
            return self.completion_topic or kafka.completion_topic
        return None

    def to_spec(self) -> WaitSpec:
        """Return the part of the configuration that the actor needs."""
        call = self.api_call
        return WaitSpec(
            events=self.expected(),
            strategy=self.aggregation_strategy,
            listed=self.required_events if self.aggregation_strategy is Strategy.CUSTOM else (),
            quorum=self.quorum or 0,
            timeout=self.timeout,
            on_timeout=self.on_timeout,
            output=self.output_mapping,
            call=_call(call) if call and call.enabled else NO_CALL,
        )


def _expected(name: str, source: Source, label: str | None, event: _Event) -> ExpectedEvent:
    return ExpectedEvent(
        name=name,
        source=source,
        label=label,
        required=event.required,
        timeout=event.timeout,
        filter=getattr(event, "filter", {}),
        ids=event.ids(),
    )


def _call(call: ApiCall) -> msgspec.Raw:
    """Return the call as it is stored; header values that are no templates may be secret."""
    kept = {"url", "method", "headers", "body", "response_mode"}
    document = call.model_dump(include=kept, exclude_defaults=True, by_alias=True)
    if "headers" in document:
        given = document["headers"].items()
        document["headers"] = {name: text if "@{" in text else MASK for name, text in given}
    return msgspec.Raw(msgspec.json.encode(document))


def _check_listed(listed: tuple[str, ...], names: list[str]) -> None:
    if not listed:
        raise ValueError("requiredEvents must list at least one event for strategy custom")
    unknown = sorted(set(listed) - set(names))
    if unknown:
        raise ValueError(f"requiredEvents names {', '.join(unknown)}, which is not enabled")
    if len(set(listed)) != len(listed):
        raise ValueError("requiredEvents must not repeat a name")


def _check_required(events: tuple[ExpectedEvent, ...]) -> None:
    if not any(event.required for event in events):
        raise ValueError("strategy required_only needs an event with required: true")


def _check_quorum(quorum: int | None, names: list[str]) -> None:
    if quorum is None or quorum > len(names):
        raise ValueError(f"quorum must be between 1 and the {len(names)} enabled events")
