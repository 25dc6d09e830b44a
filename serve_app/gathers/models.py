"""Requests and responses of gathers and resources."""

import re
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator

from core.gathers.gather import (
    DEFAULT_GRACE_MS,
    DEFAULT_TIMEOUT_MS,
    MAX_TIMEOUT_MS,
    NO_BODY,
    Completeness,
    GatherMode,
    GatherSpec,
    OnDisconnect,
    Question,
    ReplyBy,
    Resource,
)
from core.shared.call_outcome import CallState
from core.waits.strategy import Status
from serve_app.http.fields import Auth
from serve_app.http.models import WireModel

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
        description=f"Milliseconds for the whole; more than {MAX_TIMEOUT_MS} is capped, and a "
        "Warning header says so.",
    ),
]
Grace = Annotated[int, Field(ge=0, le=60_000, description="Milliseconds a reader may be away.")]


def _are_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
            raise ValueError(f"{name[:50]!r} is no header that can be set here")
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
        """Convert the request to the core's type."""
        return Resource(
            url=self.url,
            method=self.method,
            headers=self.headers,
            authorization=self.auth.header() if self.auth else None,
            connect_timeout=self.connect_timeout_ms / 1000,
            read_timeout=self.read_timeout_ms / 1000,
            rate_per_minute=self.rate_per_minute,
            concurrency=self.concurrency,
            reply=self.reply,
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
        """Convert the resource to the core's type."""
        resource = Resource(
            url=self.url, method=self.method, headers=self.headers, reply=self.reply
        )
        body = NO_BODY if self.body is None else msgspec.Raw(msgspec.json.encode(self.body))
        return Question(name=self.name, inline=resource, body=body)


def _form(given: Any) -> str:
    return "(name)" if isinstance(given, str) else "(resource)"


AnyResource = Annotated[
    Annotated[ResourceNameText, Tag("(name)")] | Annotated[InlineResource, Tag("(resource)")],
    Discriminator(_form),
]


class GatherRequest(WireModel):
    """The resources to ask, and how to return their answers."""

    resources: Annotated[
        list[AnyResource],
        Field(min_length=1, max_length=MAX_RESOURCES, description="Registered names, or whole."),
    ]
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS
    mode: GatherMode = Field(
        GatherMode.STREAM, description="Answer at once and stream, or wait for all."
    )
    context: dict[str, Any] = Field({}, description="Given to each resource, and given back.")
    on_disconnect: OnDisconnect = Field(
        OnDisconnect.CANCEL, description="What becomes of it when its last reader goes away."
    )
    grace_ms: Grace = DEFAULT_GRACE_MS

    @field_validator("resources")
    @classmethod
    def _are_different(cls, given: list[str | InlineResource]) -> list[str | InlineResource]:
        names = [one if isinstance(one, str) else one.name for one in given]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{twice[0]} is there twice")
        return given

    def to_asked(self, trace: str) -> GatherSpec:
        """Convert the request to the core's type."""
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


class ResourceView(WireModel):
    """A registered resource; secrets are masked."""

    name: str
    url: str
    method: str
    headers: dict[str, str]
    auth: dict[str, str] | None
    connect_timeout_ms: int
    read_timeout_ms: int
    rate_per_minute: int | None
    concurrency: int
    reply: ReplyBy
    created_at: str
    updated_at: str


class ResourcePage(WireModel):
    """Resources by name."""

    items: list[ResourceView]
    next_cursor: str | None


class GatherResourceView(WireModel):
    """The state of one resource of a gather."""

    state: CallState
    at: str | None = None
    detail: str | None = None
    data: Any = None


class GatherView(WireModel):
    """The state of a gather."""

    id: str
    correlation_id: str
    status: Status
    completeness: Completeness | None = None
    respondents: int
    errors: int
    received: int
    expected: int
    context: Any
    created_at: str
    expires_at: str
    ended_at: str | None = None
    reason: str | None = None
    resources: dict[str, GatherResourceView]


class GatherStarted(WireModel):
    """A gather that was started, and the URL of its stream."""

    id: str
    correlation_id: str
    status: Status
    accepted: int = Field(description="Resources that had agreed to answer by then.")
    resources: list[str]
    timeout_ms: int
    expires_at: str
    url: str
    stream_url: str
