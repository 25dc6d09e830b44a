"""Requests and responses of gathers and resources."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import (
    AfterValidator,
    AliasPath,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    field_validator,
)

from core.gathers import gather
from core.gathers.gather import (
    Completeness,
    GatherMode,
    GatherSpec,
    OnDisconnect,
    Question,
    ReplyBy,
    Resource,
)
from core.shared.call_outcome import CallState
from core.shared.json_path import json_or_text
from core.shared.timestamps import to_iso
from core.waits.config import MASK
from core.waits.state import EventState, Wait
from core.waits.strategy import Outcome, Status
from serve_app.gathers.stream_format import decoded, detail_of
from serve_app.http.fields import Auth, MaskedHeaders, optional
from serve_app.http.models import PayloadView, View, WireModel

MAX_RESOURCES = 100
CALLBACK_PATH = "/api/internal/callbacks/{name}"
RESOURCE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
_URL = r"^https?://[^\s/?#@]+(/[^\s#]*)?(\?[^\s#]*)?$"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Muster or the connection sets these headers, so a resource cannot choose them.
_OURS = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "x-correlation-id",
        "x-callback-url",
        "idempotency-key",
        "traceparent",
    }
)

ResourceNameText = Annotated[str, Field(pattern=RESOURCE_NAME, examples=["resource-1"])]
Url = Annotated[str, Field(pattern=_URL, max_length=2_000, examples=["https://example.org/ask"])]
Method = Literal["POST", "PUT", "PATCH", "GET"]
Milliseconds = Annotated[int, Field(ge=1, le=3_600_000)]
Timeout = Annotated[
    int,
    Field(
        ge=1,
        le=2**31 - 1,
        description=f"Milliseconds for the whole; more than {gather.MAX_TIMEOUT_MS} is capped, and "
        "a Warning header says so.",
    ),
]
Grace = Annotated[int, Field(ge=0, le=60_000, description="Milliseconds a reader may be away.")]


def _are_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
            raise ValueError(f"headers that can be set here; {name[:50]!r} cannot")
        if not value.isascii() or not value.isprintable():
            raise ValueError(f"the value of {name} must be printable ASCII")
    return headers


CallHeaders = Annotated[dict[str, str], Field(max_length=50), AfterValidator(_are_headers)]


class ResourceRequest(WireModel):
    """A resource to register."""

    url: Url
    method: Method = "POST"
    headers: CallHeaders = Field({})
    auth: Auth | None = None
    connect_timeout_ms: Milliseconds = 5_000
    read_timeout_ms: Milliseconds = 30_000
    rate_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 200
    reply: ReplyBy = Field(
        ReplyBy.CALLBACK, description="Whether it calls back later or answers in its reply."
    )

    def to_resource(self) -> Resource:
        return Resource(
            **self.model_dump(exclude={"auth", "connect_timeout_ms", "read_timeout_ms"}),
            authorization=self.auth.header() if self.auth else None,
            connect_timeout=self.connect_timeout_ms / 1000,
            read_timeout=self.read_timeout_ms / 1000,
        )


class InlineResource(WireModel):
    """A resource that is defined in a gather and stored only with the gather."""

    name: ResourceNameText
    url: Url
    method: Method = "POST"
    headers: CallHeaders = Field({})
    body: Any = Field(None, description="Sent as it is; else ids, callback URL and context are.")
    reply: ReplyBy = ReplyBy.DIRECT

    def to_ask(self) -> Question:
        resource = Resource(**self.model_dump(include={"url", "method", "headers", "reply"}))
        body = gather.NO_BODY if self.body is None else msgspec.Raw(msgspec.json.encode(self.body))
        return Question(name=self.name, inline=resource, body=body)


AnyResource = Annotated[
    Annotated[ResourceNameText, Tag("(name)")] | Annotated[InlineResource, Tag("(resource)")],
    Discriminator(lambda given: "(name)" if isinstance(given, str) else "(resource)"),
]


class GatherRequest(WireModel):
    """The resources to ask, and how to return their answers."""

    resources: Annotated[
        list[AnyResource],
        Field(min_length=1, max_length=MAX_RESOURCES, description="Registered names, or whole."),
    ]
    timeout_ms: Timeout = gather.DEFAULT_TIMEOUT_MS
    mode: GatherMode = Field(
        GatherMode.STREAM, description="Answer at once and stream, or wait for all."
    )
    context: dict[str, Any] = Field({}, description="Given to each resource, and given back.")
    on_disconnect: OnDisconnect = Field(
        OnDisconnect.CANCEL, description="What becomes of it when its last reader goes away."
    )
    grace_ms: Grace = gather.DEFAULT_GRACE_MS

    @field_validator("resources")
    @classmethod
    def _are_different(cls, given: list[str | InlineResource]) -> list[str | InlineResource]:
        names = [one if isinstance(one, str) else one.name for one in given]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"each resource once; {twice[0]} is named twice")
        return given

    def to_spec(self, trace: str) -> GatherSpec:
        asks = [
            Question(name=one) if isinstance(one, str) else one.to_ask() for one in self.resources
        ]
        return GatherSpec(
            asks=tuple(asks),
            context=msgspec.Raw(msgspec.json.encode(self.context)),
            mode=self.mode,
            on_disconnect=self.on_disconnect,
            grace=self.grace_ms / 1000,
            trace=trace,
            callback_path=CALLBACK_PATH,
        )


def _masked(authorization: str | None) -> dict[str, str] | None:
    if authorization is None:
        return None
    return {"type": authorization.partition(" ")[0].lower(), "secret": MASK}


def _resource(name: str) -> Any:
    return Field(validation_alias=AliasPath("resource", name))


_Duration = Annotated[int, BeforeValidator(lambda seconds: round(seconds * 1000))]
_Time = Annotated[str, BeforeValidator(to_iso)]


class ResourceView(View):
    """A registered resource; secrets are masked."""

    name: str
    url: str = _resource("url")
    method: str = _resource("method")
    headers: MaskedHeaders = _resource("headers")
    auth: Annotated[dict[str, str] | None, BeforeValidator(_masked)] = _resource("authorization")
    connect_timeout_ms: _Duration = _resource("connect_timeout")
    read_timeout_ms: _Duration = _resource("read_timeout")
    rate_per_minute: int | None = _resource("rate_per_minute")
    concurrency: int = _resource("concurrency")
    reply: ReplyBy = _resource("reply")
    created_at: _Time
    updated_at: _Time


class GatherResourceView(View):
    """The state of one resource of a gather."""

    state: CallState
    at: _Time | None = optional()
    detail: str | None = optional()
    data: Any = optional()

    @classmethod
    def of_mark(cls, mark: EventState, payload: bytes) -> Self:
        """Render what a resource answered, or the error that took its place."""
        is_answered = mark.outcome is Outcome.RECEIVED
        # An answer is passed on unchanged; only an error is decoded to describe it.
        document = None if is_answered else decoded(payload)
        detail = {} if mark.outcome is Outcome.PENDING else detail_of(document)
        return cls.of(
            {
                "state": gather.state_of(mark, document),
                "at": mark.at or None,
                "data": json_or_text(payload) if is_answered else None,
                **detail,
            }
        )


class GatherView(PayloadView):
    """The state of a gather."""

    id: str
    correlation_id: str
    status: Status
    completeness: Completeness | None = optional()
    respondents: int
    errors: int
    received: int
    expected: int
    context: Any
    created_at: _Time
    expires_at: _Time
    ended_at: _Time | None = optional()
    reason: str | None = optional()
    resources: dict[str, GatherResourceView]

    @classmethod
    def of_wait(cls, wait: Wait, spec: GatherSpec, payloads: Mapping[str, bytes]) -> Self:
        summary = gather.summarize(wait)
        values = msgspec.structs.asdict(summary) | {
            "id": wait.address.correlation_id,
            "correlation_id": wait.address.correlation_id,
            "status": wait.status,
            "context": spec.context,
            "created_at": wait.opened_at,
            "expires_at": wait.expires_at,
            "resources": {
                name: GatherResourceView.of_mark(mark, payloads.get(name, b""))
                for name, mark in zip(wait.spec.names, wait.marks, strict=True)
            },
        }
        if wait.ending is not None:
            values |= {
                "ended_at": wait.ending.at,
                "reason": wait.ending.reason,
                "completeness": summary.completeness,
            }
        return cls.of(values)


class GatherStarted(View):
    """A gather that was started, and the URL of its stream."""

    id: str
    correlation_id: str
    status: Status
    accepted: int = Field(description="Resources that had agreed to answer by then.")
    resources: list[str]
    timeout_ms: int
    expires_at: _Time
    url: str
    stream_url: str
