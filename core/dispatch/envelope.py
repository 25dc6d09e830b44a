"""A delivery as it goes over the wire: its body, and the headers that tell what it is."""

from collections.abc import Iterator

import msgspec

from core.dispatch.claimed import Claimed, ClaimedEvent, Profile
from core.dispatch.headers import added, fact, joined, plain
from core.dispatch.job import Kind
from core.dispatch.signature import sign_classic, sign_standard, to_millis
from core.event import BYTES, JSON, is_json
from core.moment import moment
from core.subscription import Signature

LONGEST_FACT = 4_000
"""Receivers take so much of a header at least. What is longer, once encoded, is left out."""
LONGEST_FACTS = 8_000
"""And so much of all extensions of an event together."""


class Envelope(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The body of a delivery that is more than its data."""

    id: str
    kind: Kind
    code: str
    subject: str | None
    event_id: str | None
    correlation_id: str | None
    timestamp: str
    data: msgspec.Raw | str | msgspec.UnsetType | None = msgspec.UNSET
    data_base64: bytes | msgspec.UnsetType = msgspec.UNSET


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def body_of(job: Claimed) -> tuple[bytes, str | None]:
    """The body and its media type: the data as it came, or once in an envelope.

    It is the same each time the job is sent. No data is no body, which has no media type.
    """
    if not job.data_only:
        return _encode(_envelope(job)), JSON
    if job.payload is None:
        return b"", None
    return job.payload, job.content_type or BYTES


def headers_of(
    job: Claimed, profile: Profile, body: bytes, content_type: str | None, now: float
) -> dict[str, str]:
    """All headers, signature included. `now` is when the delivery is signed."""
    headers = dict(profile.added)
    if job.headers or job.auth:
        headers = joined(headers, added(job.headers, job.auth))
    if content_type is not None:
        headers["Content-Type"] = plain(content_type)
    if profile.signature is Signature.CLASSIC:
        headers |= _classic_facts(job)
        headers |= sign_classic(profile.secrets, now, body)
    else:
        headers |= _facts(job)
        headers |= sign_standard(profile.secrets, job.job_id, int(now), body)
    headers["Idempotency-Key"] = fact(idempotency_key(job))
    if job.data_only and job.event is not None and job.event_id is not None:
        headers |= _cloud_event(job, job.event, job.event_id)
    return headers


def idempotency_key(job: Claimed) -> str:
    """What is the same each time a job is sent, and for no other job."""
    if job.idempotency_key is not None:
        return job.idempotency_key
    if job.event_id is not None and job.subscription_id is not None:
        return f"{job.event_id}:{job.subscription_id}"
    return job.job_id


def _envelope(job: Claimed) -> Envelope:
    envelope = Envelope(
        id=job.job_id,
        kind=job.kind,
        code=job.code,
        subject=job.subject,
        event_id=job.event_id,
        correlation_id=job.correlation_id,
        timestamp=to_millis(job.event.time if job.event else job.created_at),
    )
    payload = job.payload
    if payload is None:
        return msgspec.structs.replace(envelope, data=None)
    if is_json(job.content_type or BYTES) and _is_document(payload):
        return msgspec.structs.replace(envelope, data=msgspec.Raw(payload))
    try:
        return msgspec.structs.replace(envelope, data=payload.decode())
    except UnicodeDecodeError:
        return msgspec.structs.replace(envelope, data_base64=payload)


def _is_document(payload: bytes) -> bool:
    try:
        _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _facts(job: Claimed) -> dict[str, str]:
    headers = {"X-Muster-Job-Id": job.job_id, "X-Muster-Attempt": str(job.attempt_count + 1)}
    headers["X-Muster-Event-Type"] = fact(job.code)
    _put(headers, "X-Muster-Event-Id", job.event_id)
    _put(headers, "X-Muster-Subscription-Id", job.subscription_id)
    _put(headers, "X-Muster-Correlation-Id", job.correlation_id)
    _put(headers, "X-Muster-Subject", job.subject)
    return headers


def _classic_facts(job: Claimed) -> dict[str, str]:
    headers = {
        "X-FlowCatalyst-ID": job.job_id,
        "X-FlowCatalyst-Dispatch-Job-Id": job.job_id,
        "X-FlowCatalyst-Kind": job.kind.value,
        "X-FlowCatalyst-Code": fact(job.code),
        "X-FlowCatalyst-Attempt": str(job.attempt_count + 1),
    }
    _put(headers, "X-FlowCatalyst-Event-Id", job.event_id)
    _put(headers, "X-FlowCatalyst-Causation-ID", job.event_id)
    _put(headers, "X-FlowCatalyst-Subscription-Id", job.subscription_id)
    _put(headers, "X-FlowCatalyst-Correlation-ID", job.correlation_id)
    _put(headers, "X-FlowCatalyst-Subject", job.subject)
    return headers


def _cloud_event(job: Claimed, event: ClaimedEvent, event_id: str) -> dict[str, str]:
    """The event's attributes, so that a receiver has it in binary mode."""
    headers = {
        "ce-specversion": event.spec_version,
        "ce-id": fact(event_id),
        "ce-type": fact(event.type),
        "ce-source": fact(event.source),
        "ce-time": moment(event.time),
    }
    _put(headers, "ce-subject", event.subject)
    _put(headers, "ce-dataschema", event.data_schema)
    _put(headers, "ce-typeversion", event.type_version)
    _put(headers, "ce-correlationid", job.correlation_id)
    _put(headers, "ce-causationid", event.causation_id)
    _put(headers, "ce-messagegroup", event.message_group)
    left = LONGEST_FACTS
    for name, value in _extensions(event):
        left -= len(name) + len(value)
        if left < 0:
            break
        headers.setdefault(f"ce-{name}", value)
    return headers


def _extensions(event: ClaimedEvent) -> Iterator[tuple[str, str]]:
    for name, value in event.extensions.items():
        if isinstance(value, bool):
            yield name, "true" if value else "false"
        else:
            yield name, fact(str(value))


def _put(headers: dict[str, str], name: str, value: str | None) -> None:
    if value is not None:
        safe = fact(value)
        if len(safe) <= LONGEST_FACT:
            headers[name] = safe
