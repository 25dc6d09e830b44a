"""The body and the headers of a delivery."""

import msgspec

from core.dispatch.claim import ClaimedEvent, ClaimedJob, DeliveryProfile
from core.dispatch.headers import (
    custom_headers,
    encode_header_value,
    encode_header_values,
    merge_headers,
    plain_header_value,
)
from core.dispatch.job import Kind
from core.dispatch.sent_at import to_micros, to_millis
from core.dispatch.signature import sign_classic, sign_standard
from core.dispatch.subscription import Signature
from core.shared.json_path import is_json
from core.shared.media_types import BYTES, JSON, is_json_type

MAX_HEADER_CHARS = 4_000
"""The longest encoded header that is sent, because receivers limit headers."""
MAX_HEADERS_CHARS = 8_000
"""The longest total of all extensions of an event."""


class Envelope(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The body of a delivery that contains more than the data."""

    id: str
    kind: Kind
    code: str
    subject: str | None
    event_id: str | None
    correlation_id: str | None
    timestamp: str
    tenant: str | msgspec.UnsetType = msgspec.UNSET
    """The tenant of the event; only deliveries to the anchor have it."""
    data: msgspec.Raw | str | msgspec.UnsetType | None = msgspec.UNSET
    data_base64: bytes | msgspec.UnsetType = msgspec.UNSET


_encode = msgspec.json.Encoder().encode


def body_of(job: ClaimedJob) -> tuple[bytes, str | None]:
    """Return the body and its media type: the original data, or an envelope around the data.

    The body is the same in each attempt. An empty body has no media type.
    """
    if not job.data_only:
        return _encode(_envelope(job)), JSON
    if job.payload is None:
        return b"", None
    return job.payload, job.content_type or BYTES


def headers_of(
    job: ClaimedJob, profile: DeliveryProfile, body: bytes, content_type: str | None, now: float
) -> dict[str, str]:
    """Return all headers, with a signature made at `now`."""
    headers = dict(profile.extra_headers)
    if job.headers or job.auth:
        headers = merge_headers(headers, custom_headers(job.headers, job.auth))
    if content_type is not None:
        headers["Content-Type"] = plain_header_value(content_type)
    classic = (job.signature or profile.signature) is Signature.CLASSIC
    facts = _classic_facts(job) if classic else _facts(job)
    if job.data_only and job.event is not None:
        facts |= _cloud_event(job, job.event)
    headers |= encode_header_values(facts, MAX_HEADER_CHARS)
    headers["Idempotency-Key"] = encode_header_value(idempotency_key(job))
    if classic:
        headers |= sign_classic(profile.secrets, now, body)
    else:
        headers |= sign_standard(profile.secrets, job.job_id, int(now), body)
    return headers


def idempotency_key(job: ClaimedJob) -> str:
    """Return a key that is unique to the job and the same in each attempt."""
    if job.idempotency_key is not None:
        return job.idempotency_key
    if job.event_id is not None and job.subscription_id is not None:
        return f"{job.event_id}:{job.subscription_id}"
    return job.job_id


def _envelope(job: ClaimedJob) -> Envelope:
    envelope = Envelope(
        id=job.job_id,
        kind=job.kind,
        code=job.code,
        subject=job.subject,
        event_id=job.event_id,
        correlation_id=job.correlation_id,
        timestamp=to_millis(job.event.time if job.event else job.created_at),
        tenant=job.event_tenant or msgspec.UNSET,
    )
    payload = job.payload
    if payload is None:
        return msgspec.structs.replace(envelope, data=None)
    if is_json_type(job.content_type or BYTES) and is_json(payload):
        return msgspec.structs.replace(envelope, data=msgspec.Raw(payload))
    try:
        return msgspec.structs.replace(envelope, data=payload.decode())
    except UnicodeDecodeError:
        return msgspec.structs.replace(envelope, data_base64=payload)


def _facts(job: ClaimedJob) -> dict[str, str | None]:
    return {
        "X-Muster-Job-Id": job.job_id,
        "X-Muster-Attempt": str(job.attempt_count + 1),
        "X-Muster-Event-Type": job.code,
        "X-Muster-Event-Id": job.event_id,
        "X-Muster-Subscription-Id": job.subscription_id,
        "X-Muster-Correlation-Id": job.correlation_id,
        "X-Muster-Subject": job.subject,
        "X-Muster-Client-Id": job.client_id,
        "X-Muster-Tenant": job.event_tenant,
    }


def _classic_facts(job: ClaimedJob) -> dict[str, str | None]:
    return {
        "X-FlowCatalyst-ID": job.job_id,
        "X-FlowCatalyst-Dispatch-Job-Id": job.job_id,
        "X-FlowCatalyst-Kind": job.kind.value,
        "X-FlowCatalyst-Code": job.code,
        "X-FlowCatalyst-Attempt": str(job.attempt_count + 1),
        "X-FlowCatalyst-Event-Id": job.event_id,
        "X-FlowCatalyst-Causation-ID": job.event_id,
        "X-FlowCatalyst-Subscription-Id": job.subscription_id,
        "X-FlowCatalyst-Correlation-ID": job.correlation_id,
        "X-FlowCatalyst-Subject": job.subject,
        "X-FlowCatalyst-Client-Id": job.client_id,
        "X-FlowCatalyst-Tenant": job.event_tenant,
    }


def _cloud_event(job: ClaimedJob, event: ClaimedEvent) -> dict[str, str | None]:
    """Return the event's attributes as headers of a CloudEvent in binary mode."""
    attributes: dict[str, str | None] = {
        "ce-specversion": event.spec_version,
        "ce-id": job.event_id,
        "ce-type": event.type,
        "ce-source": event.source,
        "ce-time": to_micros(event.time),
        "ce-subject": event.subject,
        "ce-dataschema": event.data_schema,
        "ce-typeversion": event.type_version,
        "ce-correlationid": job.correlation_id,
        "ce-causationid": event.causation_id,
        "ce-messagegroup": event.message_group,
    }
    return {**_extensions(event), **attributes} if event.extensions else attributes


def _extensions(event: ClaimedEvent) -> dict[str, str]:
    """Return as many extensions as fit into the limit."""
    written: dict[str, str] = {}
    left = MAX_HEADERS_CHARS
    for name, value in event.extensions.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        left -= len(name) + len(encode_header_value(text))
        if left < 0:
            break
        written[f"ce-{name}"] = text
    return written
