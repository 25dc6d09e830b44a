"""Gathers: the resources that are asked, the calls to them and the summary of their answers."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from core.shared.address import Address
from core.shared.call_outcome import CallState
from core.waits.spec import ExpectedEvent, Source, Strategy, WaitSpec
from core.waits.state import EventState, Wait
from core.waits.strategy import Outcome

NODE = "gather"
DEFAULT_TIMEOUT_MS = 10_000
MAX_TIMEOUT_MS = 27_000
DEFAULT_GRACE_MS = 2_000
NO_BODY = msgspec.Raw()


class ReplyBy(StrEnum):
    """How a resource answers: by calling back later, or in its reply to the call."""

    CALLBACK = "callback"
    DIRECT = "direct"


class GatherMode(StrEnum):
    """How the caller receives the answers: one by one, or all at once."""

    STREAM = "stream"
    WAIT = "wait"


class OnDisconnect(StrEnum):
    """What becomes of a gather without readers."""

    CANCEL = "cancel"
    DETACH = "detach"


class Completeness(StrEnum):
    """How many of the resources answered."""

    FULL = "full"
    PARTIAL = "partial"
    EMPTY = "empty"


class Resource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A service that can be asked. Times are in seconds; `authorization` is a secret."""

    url: str
    method: str = "POST"
    headers: dict[str, str] = {}
    authorization: str | None = None
    encrypted: str | None = None
    """Headers and authorization as they are stored, until they are decrypted."""
    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    rate_per_minute: int | None = None
    concurrency: int = 200
    reply: ReplyBy = ReplyBy.CALLBACK

    def __repr__(self) -> str:
        """Leave out address, headers and authorization: they may be secret."""
        return f"Resource({self.method}, reply={self.reply.value!r})"


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One resource of a gather: a registered one by name, or one that came with the request."""

    name: str
    inline: Resource | None = None
    path: str = ""
    """Appended to the URL."""
    reply: ReplyBy | None = None
    body: msgspec.Raw = NO_BODY
    """JSON to send; without any, the ids, the callback URL and the context are sent."""


class GatherSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A gather's request, stored as the first entry of the correlation's log."""

    asks: tuple[Question, ...]
    context: msgspec.Raw = msgspec.Raw(b"null")
    mode: GatherMode = GatherMode.STREAM
    on_disconnect: OnDisconnect = OnDisconnect.CANCEL
    grace: float = DEFAULT_GRACE_MS / 1000
    trace: str = ""
    callback_path: str = ""
    """The path of callback URLs, with `{name}` in the place of the resource's name."""
    format: str = ""
    """The format of the answers to the caller."""
    ids_in_body: bool = False
    """Whether the ids and the callback URL are added to a body that came with the request."""
    reads_status: bool = False
    """Whether the field `status` of a direct answer is its outcome."""
    fixed_names: bool = False
    """Whether resources have the instance's names even if they came with the request."""


class GatherCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call to make, with everything that a call pool needs for it."""

    address: Address
    expires_at: float
    name: str
    resource: Resource
    callback_url: str
    trace: str = ""
    body: bytes = b""
    """The body that came with the request; without one, the gather's context is sent."""
    ids_in_body: bool = False
    reads_status: bool = False
    inline: bool = False
    """Whether the resource came with the request: another one may have the same name."""

    def __repr__(self) -> str:
        """Leave out the body and the callback URL, which contains a token."""
        return f"GatherCall({self.name!r}, {self.address!r}, {self.resource!r})"

    @property
    def call_key(self) -> tuple[bytes, str]:
        return self.address.key, self.name


class CallBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """Calls of one gather, and the context that all of them send."""

    calls: tuple[GatherCall, ...]
    context: bytes = b"null"


class GatherSummary(msgspec.Struct, frozen=True):
    """How many resources answered. A rejection is neither a respondent nor an error."""

    expected: int
    respondents: int
    errors: int
    received: int

    @property
    def completeness(self) -> Completeness:
        if self.respondents == self.expected:
            return Completeness.FULL
        return Completeness.PARTIAL if self.respondents else Completeness.EMPTY


def wait_spec_of(
    asks: Iterable[Question], timeout: float, *, fixed_names: bool = False
) -> WaitSpec:
    """Return what the correlation waits for: an answer of any kind from each resource."""
    return WaitSpec(
        events=tuple(
            ExpectedEvent(
                name=ask.name,
                source=Source.API,
                label=ask.name,
                inline=ask.inline is not None and not fixed_names,
            )
            for ask in asks
        ),
        strategy=Strategy.SETTLED,
        timeout=timeout,
        gather=True,
    )


