"""Requests and responses of /api/events; core/events/cloud_event.py parses events."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from core.events.event import (
    DEDUPLICATION_LENGTH,
    EXTENSION_LENGTH,
    ID_LENGTH,
    KEY_LENGTH,
    MAX_CONTEXT_PAIRS,
    SCHEMA_LENGTH,
    SOURCE_LENGTH,
    SUBJECT_LENGTH,
    TYPE_LENGTH,
    VALUE_LENGTH,
    context_pair,
)
from core.events.event_type import VERSION
from core.shared.tsid import PATTERN
from core.waits.messages import Reason, Verdict
from serve_app.http.event_replies import ReplyDetails
from serve_app.http.models import QueryTimestamp, WireModel
from storage.events.events import EventFilter

_LINE = r"^[^\x00-\x1f\x7f-\x9f]+$"
_PAIR = r"^[^=\x00-\x1f\x7f-\x9f]+=[^\x00-\x1f\x7f-\x9f]+$"
_MAX_PAIRS = 10
# Unknown attributes are stored if their names follow the rule for CloudEvents extensions.
_EXTENSIONS: JsonDict = {
    "additionalProperties": False,
    "patternProperties": {
        "^[a-z0-9]{1,50}$": {
            "type": ["string", "integer", "boolean", "null"],
            "maxLength": EXTENSION_LENGTH,
        }
    },
}

EventTypeText = Annotated[
    str,
    Field(
        min_length=1,
        max_length=TYPE_LENGTH,
        pattern=r"^[^*]+$",
        examples=["shop:orders:order:created", "order.created"],
    ),
]
SourceText = Annotated[str, Field(min_length=1, max_length=SOURCE_LENGTH, pattern=_LINE)]
SubjectText = Annotated[str, Field(min_length=1, max_length=SUBJECT_LENGTH, pattern=_LINE)]
IdText = Annotated[str, Field(min_length=1, max_length=ID_LENGTH, pattern=_LINE)]
DeduplicationIdText = Annotated[
    str, Field(min_length=1, max_length=DEDUPLICATION_LENGTH, pattern=_LINE)
]
SchemaUri = Annotated[str, Field(min_length=1, max_length=SCHEMA_LENGTH, pattern=_LINE)]


class ContextPair(WireModel):
    """A name and a value to find events by."""

    key: Annotated[
        str,
        Field(min_length=1, max_length=KEY_LENGTH, pattern=r"^[^=\x00-\x1f\x7f-\x9f]+$"),
    ]
    value: Annotated[str, Field(min_length=1, max_length=VALUE_LENGTH, pattern=_LINE)]


class NewEvent(BaseModel):
    """An event in plain JSON. The names of CloudEvents (`correlationid`) are accepted too."""

    model_config = ConfigDict(alias_generator=to_camel, json_schema_extra=_EXTENSIONS)

    type: EventTypeText
    source: SourceText
    subject: SubjectText | None = None
    data: Any = Field(
        None, description="Kept to the byte. A text that holds a JSON object or array is that."
    )
    data_base64: str | None = Field(None, alias="dataBase64", description="Bytes, instead of data.")
    data_content_type: str | None = Field(None, description="Default: application/json.")
    data_schema: SchemaUri | None = Field(
        None, description="If it ends in a version, that is the version of the event's type."
    )
    type_version: Annotated[str, Field(pattern=VERSION)] | None = None
    time: AwareDatetime | None = Field(None, description="Default: now.")
    spec_version: Literal["1.0"] | None = None
    id: IdText | None = Field(
        None, description="The sender's own. Stands for deduplicationId, together with source."
    )
    execution_id: IdText | None = Field(
        None, description="With correlationId: the wait that the event is for."
    )
    correlation_id: IdText | None = None
    causation_id: IdText | None = None
    deduplication_id: DeduplicationIdText | None = Field(
        None, description="Sent again with the same id, the event is the first one."
    )
    message_group: IdText | None = Field(
        None, description="Deliveries of one group keep their order, where that is asked for."
    )
    context_data: Annotated[list[ContextPair], Field(max_length=MAX_CONTEXT_PAIRS)] | None = None


class NewCloudEvent(BaseModel):
    """A CloudEvent 1.0 in structured mode, with the extensions that Muster uses."""

    model_config = ConfigDict(json_schema_extra=_EXTENSIONS)

    specversion: Literal["1.0"]
    id: IdText
    source: SourceText
    type: EventTypeText
    subject: SubjectText | None = None
    time: AwareDatetime | None = None
    datacontenttype: str | None = None
    dataschema: SchemaUri | None = None
    data: Any = None
    data_base64: str | None = None
    typeversion: Annotated[str, Field(pattern=VERSION)] | None = None
    executionid: IdText | None = None
    correlationid: IdText | None = None
    causationid: IdText | None = None
    deduplicationid: DeduplicationIdText | None = None
    messagegroup: IdText | None = None


class EventSummary(WireModel):
    """An event in a listing, without its data."""

    id: str
    spec_version: str
    type: str
    source: str
    subject: str | None = None
    time: datetime
    data_content_type: str | None = None
    data_schema: str | None = None
    data_size: int | None = Field(None, description="Bytes of its data.")
    type_version: str | None = Field(None, description="What it was held against, or says it is.")
    execution_id: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    deduplication_id: str | None = None
    message_group: str | None = None
    context_data: list[ContextPair]
    extensions: dict[str, str | int | bool] | None = None
    created_at: datetime


class EventDocument(EventSummary):
    """An event."""

    data: Any = Field(None, description="JSON as it came, or text.")
    data_base64: str | None = Field(None, alias="dataBase64", description="Data that is no text.")


class EventPage(WireModel):
    """Events, newest first."""

    items: list[EventSummary]
    next_cursor: str | None


class SchemaWarning(WireModel):
    """A place where an event's data does not match the schema of its type."""

    path: str
    expected: str