def summarize(wait: Wait) -> GatherSummary:
    outcomes = [mark.outcome for mark in wait.marks]
    return GatherSummary(
        expected=len(outcomes),
        respondents=outcomes.count(Outcome.RECEIVED),
        errors=outcomes.count(Outcome.TIMED_OUT) + outcomes.count(Outcome.FAILED),
        received=len(outcomes) - outcomes.count(Outcome.PENDING),
    )


_STATES = {
    Outcome.RECEIVED: CallState.OK,
    Outcome.REJECTED: CallState.REJECTED,
    Outcome.TIMED_OUT: CallState.TIMEOUT,
    Outcome.FAILED: CallState.ERROR,
}


def state_of(mark: EventState, document: Any = None) -> CallState:
    """Return the state of one resource; `document` is its answer."""
    if mark.outcome is Outcome.PENDING:
        return CallState.ACCEPTED if mark.at else CallState.CALLING
    return state_of_outcome(mark.outcome, document)


def state_of_outcome(outcome: Outcome, document: Any) -> CallState:
    if outcome is Outcome.FAILED and reported_status(document) == CallState.CONNECTION_CLOSED:
        return CallState.CONNECTION_CLOSED
    return _STATES[outcome]


def outcome_reported(document: Any) -> Outcome:
    match reported_status(document):
        case CallState.REJECTED:
            return Outcome.REJECTED
        case CallState.TIMEOUT:
            return Outcome.TIMED_OUT
        case CallState.CONNECTION_CLOSED | CallState.ERROR:
            return Outcome.FAILED
        case _:
            return Outcome.RECEIVED


def reported_status(document: Any) -> str:
    """Return the field `status` in upper case, or nothing."""
    status = document.get("status") if isinstance(document, dict) else None
    return status.upper() if isinstance(status, str) else ""


def failure(state: CallState, detail: str) -> bytes:
    """Return what is stored for a resource that did not answer."""
    return msgspec.json.encode({"status": state, "detail": detail})


def callback_url(public_url: str, spec: GatherSpec, name: str, token: str) -> str:
    return f"{public_url}{spec.callback_path.replace('{name}', name)}?token={token}"


def build_call_batch(
    spec: GatherSpec,
    address: Address,
    expires_at: float,
    known: dict[str, Resource],
    urls: Sequence[str],
) -> CallBatch:
    """Make the calls of a gather; a resource that was removed meanwhile is left out."""
    calls: list[GatherCall] = []
    for ask, url in zip(spec.asks, urls, strict=True):
        resource = ask.inline or known.get(ask.name)
        if resource is None:
            continue
        changes: dict[str, Any] = {"url": _below(resource.url, ask.path)}
        if ask.reply is not None:
            changes["reply"] = ask.reply
        calls.append(
            GatherCall(
                address=address,
                expires_at=expires_at,
                name=ask.name,
                resource=msgspec.structs.replace(resource, **changes),
                callback_url=url,
                trace=spec.trace,
                body=bytes(ask.body),
                ids_in_body=spec.ids_in_body,
                reads_status=spec.reads_status,
                inline=ask.inline is not None and not spec.fixed_names,
            )
        )
    if all(call.body for call in calls):
        return CallBatch(tuple(calls))
    return CallBatch(tuple(calls), bytes(spec.context))


def call_body(call: GatherCall, context: bytes) -> bytes:
    """Return the body to send: the one of the request, or one with ids, URL and context."""
    if call.body and not call.ids_in_body:
        return call.body
    document: dict[str, Any] = {"correlationId": call.address.correlation_id}
    if call.resource.reply is ReplyBy.CALLBACK:
        document["callbackUrl"] = call.callback_url
    if call.body:
        return msgspec.json.encode(msgspec.json.decode(call.body) | document)
    return msgspec.json.encode({"resource": call.name, "context": msgspec.Raw(context)} | document)


def _below(url: str, path: str) -> str:
    base, mark, query = url.partition("?")
    return (base.rstrip("/") + path if path else base) + mark + query


encode_gather_spec = msgspec.json.Encoder().encode
decode_gather_spec = msgspec.json.Decoder(GatherSpec).decode
encode_call_batch = msgspec.msgpack.Encoder().encode
decode_call_batch = msgspec.msgpack.Decoder(CallBatch).decode