class WaitReply(ReplyDetails):
    """The reply of a wait to an event. The event is stored, whatever the verdict.

    A verdict of `refused` has `retryable`: whether the wait may accept the event if it is sent
    again with its `deduplicationId`, which stores nothing a second time.
    """

    verdict: Verdict | Literal["refused"]
    reason: Reason | Literal["overloaded", "unavailable", "log_full", "invalid", "conflict"]
    retryable: bool | None = None


class EventCreated(WireModel):
    """The stored event, or the first one with the same deduplicationId."""

    event: EventDocument
    duplicate: bool
    dispatch_job_count: int
    warnings: list[SchemaWarning] | None = None
    wait: WaitReply | None = Field(None, description="What its wait made of it.")


class IndexedWarnings(WireModel):
    """Warnings about one of the events."""

    index: int
    warnings: list[SchemaWarning]


class IndexedReply(WaitReply):
    """The reply of a wait to one of the events."""

    index: int


class EventsCreated(WireModel):
    """The stored events of a batch, in their order."""

    events: list[EventDocument]
    count: int
    dispatch_job_count: int
    duplicate_count: int
    warnings: list[IndexedWarnings] | None = None
    waits: list[IndexedReply] | None = None


class EventListQuery(WireModel):
    """Which events a listing shows."""

    type: Annotated[str, Field(min_length=1, max_length=TYPE_LENGTH, pattern=_LINE)] | None = Field(
        None,
        description="A type, or a pattern: * is any part of one segment.",
        examples=["shop:*:order:*"],
    )
    source: SourceText | None = None
    subject: SubjectText | None = None
    correlation_id: IdText | None = None
    message_group: IdText | None = None
    context: Annotated[
        list[Annotated[str, Field(max_length=KEY_LENGTH + 1 + VALUE_LENGTH, pattern=_PAIR)]],
        Field(max_length=_MAX_PAIRS),
    ] = Field([], description="key=value; all of them.")
    since: QueryTimestamp | None = Field(
        None, alias="from", description="Not earlier, by the event's own time."
    )
    until: QueryTimestamp | None = Field(None, alias="to", description="Earlier than this.")
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: Annotated[str, Field(pattern=PATTERN)] | None = Field(
        None, description="nextCursor of the page before."
    )

    def to_filter(self) -> EventFilter:
        values = self.model_dump(exclude={"limit", "cursor"}) | {
            "context": tuple(context_pair(pair) for pair in self.context),
            "since": None if self.since is None else self.since.timestamp(),
            "until": None if self.until is None else self.until.timestamp(),
        }
        return EventFilter(**values)
